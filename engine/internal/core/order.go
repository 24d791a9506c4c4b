package core

import (
	"time"

	"github.com/taskengine/taskengine/task"
)

// The store makes a row the head of its ordering key, in the transaction of the change because of which that row
// is next. The core learns of it by Promoted, and starts no task that is Behind.

// Promoted passes a row that has become the head of its ordering key.
func (c *Core) Promoted(now time.Time, h task.Hint) {
	if h.State == task.Submitted {
		c.routeHint(now, h)
		c.book(now)
	}
}

// reposition forgets the places that the head of an ordering key had in its queue with other priorities, if its type
// inherits.
func (c *Core) reposition(now time.Time, tr task.Trigger) {
	if tr.Turn != task.Head || !c.kind(tr.Type).policy.Ordering.Inherit {
		return
	}
	had := tr
	had.Version++ // no version changes with the priority that a head inherits
	for had.Priority = task.HighestPriority; had.Priority <= task.LowestPriority; had.Priority++ {
		if had.Priority != tr.Priority {
			c.table.Drop(c.steady(now), had)
		}
	}
}

// LookForHead asks to give an ordering key its head: rows of it were changed by a transaction that did not.
func (c *Core) LookForHead(key string) { c.ready.Keys = append(c.ready.Keys, key) }
