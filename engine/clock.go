package engine

import "time"

// clock is the wall clock made fit to decide by. When the wall clock is set it follows at once,
// ahead or back, and tells of the step, so that what lasts for some time lasts no longer and no
// shorter. What is no more than a step of maxSlew is not told: then this clock never goes back,
// but goes at half the speed until the two agree again.
type clock struct {
	last    time.Time           // what was told last
	read    time.Time           // when, with a monotonic reading
	stepped func(time.Duration) // is told of steps; nil for nobody
	skew    time.Duration       // what tests have set the wall clock by
}

// maxSlew is how far this clock and the wall clock may differ.
const maxSlew = time.Second

func (c *clock) now() time.Time {
	t := time.Now()
	wall := t.Round(0).Add(c.skew)
	if c.last.IsZero() {
		c.last, c.read = wall, t
		return wall
	}
	elapsed := t.Sub(c.read) // monotonic: the sleep of the machine is a step
	c.read = t
	switch ahead := wall.Sub(c.last.Add(elapsed)); {
	case ahead > maxSlew || ahead < -maxSlew:
		c.last = wall
		if c.stepped != nil {
			c.stepped(ahead)
		}
	case ahead < 0:
		c.last = later(wall, c.last.Add(elapsed/2))
	default:
		c.last = wall
	}
	return c.last
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
