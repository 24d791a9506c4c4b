package dashboard_test

import (
	"testing"
	"time"

	"github.com/taskengine/taskengine/internal/access"
	"github.com/taskengine/taskengine/internal/browsertest"
	"github.com/taskengine/taskengine/task"
)

// Contrast, names for readers of a screen, landmarks, order of headings and the like, light and dark.
func TestAxeFindsNothing(t *testing.T) {
	b, axe := browsertest.Start(t), browsertest.NewAxe(t)
	n := newNode(t)
	failed := n.add(t, requestOf("fail", "no luck"))
	n.settled(t, failed, failedState)
	held := n.add(t, requestOf("hold", `{"n": 1}`))
	n.settled(t, held, task.Processing)
	waits := n.add(t, requestOf("hold", `{"n": 2}`))
	later := n.add(t, task.Request{Type: "later", Key: "k", OrderingKey: "o", At: time.Now().Add(time.Hour), Headers: map[string]string{"a": "b"}})
	flow := n.workflow(t)
	p := b.Open(t, n.url)
	examine := func(p *browsertest.Page, url string) {
		t.Helper()
		p.Go(url)
		for _, fault := range axe.Examine(p) {
			t.Errorf("%s: %s", url, fault)
		}
	}
	for _, scheme := range []string{"light", "dark"} {
		p.Prefer("prefers-color-scheme", scheme)
		for _, path := range []string{"", "tasks", "tasks?q=stat=x", "task/" + failed, "task/" + held, "task/" + waits, "task/" + later + "/edit", "errors", "bulk", "bulk/new?q=state%3Derror", "limits", "schedules", "sources", "nodes", "alerts", "plan", "documents", "workflow/" + flow, "workflows", "nothing"} {
			examine(p, n.url+path)
		}
	}
	guarded := newNode(t, of("ann", access.View))
	p = b.Open(t, guarded.url)
	examine(p, guarded.url+"login")
	p.Type("bob")
	p.Loads(func() { p.Press("Enter") })
	for _, fault := range axe.Examine(p) {
		t.Errorf("a refused log-in: %s", fault)
	}
}
