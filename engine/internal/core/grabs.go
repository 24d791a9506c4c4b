package core

import (
	"time"

	"github.com/taskengine/taskengine/task"
)

// unlimited is no limit, for [Core.LimitGrabs].
const unlimited = -1

// LimitGrabs sets how many more tasks may be grabbed until it is called again. A negative number is no
// limit. The shell sets a limit while the store refuses writes, or a part of them.
func (c *Core) LimitGrabs(now time.Time, grabs int) {
	c.grabs = max(unlimited, grabs)
	c.Tick(now)
}

// mayGrab reports whether the limit of LimitGrabs allows another grab.
func (c *Core) mayGrab() bool { return c.grabs != 0 }

// countGrab counts a grab against the limit.
func (c *Core) countGrab() {
	if c.grabs > 0 {
		c.grabs--
	}
}

// Refused answers a grab of the task at ref that the store refused by itself. The core tries the
// task again after the given delay.
func (c *Core) Refused(now time.Time, ref task.Ref, delay time.Duration) {
	c.retryGrab(now, c.expect(ref.ID, "grab", grabbing), delay)
	c.book(now)
}

// retryGrab ends a run after its grab was not made, and tries its task again after a delay.
func (c *Core) retryGrab(now time.Time, r *run, delay time.Duration) {
	tr, fromWaiting := r.trigger, r.fromWaiting
	c.end(now, r, false)
	c.timers.retry(now.Add(delay), tr, fromWaiting)
}

// Saving returns how many saves are not answered.
func (c *Core) Saving() int { return c.saving }
