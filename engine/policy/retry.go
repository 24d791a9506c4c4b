package policy

import (
	"math"
	"time"

	"github.com/taskengine/taskengine/engine/task"
)

// Retry says whether and when a failed attempt is followed by another.
type Retry struct {
	Max     int             // attempts in all, the first included; at least 1
	Backoff Backoff         // how long between two
	On      map[string]Rule // what differs for a class of errors
}

// Rule is what differs for one class of errors.
type Rule struct {
	Never bool           // do not try again
	Delay *time.Duration // wait this long instead of the backoff's time
}

// BackoffKind says how the delays of a [Backoff] grow.
type BackoffKind uint8

// The kinds.
const (
	Exponential BackoffKind = iota // Initial, then Factor times the one before, at most Max
	Linear                         // Initial times the number of the attempt, at most Max
	Fixed                          // the Delays in order, the last one for ever
	None                           // at once
)

// Backoff is how long to wait after an attempt that failed.
type Backoff struct {
	Kind    BackoffKind
	Initial time.Duration
	Factor  float64 // at least 1
	Max     time.Duration
	Delays  []time.Duration
	Jitter  float64 // 0..1: the share of the delay that is left to chance, evenly around it
}

// Next says whether the attempt numbered n (1 for the first) that ended with v is
// followed by another and after which delay. chance is in [0,1) and decides the jitter.
func (r Retry) Next(n uint32, v task.Verdict, chance float64) (delay time.Duration, again bool) {
	rule := r.On[v.Class]
	if v.Class == "" {
		rule = Rule{}
	}
	switch {
	case v.GiveUp, rule.Never, int64(n) >= int64(r.Max):
		return 0, false
	case v.Delay >= 0 && !v.AtLeast:
		return v.Delay, true
	case rule.Delay != nil:
		delay = *rule.Delay
	default:
		delay = r.Backoff.After(n, chance)
	}
	return max(delay, v.Delay), true // v.Delay is negative if nothing was asked for
}

// After returns the delay after the attempt numbered n, 1 for the first; 0 counts as
// 1. It never overflows. chance is in [0,1).
func (b Backoff) After(n uint32, chance float64) time.Duration {
	n = max(n, 1)
	var d float64
	switch b.Kind {
	case Exponential:
		growth := math.Pow(max(b.Factor, 1), float64(n-1))
		d = float64(b.Initial) * min(growth, math.MaxFloat64) // nothing times infinity is not a number
	case Linear:
		d = float64(b.Initial) * float64(n)
	case Fixed:
		if len(b.Delays) > 0 {
			d = float64(b.Delays[min(int(n), len(b.Delays))-1])
		}
	}
	ceiling := float64(math.MaxInt64 / 2) // leaves room for the jitter
	if b.Max > 0 && b.Kind != Fixed {
		ceiling = min(ceiling, float64(b.Max))
	}
	d = min(d, ceiling)
	return time.Duration(d * (1 + b.Jitter*(chance-0.5)))
}
