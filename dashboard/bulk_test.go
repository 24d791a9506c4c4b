package dashboard_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/taskengine/taskengine/internal/access"
	"github.com/taskengine/taskengine/internal/browsertest"
)

// The story of three in the morning, by mouse: see the errors, run those of one kind again, slowly, and stop.
func TestTheTasksOfOneErrorAreRunAgainByMouse(t *testing.T) {
	b := browsertest.Start(t)
	n := newNode(t)
	for range 100 { // a busy browser has more than a minute to stop the job, at one task a second
		n.settled(t, n.add(t, requestOf("fail", "the bank answers 503")), failedState)
	}
	n.settled(t, n.add(t, requestOf("fail", "no template")), failedState)
	p := b.Open(t, n.url)
	p.Until(`document.querySelectorAll("#kinds tbody tr").length === 2`)
	p.Loads(func() { p.Click(`nav a[href="/ui/errors"]`) })
	if got := p.Text("#kinds tbody tr"); !strings.Contains(got, "the bank answers") || !strings.Contains(got, "100") {
		t.Errorf("the first kind is %q", got)
	}
	p.Loads(func() { p.Click(`#kinds tbody tr a[href*="bulk/new"]`) })
	p.Until(`document.querySelector("#preview").innerText.includes("would change 100 tasks")`)
	p.Click("#rate")
	p.Type("1")
	p.Loads(func() { p.Click("form[method=post] button.main") })
	p.Until(`location.pathname.startsWith("/ui/bulk/2") && document.querySelector("#job").innerText.includes("1 a second")`)
	p.Until(`document.querySelector("#job dd").innerText !== "0"`)
	p.Click("#stop summary")
	p.Loads(func() { p.Click("#stop button") })
	p.Until(`document.querySelector("h1").innerText.startsWith("stopped")`)
	p.Loads(func() { p.Click(`nav a[href="/ui/bulk"]`) })
	p.Until(`document.querySelectorAll("#jobs tbody tr").length === 1`)
	if faults := p.Faults(); len(faults) > 0 {
		t.Errorf("the browser reports %q", faults)
	}
}

func TestABulkJobIsOrderedOnceAndByTheRolesThatMay(t *testing.T) {
	n := newNode(t, of("view", access.View), of("manage", access.Manage))
	n.settled(t, n.add(t, requestOf("fail", "no template")), failedState)
	_, body, _ := n.visit(t, "view").get(t, "bulk/new?q=state%3Derror")
	has(t, body, "would change", "Read without an index, from the newest task on: 1 tasks")
	hasNot(t, body, "all that match")
	form := url.Values{"verb": {"resume"}, "q": {"state=error"}, "name": {"night"}, "rate": {"10/s"}}
	if code, _, _ := n.visit(t, "view").post(t, "bulk/new", form); code != 403 {
		t.Errorf("a person who may only look gets %d", code)
	}
	v := n.visit(t, "manage")
	for range 2 {
		if code, body, header := v.post(t, "bulk/new", form); code != 303 || header.Get("Location") != "/ui/bulk/night" {
			t.Errorf("the order gives %d: %s", code, body)
		}
	}
	for key, values := range map[string][]string{"q": {"", " ", "stat=x"}, "rate": {"fast", "-1", "NaN"}, "verb": {"explode"}} {
		for _, value := range values {
			wrong := url.Values{"verb": {"resume"}, "q": {"state=error"}, "name": {"other"}}
			wrong.Set(key, value)
			if code, body, _ := v.post(t, "bulk/new", wrong); code != 400 {
				t.Errorf("%s=%q gives %d: %s", key, value, code, body)
			}
		}
	}
}
