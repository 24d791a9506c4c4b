package policy

import (
	"math"
	"strconv"
	"time"

	"github.com/taskengine/taskengine/task"
)

// Retry says whether and when another attempt follows a failed one.
type Retry struct {
	Max     int             // maximum number of attempts, including the first; at least 1, or [Forever]
	Backoff Backoff         // the delay between two attempts
	On      map[string]Rule // rules for classes of errors, by class
	Fails   bool            // a task without another attempt becomes [task.Failed]; otherwise a [task.Error], about which a person decides
}

// Exhausted reports whether attempt n was the last one that Max allows. The first attempt is number 1.
func (r Retry) Exhausted(n uint32) bool { return r.Max != Forever && int64(n) >= int64(r.Max) }

// Attempts returns Max as text: a number, or "forever".
func (r Retry) Attempts() string {
	if r.Max == Forever {
		return "forever"
	}
	return strconv.Itoa(r.Max)
}

// Rule is an exception for one class of errors.
type Rule struct {
	Never bool           // no further attempt
	Delay *time.Duration // replaces the delay of the Backoff; nil does not
}

// BackoffKind says how the delays of a [Backoff] grow.
type BackoffKind uint8

// The kinds of backoff.
const (
	Exponential BackoffKind = iota // Initial, then Factor times the delay before, at most Max
	Linear                         // Initial times the number of the attempt, at most Max
	Fixed                          // the Delays in order; the last one is repeated
	None                           // no delay
)

// Backoff computes the delay after a failed attempt.
type Backoff struct {
	Kind    BackoffKind
	Initial time.Duration
	Factor  float64 // at least 1
	Max     time.Duration
	Delays  []time.Duration
	Jitter  float64 // 0..1: the delay varies at random by this share of it, half of that up and half down
}

// Next reports whether another attempt follows attempt n, which ended with v, and after which delay.
// The first attempt is number 1. chance is in [0,1) and decides the jitter.
func (r Retry) Next(n uint32, v task.Verdict, chance float64) (delay time.Duration, again bool) {
	rule := r.On[v.Class]
	if v.Class == "" {
		rule = Rule{}
	}
	switch {
	case v.Next != 0:
		return max(0, v.Delay), v.Next == task.Waiting
	case v.GiveUp, rule.Never, r.Exhausted(n):
		return 0, false
	case v.Delay >= 0 && !v.AtLeast:
		return v.Delay, true
	case rule.Delay != nil:
		delay = *rule.Delay
	default:
		delay = r.Backoff.After(n, chance)
	}
	return max(delay, v.Delay), true // v.Delay is negative if the handler asked for no delay
}

// After returns the delay after attempt n. The first attempt is number 1, and 0 counts as 1. The
// result does not overflow. chance is in [0,1).
func (b Backoff) After(n uint32, chance float64) time.Duration {
	n = max(n, 1)
	var d float64
	switch b.Kind {
	case Exponential:
		growth := math.Pow(max(b.Factor, 1), float64(n-1))
		d = float64(b.Initial) * min(growth, math.MaxFloat64) // 0 times infinity is NaN
	case Linear:
		d = float64(b.Initial) * float64(n)
	case Fixed:
		if len(b.Delays) > 0 {
			d = float64(b.Delays[min(int64(n), int64(len(b.Delays)))-1])
		}
	}
	ceiling := float64(math.MaxInt64 / 2) // leaves room for the jitter
	if b.Max > 0 && b.Kind != Fixed {
		ceiling = min(ceiling, float64(b.Max))
	}
	d = min(d, ceiling)
	return time.Duration(d * (1 + b.Jitter*(chance-0.5)))
}
