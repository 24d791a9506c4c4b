package dashboard_test

import (
	"strings"
	"testing"

	"github.com/taskengine/taskengine/internal/access"
	"github.com/taskengine/taskengine/internal/browsertest"
	"github.com/taskengine/taskengine/task"
)

func requestOf(typ, payload string) task.Request {
	return task.Request{Type: typ, Payload: []byte(payload)}
}

func TestTheOverviewIsLiveInABrowser(t *testing.T) {
	b := browsertest.Start(t)
	n := newNode(t)
	p := b.Open(t, n.url)
	urls, bytes := p.Traffic()
	for _, u := range urls {
		if !strings.HasPrefix(u, n.url) {
			t.Errorf("the page asks for %s", u)
		}
	}
	if bytes > 300_000 || bytes == 0 {
		t.Errorf("the first view has %d bytes", bytes)
	}
	if script := browsertest.Get[int](p, `fetch("dashboard.js").then((r) => r.text()).then((s) => s.length)`); script > 20_000 {
		t.Errorf("the script has %d bytes", script)
	}
	p.Until(`document.querySelector("#types").innerText.includes("No type has tasks")`)
	held := n.add(t, requestOf("hold", `{}`))
	n.settled(t, held, task.Processing)
	failed := n.add(t, requestOf("fail", "the bank <b>answers</b> 503"))
	n.settled(t, failed, failedState)
	p.Until(`document.querySelector("#types a")?.innerText === "hold"`)
	p.Until(`[...document.querySelectorAll("#tiles div")].some((d) => d.innerText.startsWith("1") && d.innerText.includes("running"))`)
	if got := p.Text("#nodes tbody th"); !strings.HasPrefix(got, "n1") {
		t.Errorf("the first node is %q", got)
	}
	if faults := p.Faults(); len(faults) > 0 {
		t.Errorf("the browser reports %q", faults)
	}
}

func TestStaleNumbersAreSaidToBeStale(t *testing.T) {
	b := browsertest.Start(t)
	n := newNode(t)
	p := b.Open(t, n.url)
	n.stop()
	p.Until(`document.querySelector("#stale").innerText.includes("Stale since") && document.body.classList.contains("stale")`)
	n.listen(t, n.address)
	p.Until(`document.querySelector("#stale").hidden && !document.body.classList.contains("stale")`)
	hiddenTabsAskForNothing(t, n, p, b.Open(t, n.url))
}

// hiddenTabsAskForNothing hides a page until another one, which is shown, has refreshed itself a few times. The hidden one asks for nothing
// in that time, and asks at once when it is shown again.
func hiddenTabsAskForNothing(t *testing.T, n *node, p, other *browsertest.Page) {
	t.Helper()
	p.Do(`window.asked = 0; const real = window.fetch; window.fetch = (...all) => { window.asked++; return real(...all) }`)
	p.Do(`document.addEventListener("visibilitychange", () => { window.askedBy = window.asked }) // after the listener of the page`)
	show := p.Hide()
	before := browsertest.Get[int](p, `window.asked`)
	held := n.add(t, requestOf("hold", `{}`))
	n.settled(t, held, task.Processing)
	other.Do(`new Promise((done) => { let n = 0; document.addEventListener("fresh", () => { if (++n === 2) done(true) }) })`)
	if got := browsertest.Get[int](p, `window.asked`); got != before {
		t.Errorf("a hidden page asks %d times", got-before)
	}
	p.Do(`delete window.askedBy`)
	show()
	p.Until(`window.askedBy !== undefined`)
	if got := browsertest.Get[int](p, `window.askedBy`); got != before+1 {
		t.Errorf("a page that is shown again asks %d times before anything else", got-before)
	}
	p.Until(`document.querySelector("#types a")?.innerText === "hold"`)
	p.Do(`new Promise((done) => document.addEventListener("fresh", done, {once: true})).then(() => true)`) // and goes on
}

func TestAPersonLogsInWithKeysOnly(t *testing.T) {
	b := browsertest.Start(t)
	n := newNode(t, of("ann", access.View))
	p := b.Open(t, n.url)
	if got := browsertest.Get[string](p, `document.activeElement.id`); got != "token" {
		t.Errorf("the focus is at %q", got)
	}
	p.Type("bob")
	p.Loads(func() { p.Press("Enter") })
	if got := p.Text("[role=alert]"); !strings.Contains(got, "does not know this token") {
		t.Errorf("it says %q", got)
	}
	p.Type("ann")
	p.Loads(func() { p.Press("Enter") })
	p.Until(`document.querySelector("h1").innerText === "Overview"`)
	p.Press("Tab")
	if got := browsertest.Get[string](p, `document.activeElement.className`); got != "skip" {
		t.Errorf("the first stop of the keyboard is %q", got)
	}
	p.Press("?")
	p.Until(`document.querySelector("#help").open`)
	p.Press("Escape")
	p.Until(`!document.querySelector("#help").open`)
	p.Press("p")
	p.Until(`document.querySelector("#live").getAttribute("aria-pressed") === "false"`)
	p.Press("p")
	p.Until(`document.querySelector("#live").getAttribute("aria-pressed") === "true"`)
	if got := browsertest.Get[string](p, `document.cookie`); got != "" {
		t.Errorf("scripts read the cookie %q", got)
	}
	p.Do(`document.querySelector("form[action$=logout] button").focus()`)
	p.Loads(func() { p.Press("Enter") })
	p.Until(`document.querySelector("h1").innerText === "Log in"`)
}

// At no width a page is wider than its window; tables scroll by themselves.
func TestPagesFitIntoEveryWindowLightAndDark(t *testing.T) {
	b := browsertest.Start(t)
	n := newNode(t)
	n.add(t, requestOf(strings.Repeat("long", 40), `{}`))
	failed := n.add(t, requestOf("fail", strings.Repeat("error", 50)))
	n.settled(t, failed, failedState)
	flow := n.workflow(t)
	p := b.Open(t, n.url)
	for _, path := range []string{"", "tasks?q=age%3E0s", "task/" + failed, "task/" + failed + "/edit", "errors", "bulk", "bulk/new?q=state%3Derror", "plan", "documents", "workflow/" + flow} {
		for _, scheme := range []string{"light", "dark"} {
			p.Prefer("prefers-color-scheme", scheme)
			for _, width := range []int{360, 768, 1280, 3840} {
				p.Resize(width, 900)
				p.Go(n.url + path)
				if got := browsertest.Get[int](p, `document.documentElement.scrollWidth`); got > width {
					t.Errorf("%s is %d wide in a window of %d", path, got, width)
				}
				if width == 360 || width == 1280 {
					p.Picture(strings.NewReplacer("/", "-", "?", "-").Replace("page-"+path) + "-" + scheme + map[bool]string{true: "-narrow"}[width == 360])
				}
			}
			paper := browsertest.Get[string](p, `getComputedStyle(document.body).backgroundColor`)
			if (paper == "rgb(255, 255, 255)") != (scheme == "light") {
				t.Errorf("%s: the paper is %s for a person that prefers %s", path, paper, scheme)
			}
		}
	}
	if faults := p.Faults(); len(faults) > 0 {
		t.Errorf("the browser reports %q", faults)
	}
}
