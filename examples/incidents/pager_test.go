package incidents

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/taskenginetest"
)

// pager is an engine with the types of taskengine.yaml in fake time. Its handler works as page.sh, takes a second
// for it, and notes the time.
type pager struct {
	*taskenginetest.Engine
	t     *testing.T // of the bubble
	begin time.Time

	mu          sync.Mutex
	unreachable map[string]bool // services; guarded by mu
	running     map[string]bool // incidents; guarded by mu
	attempts    []page          // in the order in which they began; guarded by mu
	pages       []page          // successful pages, in the order of their ends; guarded by mu
}

// page is an attempt.
type page struct {
	incident, text string
	at             time.Duration // of its begin, after that of the test
}

// content is a payload.
type content struct {
	Service string `json:"service"`
	Text    string `json:"text"`
}

// run calls test with a new pager. Nothing may be left to do at its end.
func run(t *testing.T, test func(p *pager)) {
	t.Helper()
	file, err := config.Load("taskengine.yaml", nil, os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	p := &pager{unreachable: make(map[string]bool), running: make(map[string]bool)}
	c := engine.Config{Policies: file.Policies(), Handlers: make(map[string]task.Handler)}
	for name := range file.Types {
		c.Handlers[name] = task.HandlerFunc(p.page)
	}
	taskenginetest.Run(t, c, func(t *testing.T, e *taskenginetest.Engine) {
		p.t, p.Engine, p.begin = t, e, time.Now()
		test(p)
	})
}

// page is the handler of all types.
func (p *pager) page(_ context.Context, t *task.Task) ([]byte, error) {
	var c content
	if err := json.Unmarshal(t.Payload, &c); err != nil || c.Service == "" {
		return nil, task.Permanent(errors.New("the payload names no service"))
	}
	began := page{t.OrderingKey, c.Text, time.Since(p.begin)}
	p.mu.Lock()
	if p.running[t.OrderingKey] {
		p.t.Errorf("two tasks of incident %q run at once", t.OrderingKey)
	}
	p.running[t.OrderingKey] = true
	p.attempts = append(p.attempts, began)
	p.mu.Unlock()
	time.Sleep(time.Second)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running[t.OrderingKey] = false
	if p.unreachable[c.Service] {
		return nil, errors.New(c.Service + " is unreachable")
	}
	p.pages = append(p.pages, began)
	return nil, nil
}

// request returns a request of the type incident for the service web. at counts from the begin of the test.
func (p *pager) request(incident, text string, at time.Duration) engine.Request {
	return p.requestTo("web", incident, text, at)
}

func (p *pager) requestTo(service, incident, text string, at time.Duration) engine.Request {
	payload, err := json.Marshal(content{service, text})
	if err != nil {
		p.t.Fatal(err)
	}
	return engine.Request{Type: "incident", OrderingKey: incident, Key: text, Payload: payload, At: p.begin.Add(at)}
}

// add submits requests one after the other, and returns their receipts.
func (p *pager) add(reqs ...engine.Request) (receipts []engine.Receipt) {
	p.t.Helper()
	for _, r := range reqs {
		got, err := p.Submit(p.t.Context(), r)
		if err != nil {
			p.t.Fatal(err)
		}
		receipts = append(receipts, got...)
	}
	return receipts
}

// reach makes a service reachable, or unreachable.
func (p *pager) reach(service string, reachable bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unreachable[service] = !reachable
}

// begins returns when the attempts for a text began.
func (p *pager) begins(text string) (at []time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range p.attempts {
		if a.text == text {
			at = append(at, a.at)
		}
	}
	return at
}

// paged returns the texts of the pages of an incident; of all if it is "".
func (p *pager) paged(incident string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var texts []string
	for _, a := range p.pages {
		if incident == "" || a.incident == incident {
			texts = append(texts, a.text)
		}
	}
	return strings.Join(texts, " ")
}

// wants fails the test unless these were paged for an incident, in this order; for all if it is "".
func (p *pager) wants(incident, texts string) {
	p.t.Helper()
	if got := p.paged(incident); got != texts {
		p.t.Errorf("paged for incident %q: %q, want %q", incident, got, texts)
	}
}

// wantsAt fails the test unless the attempts for a text began at these times.
func (p *pager) wantsAt(text string, at ...time.Duration) {
	p.t.Helper()
	if got := p.begins(text); !slices.Equal(got, at) {
		p.t.Errorf("the attempts for %q began at %v, want %v", text, got, at)
	}
}

// wantsState fails the test unless a task is in a state after so many attempts.
func (p *pager) wantsState(r engine.Receipt, state task.State, attempts uint32) {
	p.t.Helper()
	t, err := p.Get(p.t.Context(), r.ID)
	if err != nil {
		p.t.Fatal(err)
	}
	if t.State != state || t.Attempt != attempts {
		p.t.Errorf("task %s is %v after %d attempts, want %v after %d", t.Payload, t.State, t.Attempt, state, attempts)
	}
}
