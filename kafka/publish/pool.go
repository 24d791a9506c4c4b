package publish

import (
	"sync"

	"github.com/taskengine/taskengine/engine/task"
)

// starting is why a handler is down that has not reached a broker yet.
const starting = "it connects to Kafka"

// pool tells the engine how many tasks the handler can run.
type pool struct {
	slots int

	mu   sync.Mutex
	down string        // guarded by mu: why no broker answers; "" if one does
	uses map[*use]bool // guarded by mu
}

// use is one use of the pool.
type use struct {
	pool    *pool
	changed func(task.Capacity)
}

func (p *pool) init(slots int) {
	p.slots, p.down, p.uses = slots, starting, make(map[*use]bool)
}

// Use implements [task.Pool].
func (h *Handler) Use(changed func(task.Capacity)) task.PoolUse {
	p := &h.pool
	u := &use{pool: p, changed: changed}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.uses[u] = true
	changed(p.capacity())
	return u
}

// capacity returns the capacity. mu must be held.
func (p *pool) capacity() task.Capacity {
	if p.down != "" {
		return task.Capacity{Down: p.down}
	}
	return task.Capacity{Slots: p.slots}
}

// set sets why no broker answers.
func (p *pool) set(down string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down == down {
		return
	}
	p.down = down
	for u := range p.uses {
		u.changed(p.capacity())
	}
}

func (p *pool) reason() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.down
}

// Want implements [task.PoolUse]. The number of slots does not change.
func (u *use) Want(int) {}

// End implements [task.PoolUse].
func (u *use) End() {
	u.pool.mu.Lock()
	defer u.pool.mu.Unlock()
	delete(u.pool.uses, u)
}
