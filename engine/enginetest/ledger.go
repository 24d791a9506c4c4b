package enginetest

import (
	"context"
	"maps"
	"sync"
	"testing"

	"github.com/taskengine/taskengine/engine/task"
)

// ledger records every call of a handler, and reports calls that must not happen.
type ledger struct {
	t *testing.T

	mu      sync.Mutex
	began   map[task.ID]int   // guarded by mu: how often it was handled
	seen    map[task.Ref]bool // guarded by mu
	running map[task.ID]bool  // guarded by mu
	order   []task.ID         // guarded by mu: in the order of their starts
}

func (l *ledger) init(t *testing.T) {
	l.t = t
	l.began, l.seen, l.running = make(map[task.ID]int), make(map[task.Ref]bool), make(map[task.ID]bool)
}

// watch returns a handler that records its calls and calls h.
func (l *ledger) watch(h handle) task.Handler {
	return task.HandlerFunc(func(ctx context.Context, t *task.Task) ([]byte, error) {
		l.begin(t)
		defer l.end(t.ID)
		return h(ctx, t)
	})
}

func (l *ledger) begin(t *task.Task) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seen[t.Ref()] {
		l.t.Errorf("version %d of task %v was handled twice", t.Version, t.ID)
	}
	if l.running[t.ID] {
		l.t.Errorf("task %v is run while it runs", t.ID)
	}
	l.seen[t.Ref()], l.running[t.ID] = true, true
	l.began[t.ID]++
	l.order = append(l.order, t.ID)
}

func (l *ledger) end(id task.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.running, id)
}

// runs returns how often the task was handled.
func (l *ledger) runs(id task.ID) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.began[id]
}

// total returns how often any task was handled.
func (l *ledger) total() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.order)
}

// sequence returns the tasks in the order in which they were handled.
func (l *ledger) sequence() []task.ID {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]task.ID(nil), l.order...)
}

// gauge measures how many tasks run at once under each name, by weight.
type gauge struct {
	t   *testing.T
	max map[string]int // what must not be exceeded, by name

	mu   sync.Mutex
	now  map[string]int // guarded by mu
	most map[string]int // guarded by mu
}

func newGauge(t *testing.T, limits map[string]int) *gauge {
	return &gauge{t: t, max: limits, now: make(map[string]int), most: make(map[string]int)}
}

// enter adds a task of this weight under all names and returns a function that removes it.
func (g *gauge) enter(weight int, names ...string) (leave func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, name := range names {
		g.now[name] += weight
		g.most[name] = max(g.most[name], g.now[name])
		if limit := g.max[name]; g.now[name] > limit {
			g.t.Errorf("%d run at once under %s, of %d allowed", g.now[name], name, limit)
		}
	}
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		for _, name := range names {
			g.now[name] -= weight
		}
	}
}

func (g *gauge) running(name string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.now[name]
}

func (g *gauge) peaks() map[string]int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return maps.Clone(g.most)
}
