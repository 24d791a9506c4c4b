package wakeup

import "time"

// Cost estimates how long a round of work takes that is repeated for ever, for a goroutine that rests in proportion to
// it. A round that had to wait for an outage to end is no costlier than others, so two kinds of rounds do not count:
//
//   - one that failed, or in which something failed that was tried again
//   - one that took longer than the round before it: then that one's time counts
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
