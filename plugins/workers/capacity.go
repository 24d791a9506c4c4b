package workers

import (
	"github.com/taskengine/taskengine/plugins/internal/dispatch"
	"github.com/taskengine/taskengine/task"
)

var _ task.Pool = (*Pool)(nil)

// use implements [task.PoolUse].
type use struct {
	pool *Pool
	user *dispatch.User
}

// Name implements [task.Pool].
func (p *Pool) Name() string { return p.cfg.Name }

// Use implements [task.Pool].
func (p *Pool) Use(changed func(task.Capacity)) task.PoolUse {
	p.mu.Lock()
	defer p.mu.Unlock()
	return &use{p, p.users.Add(changed, p.capacity())}
}

// Want implements [task.PoolUse]. A pool cannot start workers.
func (u *use) Want(int) {}

// End implements [task.PoolUse].
func (u *use) End() {
	u.pool.mu.Lock()
	defer u.pool.mu.Unlock()
	u.pool.users.Remove(u.user)
}

// notifyUses reports the capacity to the users of the pool if it has changed. mu must be held.
func (p *Pool) notifyUses() { p.users.Notify(p.capacity) }

// capacity returns how many tasks the pool can run: the running ones plus the free slots of the workers that take
// tasks. mu must be held.
func (p *Pool) capacity() task.Capacity {
	var c task.Capacity
	up := false
	for _, s := range p.dispatch.Sessions() {
		c.Slots += s.Running()
		if s.Serves() && !p.isClosing {
			up = true
			c.Slots += s.Free()
		}
	}
	if !up && !p.isClosing {
		c.Down = p.down().Error()
	}
	return c
}

// Free returns how many more tasks the workers take now.
func (p *Pool) Free() (slots int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.dispatch.Sessions() {
		if s.Serves() {
			slots += s.Free()
		}
	}
	return slots
}

// Status describes the workers of a handler at one moment.
type Status struct {
	Name     string
	Up       bool   // a worker takes tasks
	Down     string // why no worker takes tasks; "" if one does
	Workers  int    // that are connected, or may connect again with their tasks
	Running  int    // tasks that run now
	Waiting  int    // tasks that wait for a worker
	Starts   int    // workers that have connected so far, each counted once
	Lost     int    // workers that failed
	LastLoss string // how the newest of these failed
}

// Status returns the present state of the pool.
func (p *Pool) Status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	st := p.status
	st.Workers, st.Waiting = len(p.dispatch.Sessions()), p.queue.Len()
	for _, s := range p.dispatch.Sessions() {
		st.Up = st.Up || s.Serves()
		st.Running += s.Running()
	}
	if !st.Up {
		st.Down = p.down().Error()
	}
	return st
}
