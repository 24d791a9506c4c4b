package core

import (
	"time"

	"github.com/taskengine/taskengine/engine/task"
)

// pool is the slots of a handler that runs a limited number of tasks at a time. The table
// counts the slots; the core tells the handler how many tasks wait for more of them.
type pool struct {
	more int  // slots that the handler could add, if tasks want them
	told int  // how many tasks it was last told of
	ask  bool // it is to be told again
}

// Want tells the handler of a pool how many tasks wait for nothing but one of its slots.
type Want struct {
	Pool  string
	Tasks int
}

// Resize tells how many tasks the handler of a pool can have now, and how many more it
// could have once it has made room for them. Tasks above that number keep their slots
// until they end.
func (c *Core) Resize(now time.Time, name string, slots, more int) {
	p, ok := c.pools[name]
	if !ok || !c.table.Resize(c.steady(now), name, slots) {
		return
	}
	p.more, p.ask = more, true
	c.book(now)
}

// want adds to ready what the handlers of pools are to be told. A handler is told again
// after each Resize, and whenever the number has changed.
func (c *Core) want() {
	for _, name := range c.poolNames {
		p := c.pools[name]
		if p.more == 0 && p.told == 0 && !p.ask {
			continue
		}
		n := 0
		if c.mayStart() {
			n = c.table.Wanted(name, p.more)
		}
		if n != p.told || p.ask && n > 0 {
			c.ready.Wants = append(c.ready.Wants, Want{name, n})
		}
		p.told, p.ask = n, false
	}
}

// Began tells that the handler of a running task has begun with it only now, because it
// had no room before: the time of the attempt runs from here.
func (c *Core) Began(now time.Time, id task.ID) {
	r, ok := c.runs[id]
	if !ok || r.phase != running || r.stopped {
		return
	}
	if limit := r.kind.policy.Timeout.Run; limit > 0 {
		r.runsUntil = now.Add(limit)
		r.deadline = earlier(r.runsUntil, r.expires)
		c.nextTimeUp = earlier(c.nextTimeUp, r.timeUp())
	}
}
