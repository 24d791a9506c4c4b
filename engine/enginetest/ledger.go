package enginetest

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/taskengine/taskengine/task"
)

// ledger records every call of a handler, and reports calls that must not happen.
type ledger struct {
	report func(format string, args ...any)

	mu     sync.Mutex
	on     map[task.ID][]string // guarded by mu: the nodes that have handled it, in their order
	seen   map[task.Ref]bool    // guarded by mu
	active map[task.ID]bool     // guarded by mu: it runs
	order  []task.ID            // guarded by mu: in the order of their starts
}

func newLedger(report func(format string, args ...any)) *ledger {
	return &ledger{report: report, on: make(map[task.ID][]string), seen: make(map[task.Ref]bool), active: make(map[task.ID]bool)}
}

// watch returns a handler that records its calls on a node and calls h.
func (l *ledger) watch(node string, h handle) task.Handler {
	return task.HandlerFunc(func(ctx context.Context, t *task.Task) ([]byte, error) {
		l.begin(node, t)
		defer l.end(t.ID)
		return h(ctx, t)
	})
}

func (l *ledger) begin(node string, t *task.Task) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seen[t.Ref()] {
		l.report("version %d of task %v was handled twice, on %s and on %v", t.Version, t.ID, node, l.on[t.ID])
	}
	if l.active[t.ID] {
		l.report("task %v is run on %s while it runs on %v", t.ID, node, l.on[t.ID])
	}
	l.seen[t.Ref()], l.active[t.ID] = true, true
	l.on[t.ID] = append(l.on[t.ID], node)
	l.order = append(l.order, t.ID)
}

func (l *ledger) end(id task.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.active, id)
}

// isIdle reports whether no handler runs.
func (l *ledger) isIdle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.active) == 0
}

// runs returns how often the task was handled.
func (l *ledger) runs(id task.ID) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.on[id])
}

// nodes returns the nodes that have handled the task, in their order.
func (l *ledger) nodes(id task.ID) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.on[id])
}

// begunOn returns how many calls a node has begun.
func (l *ledger) begunOn(node string) (calls int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, nodes := range l.on {
		for _, on := range nodes {
			if on == node {
				calls++
			}
		}
	}
	return calls
}

// running returns how many tasks are handled now.
func (l *ledger) running() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.active)
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
	report func(format string, args ...any)
	max    map[string]int // the allowed maxima, by name

	mu   sync.Mutex
	now  map[string]int // guarded by mu
	most map[string]int // guarded by mu
}

func newGauge(report func(format string, args ...any), limits map[string]int) *gauge {
	return &gauge{report: report, max: limits, now: make(map[string]int), most: make(map[string]int)}
}

// enter adds a task of this weight under all names and returns a function that removes it.
func (g *gauge) enter(weight int, names ...string) (leave func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, name := range names {
		g.now[name] += weight
		g.most[name] = max(g.most[name], g.now[name])
		if limit := g.max[name]; g.now[name] > limit {
			g.report("%d run at once under %s, of %d allowed", g.now[name], name, limit)
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
