package dashboard_test

import (
	"fmt"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/taskengine/taskengine/dashboard"
	"github.com/taskengine/taskengine/internal/browsertest"
	"github.com/taskengine/taskengine/task"
)

// furnish gives a node something of all that the tests of single pages make for themselves, and returns the paths of the lists and pages with it.
func (n *node) furnish(t *testing.T) (paths []string) {
	t.Helper()
	held := n.add(t, requestOf("shared", `{"partner": "acme"}`))
	n.settled(t, held, task.Processing)
	n.add(t, requestOf("shared", `{"partner": "acme"}`))
	long := strings.Repeat("long-", 30)
	n.call(t, "ApplySchedule", `{"name": "nightly", "definition": {"cron": "30 2 * * *", "timezone": "Europe/Berlin", "task": {"type": "echo"}}}`)
	key := "shops/" + long
	if err := n.engine.WriteDocuments(t.Context(), task.DocumentWrite{Key: key, Data: fmt.Appendf(nil, `{"shop": %q}`, long)}); err != nil {
		t.Fatal(err)
	}
	n.call(t, "StartBulkJob", `{"name": "night", "order": {"verb": "cancel", "where": "type=echo headers.shop=`+long+`"}}`)
	n.workflow(t)
	return []string{"limits", "limit/partner?value=acme", "schedules", "schedule/nightly", "documents", "document?key=" + url.QueryEscape(key), "bulk", "bulk/night", "workflows", "nodes"}
}

// Accessible and no wider than its window is each page that shows something, on a telephone by day and on a screen by night.
func TestPagesThatShowSomethingFitAndAxeFindsNothing(t *testing.T) {
	b, axe := browsertest.Start(t), browsertest.NewAxe(t)
	n := newNode(t)
	paths := n.furnish(t)
	p := b.Open(t, n.url)
	for scheme, width := range map[string]int{"light": 360, "dark": 1280} {
		p.Prefer("prefers-color-scheme", scheme)
		p.Resize(width, 900)
		for _, path := range paths {
			p.Go(n.url + path)
			checkPage(t, p, axe, path, width, scheme)
		}
	}
}

// The page of a topic is served by an API that fills all of its fields, since this node has no broker.
func TestThePageOfATopicFitsAndAxeFindsNothing(t *testing.T) {
	b, axe := browsertest.Start(t), browsertest.NewAxe(t)
	server := httptest.NewServer(dashboard.New(dashboard.Config{Base: "/ui/", API: stuffed{}, Node: "n1"}))
	t.Cleanup(server.Close)
	p := b.Open(t, server.URL+"/ui/source/x")
	if p.Text("#orders button") == "" {
		t.Error("the page has no orders about the source")
	}
	for scheme, width := range map[string]int{"light": 360, "dark": 1280} {
		p.Prefer("prefers-color-scheme", scheme)
		p.Resize(width, 900)
		checkPage(t, p, axe, "source/x", width, scheme)
	}
}

// checkPage examines the page that a browser shows, and takes a picture of it.
func checkPage(t *testing.T, p *browsertest.Page, axe *browsertest.Axe, path string, width int, scheme string) {
	t.Helper()
	if got := browsertest.Get[int](p, `document.documentElement.scrollWidth`); got > width {
		t.Errorf("%s is %d wide in a window of %d", path, got, width)
	}
	if p.Text("#command") == "" {
		t.Errorf("%s does not show the command that does the same", path)
	}
	for _, fault := range axe.Examine(p) {
		t.Errorf("%s: %s", path, fault)
	}
	p.Picture(strings.NewReplacer("/", "-", "?", "-", "=", "-", "%2F", "-").Replace("page-"+path) + "-" + scheme + map[bool]string{true: "-narrow"}[width == 360])
}
