package engine

import "time"

// clock is a wall clock that is safe to decide by. When the wall clock is set by more than
// maxSlew, forward or back, clock follows at once and reports the step, so that durations become
// neither longer nor shorter. It does not report a smaller step. It follows a smaller step
// forward at once; after a smaller step back it does not go back, but runs at half speed until it
// agrees with the wall clock again.
type clock struct {
	last    time.Time           // last result of now
	read    time.Time           // when that was, with a monotonic reading
	stepped func(time.Duration) // called with each step; may be nil
	skew    time.Duration       // by how much tests have set the wall clock
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
	elapsed := t.Sub(c.read) // monotonic: the time that the machine sleeps is a step
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
