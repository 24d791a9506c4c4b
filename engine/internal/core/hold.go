package core

import (
	"time"

	"github.com/taskengine/taskengine/engine/task"
)

// unlimited is what [Core.Hold] is given for no limit.
const unlimited = -1

// Hold limits how many more tasks are grabbed until it is called again; a negative number is
// no limit. The store does not take what is written, or only a part of it.
func (c *Core) Hold(now time.Time, grabs int) {
	c.grabs = max(unlimited, grabs)
	c.Tick(now)
}

// isHeld reports whether nothing more is to be grabbed.
func (c *Core) isHeld() bool { return c.grabs == 0 }

// grabOne counts a grab that is asked for.
func (c *Core) grabOne() {
	if c.grabs > 0 {
		c.grabs--
	}
}

// Refused answers a grab of the task at ref that the store refused by itself: the task is
// tried again after a rest.
func (c *Core) Refused(now time.Time, ref task.Ref, rest time.Duration) {
	c.missed(now, c.expect(ref.ID, "grab", grabbing), rest)
	c.book(now)
}

// missed gives up a grab for a rest.
func (c *Core) missed(now time.Time, r *run, rest time.Duration) {
	tr, fromWaiting := r.trigger, r.fromWaiting
	c.end(now, r, false)
	c.agenda.again(now.Add(rest), tr, fromWaiting)
}

// Saving returns how many saves are not answered.
func (c *Core) Saving() int { return c.saving }
