package core

import "time"

// Step passes a step of the clock: it was set forward by d, or back if d is negative, since the last
// time passed to the core. The core moves ends of durations: run timeouts, grace periods, delays of
// retries, and rates. Times of the day stay as they are.
func (c *Core) Step(d time.Duration) {
	c.stepped += d
	if !c.nextTimeUp.IsZero() {
		c.nextTimeUp = time.Time{}
	}
	for _, r := range c.runs {
		if !r.lingersTo.IsZero() {
			r.lingersTo = r.lingersTo.Add(d)
		}
		switch {
		case r.stopped:
			r.deadline = r.deadline.Add(d)
		case !r.runsUntil.IsZero():
			r.runsUntil = r.runsUntil.Add(d)
			r.deadline = earlier(r.runsUntil, r.is.ExpiresAt)
		}
		if !r.deadline.IsZero() && (r.phase == running || r.phase == finished && !r.stopped) {
			c.nextTimeUp = earlier(c.nextTimeUp, r.timeUp())
		}
	}
	retries := c.timers.retries.Clone()
	c.timers.retries.Clear(false)
	retries.Ascend(func(t timer) bool {
		t.at += d.Microseconds()
		addTimer(c.timers.retries, t)
		return true
	})
}

// steady returns the time as the table uses it: without the steps of the clock.
func (c *Core) steady(now time.Time) int64 { return now.Add(-c.stepped).UnixNano() }

// wall converts a time of the table to the time of the clock.
func (c *Core) wall(at int64) time.Time { return time.Unix(0, at).Add(c.stepped) }
