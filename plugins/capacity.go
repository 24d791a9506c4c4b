//go:build linux || darwin

package plugins

import (
	"slices"
	"sync/atomic"

	"github.com/taskengine/taskengine/plugins/internal/dispatch"
	"github.com/taskengine/taskengine/task"
)

var _ task.Pool = (*Host)(nil)

// use implements [task.PoolUse].
type use struct {
	host   *Host
	user   *dispatch.User
	wanted atomic.Int64 // tasks that wait for a slot
}

// Name implements [task.Pool].
func (h *Host) Name() string { return h.name }

// Use implements [task.Pool].
func (h *Host) Use(changed func(task.Capacity)) task.PoolUse {
	h.mu.Lock()
	defer h.mu.Unlock()
	u := &use{host: h, user: h.users.Add(changed, h.capacity())}
	h.uses = append(h.uses, u)
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
	u.host.users.Remove(u.user)
	u.host.uses = slices.DeleteFunc(u.host.uses, func(o *use) bool { return o == u })
	u.host.wake.Set()
}

// wanted returns how many tasks wait in engines for a slot. mu must be held.
func (h *Host) wanted() int {
	n := 0
	for _, u := range h.uses {
		n += int(u.wanted.Load())
	}
	return n
}

// notifyUses reports the capacity to the users of the host if it has changed. It is called after every change that may
// affect the capacity. mu must be held.
func (h *Host) notifyUses() { h.users.Notify(h.capacity) }

// capacity returns how many tasks the host can run: the running ones plus the free slots of the processes that are up.
// mu must be held.
//
// A task in quarantine takes no slot of these processes, but is booked as any other task. So the tasks that wait for a
// process of their own count too, up to the number of such processes at once.
func (h *Host) capacity() task.Capacity {
	pool := h.cfg.pool()
	c := task.Capacity{Slots: min(h.alone.Len(), pool.atOnce)}
	fresh, leaving := 0, 0
	for _, base := range h.dispatch.Sessions() {
		c.Slots += base.Running()
		switch s := base.Owner; {
		case s.alone:
		case !s.serves():
			leaving++
		case !h.isClosing:
			c.Slots += s.Free()
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
