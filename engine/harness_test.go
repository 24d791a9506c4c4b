package engine_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

// node is an engine under test, over a store in memory, in a bubble with fake time.
type node struct {
	*engine.Engine
	t      *testing.T
	store  storage.Store
	config engine.Config
}

// inBubble runs fn with fake time: a sleep of a day takes no real time, and a goroutine
// that is left behind fails the test.
func inBubble(t *testing.T, fn func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, fn)
}

// start opens an engine with the given types, and closes it when the test ends.
func start(t *testing.T, set policy.Set, handlers map[string]task.Handler) *node {
	t.Helper()
	return startWith(t, set, handlers, func(*engine.Config) {})
}

// startWith is start with a configuration that is changed first.
func startWith(t *testing.T, set policy.Set, handlers map[string]task.Handler, change func(*engine.Config)) *node {
	t.Helper()
	n := &node{t: t, store: memory.New(), config: engine.Config{Policies: set, Handlers: handlers}}
	n.config.Store = n.store
	change(&n.config)
	n.open()
	t.Cleanup(n.close)
	return n
}

func (n *node) open() {
	n.t.Helper()
	e, err := engine.Open(context.Background(), n.config)
	if err != nil {
		n.t.Fatal(err)
	}
	n.Engine = e
}

func (n *node) close() {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := n.Close(ctx); err != nil {
		n.t.Errorf("close: %v", err)
	}
}

// submit adds one task that must be accepted.
func (n *node) submit(r engine.Request) task.ID {
	n.t.Helper()
	receipts, err := n.Submit(context.Background(), r)
	if err != nil {
		n.t.Fatal(err)
	}
	return receipts[0].ID
}

// end waits until the task has ended and returns it.
func (n *node) end(id task.ID) *task.Task {
	n.t.Helper()
	if err := n.WaitTasks(context.Background(), id); err != nil {
		n.t.Fatal(err)
	}
	return n.get(id)
}

func (n *node) get(id task.ID) *task.Task {
	n.t.Helper()
	t, err := n.Get(context.Background(), id)
	if err != nil {
		n.t.Fatal(err)
	}
	return t
}

func (n *node) expect(id task.ID, want task.State) *task.Task {
	n.t.Helper()
	t := n.get(id)
	if t.State != want {
		n.t.Fatalf("task is %v, want %v (last error %q)", t.State, want, t.LastError)
	}
	return t
}

// one returns a set with one type, changed by fn.
func one(name string, fn func(*policy.Type)) policy.Set {
	p := policy.DefaultType()
	p.Retry.Backoff.Jitter = 0
	if fn != nil {
		fn(&p)
	}
	return policy.Set{Slots: 100, Types: map[string]policy.Type{name: p}}
}

func handle(name string, fn func(context.Context, *task.Task) ([]byte, error)) map[string]task.Handler {
	return map[string]task.Handler{name: task.HandlerFunc(fn)}
}

// journal records the calls of handlers.
type journal struct {
	mu      sync.Mutex
	began   []entry // guarded by mu
	running int     // guarded by mu
	most    int     // guarded by mu: how many ran at once
}

type entry struct {
	payload string
	at      time.Time
}

// work returns a handler that records the task and takes d, or returns when the context ends.
func (j *journal) work(d time.Duration) func(context.Context, *task.Task) ([]byte, error) {
	return func(ctx context.Context, t *task.Task) ([]byte, error) {
		j.mu.Lock()
		j.began = append(j.began, entry{string(t.Payload), time.Now()})
		j.running++
		j.most = max(j.most, j.running)
		j.mu.Unlock()
		defer func() {
			j.mu.Lock()
			j.running--
			j.mu.Unlock()
		}()
		select {
		case <-time.After(d):
			return t.Payload, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (j *journal) payloads() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var out []string
	for _, e := range j.began {
		out = append(out, e.payload)
	}
	return out
}

var errNo = errors.New("no")
