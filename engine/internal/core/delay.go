package core

import (
	"time"

	"github.com/taskengine/taskengine/engine/internal/table"
	"github.com/taskengine/taskengine/task"
)

// maxDelay is how long a task that was grabbed keeps its slot until it may begin, in nanoseconds. After that it
// is handed back.
const maxDelay = int64(time.Second)

// delayFor is delay for a cause that lasts until a time at most, however long that is.
func (c *Core) delayFor(now time.Time, r *run, t *task.Task, until time.Time) bool {
	at := c.steady(until)
	if r.phase != delayed {
		r.phase, r.row = delayed, t
	}
	r.delayedTo = max(r.delayedTo, at+maxDelay)
	return c.delay(now, r, t, at)
}

// delay has the task that r has grabbed wait until at, a time of the table, when the rates of its limits may
// allow it to begin. It reports whether the task waits: it does not if that would take too long.
func (c *Core) delay(now time.Time, r *run, t *task.Task, at int64) bool {
	steady := c.steady(now)
	if r.phase != delayed {
		r.phase, r.row, r.delayedTo = delayed, t, steady+maxDelay
	}
	if steady >= r.delayedTo || at > r.delayedTo && at != table.Never {
		return false
	}
	if len(c.delayed) == 0 {
		c.delayedAt = table.Never
	}
	c.delayed = append(c.delayed, r)
	c.delayedAt = min(c.delayedAt, at, r.delayedTo)
	return true
}

// beginDelayed decides again about the delayed tasks: they begin, wait on, or are handed back.
func (c *Core) beginDelayed(now time.Time) {
	if len(c.delayed) == 0 {
		return
	}
	waiting := c.delayed
	c.delayed, c.spareDelayed = c.spareDelayed[:0], nil
	for _, r := range waiting {
		c.begin(now, r, r.row)
	}
	clear(waiting)
	c.spareDelayed = waiting
}
