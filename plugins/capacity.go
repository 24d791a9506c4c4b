//go:build linux || darwin

package plugins

import (
	"slices"
	"sync/atomic"

	"github.com/taskengine/taskengine/engine/task"
)

var _ task.Pool = (*Host)(nil)

// use is one user of a host.
type use struct {
	host    *Host
	changed func(task.Capacity)
	told    task.Capacity // guarded by the host's mutex
	wanted  atomic.Int64  // tasks that wait for a slot
}

// Name implements [task.Pool].
func (h *Host) Name() string { return h.name }

// Use implements [task.Pool].
func (h *Host) Use(changed func(task.Capacity)) task.PoolUse {
	h.mu.Lock()
	defer h.mu.Unlock()
	u := &use{host: h, changed: changed, told: h.capacity()}
	h.uses = append(h.uses, u)
	changed(u.told)
	return u
}

// Want implements [task.PoolUse].
func (u *use) Want(tasks int) {
	if u.wanted.Swap(int64(tasks)) != int64(tasks) {
		u.host.wake.Set()
	}
}

// End implements [task.PoolUse].
func (u *use) End() {
	u.host.mu.Lock()
	defer u.host.mu.Unlock()
	u.host.uses = slices.DeleteFunc(u.host.uses, func(o *use) bool { return o == u })
	u.host.wake.Set()
}

// wanted returns how many tasks wait in engines for a slot. It is called with mu held.
func (h *Host) wanted() int {
	n := 0
	for _, u := range h.uses {
		n += int(u.wanted.Load())
	}
	return n
}

// tell tells those who use the host of its capacity, if that has changed. It is called
// with mu held, after anything that may change it.
func (h *Host) tell() {
	if len(h.uses) == 0 {
		return
	}
	c := h.capacity()
	for _, u := range h.uses {
		if u.told != c {
			u.told = c
			u.changed(c)
		}
	}
}

// capacity returns what the host can have now: what runs, and what the processes that are
// up have room for. It is called with mu held.
//
// A suspect takes no slot of these processes, but is booked like any other task. Those
// that wait for a process of their own are added, as many as may have one at once.
func (h *Host) capacity() task.Capacity {
	pool := h.cfg.pool()
	c := task.Capacity{Slots: min(h.alone.n, pool.atOnce)}
	fresh, leaving := 0, 0
	for _, s := range h.sessions {
		c.Slots += len(s.running)
		switch {
		case s.alone:
		case !s.serves():
			leaving++
		case !h.isClosing:
			c.Slots += max(0, s.room())
			if s.cfg == h.cfg {
				fresh++
			}
		}
	}
	if h.isClosing {
		return c
	}
	slots := max(1, h.status.Slots)
	if pool.perTask {
		slots, fresh = 1, fresh+leaving
	}
	c.More = max(0, pool.most-fresh) * slots
	if h.isDown && !h.up() {
		c.Down = h.downBecause.Error()
	}
	return c
}
