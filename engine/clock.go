package engine

import "time"

// clock is the wall clock made fit to decide by: it never steps back. When the wall
// clock is behind, because it was set back, this clock goes at half the speed until the
// two agree again; when it is ahead, this clock follows at once.
type clock struct {
	last time.Time // what was told last
	read time.Time // when, with a monotonic reading
}

func (c *clock) now() time.Time {
	t := time.Now()
	wall := t.Round(0)
	if c.last.IsZero() {
		c.last, c.read = wall, t
		return wall
	}
	elapsed := t.Sub(c.read)
	c.read = t
	if next := c.last.Add(elapsed); wall.Before(next) {
		c.last = later(wall, c.last.Add(elapsed/2))
	} else {
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
