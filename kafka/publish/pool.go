package publish

import (
	"fmt"
	"sync"

	"github.com/taskengine/taskengine/task"
)

// starting is why a handler is down that has not reached a broker yet.
const starting = "it connects to Kafka"

// pool tells the engine how many tasks the handler can run.
type pool struct {
	slots int

	mu      sync.Mutex
	down    string        // guarded by mu: why no broker answers; "" if one does
	pending int           // guarded by mu: slots that records of ended attempts take, which no broker has confirmed
	uses    map[*use]bool // guarded by mu
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
	if why := p.why(); why != "" {
		return task.Capacity{Down: why}
	}
	return task.Capacity{Slots: p.slots - p.pending}
}

// why returns why the handler takes no task; "" if it takes some. mu must be held.
func (p *pool) why() string {
	if p.down == "" && p.pending >= p.slots {
		return fmt.Sprintf("%d records of earlier attempts wait for a broker to confirm them; look at the partitions of their topics and their in-sync replicas", p.pending)
	}
	return p.down
}

// set sets why no broker answers.
func (p *pool) set(down string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down != down {
		p.down = down
		p.changed()
	}
}

// wait sets how many records of ended attempts are not confirmed.
func (p *pool) wait(pending int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pending = pending
	p.changed()
}

// changed reports the capacity. mu must be held.
func (p *pool) changed() {
	for u := range p.uses {
		u.changed(p.capacity())
	}
}

func (p *pool) reason() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.why()
}

// Want implements [task.PoolUse]. The number of slots does not change.
func (u *use) Want(int) {}

// End implements [task.PoolUse].
func (u *use) End() {
	u.pool.mu.Lock()
	defer u.pool.mu.Unlock()
	delete(u.pool.uses, u)
}
