package core

import "time"

// Step tells that the clock by which the core is told the time was set by d, ahead or back, since
// the last time that it was told: d of it never passed. What is to last for some time lasts as
// long as before: run timeouts, grace periods, rests and rates. What is to happen at a time of
// the day happens then.
func (c *Core) Step(d time.Duration) {
	c.stepped += d
	if !c.nextTimeUp.IsZero() {
		c.nextTimeUp = time.Time{}
	}
	for _, r := range c.runs {
		switch {
		case r.stopped:
			r.deadline = r.deadline.Add(d)
		case !r.runsUntil.IsZero():
			r.runsUntil = r.runsUntil.Add(d)
			r.deadline = earlier(r.runsUntil, r.expires)
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

// steady returns the time as the table is told it: without the steps.
func (c *Core) steady(now time.Time) int64 { return now.Add(-c.stepped).UnixNano() }

// wall returns the time that the table tells, as the core is told it.
func (c *Core) wall(at int64) time.Time { return time.Unix(0, at).Add(c.stepped) }
