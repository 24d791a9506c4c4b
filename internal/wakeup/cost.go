package wakeup

import "time"

// Cost estimates the time of a round of endlessly repeated work, for a goroutine that rests in proportion to it. A
// round that waited for the end of an outage is no costlier than others, so two kinds of rounds do not count:
//
//   - a round that failed, or retried a failed part
//   - a round that took longer than the round before it: then the time of that round counts
//
// The zero Cost is ready for use. It belongs to one goroutine.
type Cost struct{ last time.Duration }

// After returns the estimate after a round that took so long. isWhole says that nothing failed in it.
func (c *Cost) After(took time.Duration, isWhole bool) time.Duration {
	if !isWhole {
		took = 0
	}
	estimate := min(took, c.last)
	c.last = took
	return estimate
}
