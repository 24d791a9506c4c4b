package dashboard_test

import (
	"fmt"
	"html"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/internal/access"
	"github.com/taskengine/taskengine/internal/browsertest"
	"github.com/taskengine/taskengine/task"
)

// failedState is that of a task of the type fail when it has run.
const failedState = task.Error

func TestTasksAreListedByAFilterPageByPage(t *testing.T) {
	n := newNode(t)
	for i := range 120 {
		n.add(t, task.Request{Type: "later", Key: fmt.Sprint("k", i), At: time.Now().Add(time.Hour)})
	}
	n.add(t, task.Request{Type: "echo", At: time.Now().Add(time.Hour)})
	v := n.visit(t, "")
	next, seen := "tasks?q="+url.QueryEscape("type=later since=1h"), map[string]bool{}
	for pages := 0; next != ""; pages++ {
		code, body, _ := v.get(t, next)
		if code != 200 || pages > 5 {
			t.Fatalf("page %d gives %d: %s", pages, code, body)
		}
		for _, m := range regexp.MustCompile(`<td>(k\d+)</td>`).FindAllStringSubmatch(body, -1) {
			if seen[m[1]] {
				t.Errorf("%s is listed twice", m[1])
			}
			seen[m[1]] = true
		}
		has(t, body, "Read ", `value="type=later since=1h"`, "taskengine task list --where")
		next = ""
		if m := regexp.MustCompile(`href="/ui/([^"]*)" rel="next"`).FindStringSubmatch(body); m != nil {
			next = html.UnescapeString(m[1])
		}
	}
	if len(seen) != 120 {
		t.Errorf("%d tasks are listed", len(seen))
	}
	if code, body, _ := v.get(t, "tasks?q="+url.QueryEscape("stat=error")); code != 200 || !strings.Contains(body, "column 1") {
		t.Errorf("a wrong filter gives %d: %s", code, body)
	}
	id := "0190a6f0-7c3e-7cc0-8b5e-3f1d2c4b5a69"
	if code, _, header := v.get(t, "tasks?q=+"+id); code != 303 || header.Get("Location") != "/ui/task/"+id {
		t.Errorf("an id leads to %q with %d", header.Get("Location"), code)
	}
	if code, body, _ := v.get(t, "task/"+id); code != 404 || !strings.Contains(body, id) && !strings.Contains(body, "not found") {
		t.Errorf("a task that there is not gives %d: %s", code, body)
	}
}

func TestAListIsForTheTypesOfTheToken(t *testing.T) {
	n := newNode(t, of("ann", access.View, "echo"))
	shown := n.add(t, task.Request{Type: "echo", At: time.Now().Add(time.Hour)})
	hidden := n.add(t, task.Request{Type: "later", At: time.Now().Add(time.Hour)})
	_, body, _ := n.visit(t, "ann").get(t, "tasks")
	has(t, body, shown)
	hasNot(t, body, hidden)
}

func TestTheKeyboardGoesThroughTheList(t *testing.T) {
	b := browsertest.Start(t)
	n := newNode(t)
	var ids []string
	for range 3 {
		ids = append(ids, n.add(t, task.Request{Type: "later", At: time.Now().Add(time.Hour)}))
	}
	p := b.Open(t, n.url)
	p.Loads(func() { p.Press("/") })
	p.Until(`document.activeElement.id === "query"`)
	p.Type("type=later")
	p.Loads(func() { p.Press("Enter") })
	if got := browsertest.Get[string](p, `location.search`); got != "?q=type%3Dlater" {
		t.Errorf("the link is %q", got)
	}
	p.Press("j", "j", "k", "j")
	p.Until(fmt.Sprintf(`document.activeElement.getAttribute("href") === "/ui/task/%s"`, ids[1])) // the newest comes first
	n.add(t, task.Request{Type: "later", At: time.Now().Add(time.Hour)})
	p.Until(`document.querySelectorAll("#tasks tbody tr").length === 4`)
	p.Until(fmt.Sprintf(`document.activeElement.getAttribute("href") === "/ui/task/%s"`, ids[1])) // the focus stays
	p.Loads(func() { p.Press("Enter") })
	p.Until(fmt.Sprintf(`location.pathname === "/ui/task/%s"`, ids[1]))
	p.Loads(func() { p.Press("g", "e") })
	p.Until(`location.pathname === "/ui/errors"`)
	p.Loads(func() { p.Do(`history.back()`) })
	p.Until(fmt.Sprintf(`location.pathname === "/ui/task/%s"`, ids[1]))
	lettersLeadToEveryPage(t, p)
}

// lettersLeadToEveryPage goes to all pages of the navigation by g and a letter, which the help and the navigation say.
func lettersLeadToEveryPage(t *testing.T, p *browsertest.Page) {
	t.Helper()
	p.Press("?")
	p.Until(`document.querySelector("#help").open`)
	help := browsertest.Get[[]string](p, `[...document.querySelectorAll("#help dt")].map((e) => e.innerText + " " + e.nextElementSibling.innerText)`)
	p.Press("Escape")
	pages := browsertest.Get[[][]string](p, `[...document.querySelectorAll("nav a")].map((a) => [a.innerText, a.dataset.key, a.getAttribute("href"), a.title])`)
	letters := make(map[string]bool)
	for _, one := range pages {
		name, letter, path, title := one[0], one[1], one[2], one[3]
		letters[letter] = true
		if !slices.Contains(help, "g "+letter+" to "+name) || title != name+" (g "+letter+")" {
			t.Errorf("%s has the letter %q; its title is %q, and the help says %q", name, letter, title, help)
		}
		p.Loads(func() { p.Press("g", letter) })
		p.Until(fmt.Sprintf(`location.pathname === %q`, path))
	}
	if len(pages) != 12 || len(letters) != 12 {
		t.Errorf("%d pages have %d letters", len(pages), len(letters))
	}
	p.Until(`document.querySelector("h1").innerText === "Plan" && document.querySelector("#live").getAttribute("aria-pressed") === "true"`) // p has not stopped it
}
