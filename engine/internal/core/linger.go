package core

import (
	"slices"
	"time"

	"github.com/taskengine/taskengine/task"
)

// A user may end a task while its handler runs, and the store then makes another task the head of its ordering key. The
// handler is asked to stop, and may take its grace period for that. So a node that has grabbed the next head begins it
// when the handler of the task before it has returned, or its grace period is over: until then the head keeps its slot. A
// handler that has ended its task itself, in a transaction, holds nothing back.

// called records that the handler of a run is called.
func (c *Core) called(r *run) {
	if r.is.Order != "" {
		c.handling[r.is.Order] = append(c.handling[r.is.Order], r)
	}
}

// returned records that a run has ended.
func (c *Core) returned(r *run) {
	runs, ok := c.handling[r.is.Order]
	if !ok {
		return
	}
	if runs = slices.DeleteFunc(runs, func(o *run) bool { return o == r }); len(runs) == 0 {
		delete(c.handling, r.is.Order)
	} else {
		c.handling[r.is.Order] = runs
	}
}

// lingering returns until when the handlers of other tasks with the ordering key of t hold it back; zero if none does.
func (c *Core) lingering(now time.Time, t *task.Task) (until time.Time) {
	if len(c.handling) == 0 || t.Turn == task.Unordered {
		return until
	}
	for _, r := range c.handling[t.OrderingKey] {
		if r.phase == finished {
			continue
		}
		if r.lingersTo.IsZero() { // this node does not know yet that its task was ended
			r.lingersTo = now.Add(r.policy.Timeout.Grace)
		}
		if r.lingersTo.After(until) {
			until = r.lingersTo
		}
	}
	return until
}
