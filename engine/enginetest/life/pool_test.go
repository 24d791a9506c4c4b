package life

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/taskengine/taskengine/task"
)

// pool is a handler of some types with slots of its own, such as a plugin with processes. Their
// number changes, and a task may have to wait until the pool begins with it.
type pool struct {
	n    *node
	most int // slots that it has at most

	mu      sync.Mutex
	has     task.Capacity       // guarded by mu
	changed func(task.Capacity) // guarded by mu; nil while no engine uses the pool
	inside  int                 // guarded by mu: tasks that it has
}

var _ task.Pool = (*pool)(nil)

func newPool(n *node, most int) *pool {
	p := &pool{n: n, most: most}
	p.has.Slots = n.w.roll(most + 1)
	p.has.More = most - p.has.Slots
	return p
}

// Name implements [task.Pool].
func (p *pool) Name() string { return "pool" }

// Use implements [task.Pool].
func (p *pool) Use(changed func(task.Capacity)) task.PoolUse {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changed = changed
	changed(p.has)
	return p
}

// Want implements [task.PoolUse]: the pool adds slots after some time.
func (p *pool) Want(tasks int) {
	if tasks == 0 {
		return
	}
	after := time.Duration(0)
	if !p.n.w.calm.Load() {
		after = p.n.w.span(0, time.Second)
	}
	time.AfterFunc(after, func() { p.resize(p.most) })
}

// End implements [task.PoolUse].
func (p *pool) End() {
	p.mu.Lock()
	p.changed = nil
	p.mu.Unlock()
}

// resize sets the number of slots.
func (p *pool) resize(slots int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.changed == nil {
		return
	}
	p.has = task.Capacity{Slots: slots, More: p.most - slots}
	p.changed(p.has)
}

// Handle implements [task.Handler].
func (p *pool) Handle(ctx context.Context, t *task.Task) ([]byte, error) {
	p.mu.Lock()
	p.inside++
	if p.inside > p.most {
		p.n.w.fail("%s has %d tasks in a pool that never had more than %d slots", p.n.name, p.inside, p.most)
	}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.inside--
		p.mu.Unlock()
	}()
	if w := p.n.w; !w.calm.Load() && w.roll(3) == 0 {
		if err := p.n.rest(ctx, w.span(50*time.Millisecond, 4*time.Second)); err != nil {
			return nil, fmt.Errorf("%w: it still waited: %w", task.ErrUnavailable, err)
		}
	}
	if _, err := task.ReporterOf(ctx).(task.Beginner).Begin(); err != nil {
		return nil, fmt.Errorf("%w: %w", task.ErrUnavailable, err)
	}
	return p.n.handle(ctx, t)
}
