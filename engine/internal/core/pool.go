package core

import (
	"time"

	"github.com/taskengine/taskengine/task"
)

// pool is a handler that runs a limited number of tasks at a time. The table counts its slots. The
// core reports to the handler how many tasks wait for more slots.
type pool struct {
	more  int  // number of slots that the handler could add
	asked int  // number of waiting tasks in its last Want
	ask   bool // add a Want even if the number is the same
}

// Want reports to the handler of a pool how many tasks wait only for one of its slots.
type Want struct {
	Pool  string
	Tasks int
}

// Resize sets how many tasks the handler of a pool can run now, and how many more it could run if it
// added slots. If more tasks have slots than it can run, they keep their slots until they end.
func (c *Core) Resize(now time.Time, name string, slots, more int) {
	p, ok := c.pools[name]
	if !ok || !c.table.Resize(c.steady(now), name, slots) {
		return
	}
	p.more, p.ask = more, true
	c.book(now)
}

// want adds Wants to ready. A handler gets the number of waiting tasks after each Resize, and each
// time the number has changed.
func (c *Core) want() {
	for _, name := range c.poolNames {
		p := c.pools[name]
		if p.more == 0 && p.asked == 0 && !p.ask {
			continue
		}
		n := 0
		if c.mayStart() {
			n = c.table.Wanted(name, p.more)
		}
		if n != p.asked || p.ask && n > 0 {
			c.ready.Wants = append(c.ready.Wants, Want{name, n})
		}
		p.asked, p.ask = n, false
	}
}

// Began reports that the handler of a running row has begun with it only now, because it had no room
// before. The run timeout starts now.
func (c *Core) Began(now time.Time, ref task.Ref) {
	r, ok := c.runs[ref.ID]
	if !ok || r.ref != ref || r.phase != running || r.stopped {
		return
	}
	if limit := r.policy.Timeout.Run; limit > 0 {
		r.runsUntil = now.Add(limit)
		r.deadline = earlier(r.runsUntil, r.is.ExpiresAt)
		c.nextTimeUp = earlier(c.nextTimeUp, r.timeUp())
	}
}
