package dashboard_test

import (
	"errors"
	"log/slog"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taskengine/taskengine/dashboard"
	"github.com/taskengine/taskengine/task"
)

// machine is a planner with curves, of which a prediction takes until it is released.
type machine struct {
	curves   string
	asked    atomic.Int32
	released chan struct{}
}

func (m *machine) Types() map[string]dashboard.PlannedType {
	return map[string]dashboard.PlannedType{"hold": {Weight: 1, Concurrency: 4}, "shared": {Weight: 1, Limits: []string{"partner"}}}
}

func (m *machine) Curves() string { return m.curves }

func (m *machine) Predict(objective string, load map[string]dashboard.TypeLoad) (*dashboard.Prediction, error) {
	m.asked.Add(1)
	<-m.released
	if objective == "never" {
		return nil, errors.New(`"never" is <b>no</b> objective`)
	}
	return &dashboard.Prediction{Met: true, HeadRoom: 6.5, First: "disk", Rate: 10, Uses: []dashboard.Share{{Name: "disk", Share: 0.15}}, Load: "objective: " + objective, Measured: time.Unix(1_800_000_000, 0)}, nil
}

// pagesOf returns the pages of a node with a planner of its own.
func pagesOf(n *node, p dashboard.Planner) func(path string, headers ...string) string {
	d := dashboard.New(dashboard.Config{Base: "/ui/", API: n.api.Handler, Node: "n1", Planner: p, Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	return func(path string, headers ...string) string {
		r := httptest.NewRequest("GET", "http://node/ui/"+path, nil)
		for i := 0; i+1 < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		w := httptest.NewRecorder()
		d.ServeHTTP(w, r)
		return w.Body.String()
	}
}

func TestThePlanComparesWhatCanFill(t *testing.T) {
	n := newNode(t)
	get := pagesOf(n, &machine{})
	has(t, get("plan"), "No task has run", "slots", "concurrency of hold", "capacity calibrate --dir", "plan: curves.json", "taskengine limit list")
	held := n.add(t, requestOf("hold", `{}`))
	n.settled(t, held, task.Processing)
	get = pagesOf(n, &machine{}) // without answers from before
	body := get("plan")
	has(t, body, "<b>concurrency of hold</b> of n1 fills first", "4 times", "25 %", `href="/ui/limit/partner"`)
	if slots := strings.Index(body, ">slots<"); slots < strings.Index(body, ">concurrency of hold<") {
		t.Error("the fullest does not come first")
	}
}

// Opening the page starts a prediction, and its refreshes do not.
func TestAPredictionIsMadeForWhoOpensThePage(t *testing.T) {
	n := newNode(t)
	m := &machine{curves: "my curves.json", released: make(chan struct{})}
	get := pagesOf(n, m)
	has(t, get("plan"), "It is being calculated", "taskengine capacity load.yaml --curves &#39;my curves.json&#39;")
	get("plan?objective=other") // one at a time
	close(m.released)
	var body string
	for begin := time.Now(); !strings.Contains(body, "6.5 times"); body = get("plan", "Taskengine-Live", "5000") {
		if time.Since(begin) > time.Minute {
			t.Fatalf("it is never shown: %s", body)
		}
		time.Sleep(time.Millisecond)
	}
	has(t, body, "<b>disk</b> fills first", "objective: p99 start &lt; 100ms", "15 %")
	for range 5 {
		get("plan", "Taskengine-Live", "5000")
		get("plan")
	}
	if got := m.asked.Load(); got != 1 {
		t.Errorf("%d predictions were made", got)
	}
	for begin := time.Now(); !strings.Contains(body, "is &lt;b&gt;no"); body = get("plan?objective=never") {
		if time.Since(begin) > time.Minute {
			t.Fatalf("it is never shown: %s", body)
		}
		time.Sleep(time.Millisecond)
	}
}
