package capacity

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/taskengine/taskengine/config"
)

// Distribution is the distribution of the durations of handlers.
type Distribution interface {
	Draw(rng *rand.Rand) time.Duration
	Mean() time.Duration
	String() string
}

// constant is the same duration every time.
type constant time.Duration

func (c constant) Draw(*rand.Rand) time.Duration { return time.Duration(c) }
func (c constant) Mean() time.Duration           { return time.Duration(c) }
func (c constant) String() string                { return time.Duration(c).String() }

// exponential is an exponential distribution with this mean.
type exponential time.Duration

func (e exponential) Draw(rng *rand.Rand) time.Duration {
	return time.Duration(rng.ExpFloat64() * float64(e))
}
func (e exponential) Mean() time.Duration { return time.Duration(e) }
func (e exponential) String() string      { return "exponential " + time.Duration(e).String() }

// lognormal resembles most measured durations: a median and a long tail.
type lognormal struct{ p50, p99 time.Duration }

// z99 is the distance of the 99th percentile from the median, in standard deviations.
const z99 = 2.3263478740408408

func (l lognormal) sigma() float64 { return math.Log(float64(l.p99)/float64(l.p50)) / z99 }

func (l lognormal) Draw(rng *rand.Rand) time.Duration {
	return time.Duration(min(float64(l.p50)*math.Exp(l.sigma()*rng.NormFloat64()), float64(longest)))
}

func (l lognormal) Mean() time.Duration {
	return time.Duration(min(float64(l.p50)*math.Exp(l.sigma()*l.sigma()/2), float64(longest)))
}
func (l lognormal) String() string { return fmt.Sprintf("p50 %v, p99 %v", l.p50, l.p99) }

// samples are measured durations of equal probability.
type samples []time.Duration

func (s samples) Draw(rng *rand.Rand) time.Duration { return s[rng.IntN(len(s))] }

func (s samples) Mean() time.Duration {
	sum := 0.0
	for _, d := range s {
		sum += float64(d)
	}
	return time.Duration(sum / float64(len(s)))
}

func (s samples) String() string {
	if len(s) == 1 {
		return fmt.Sprintf("1 sample of %v", s[0])
	}
	return fmt.Sprintf("%d samples from %v to %v", len(s), slices.Min(s), slices.Max(s))
}

// distribution reads a distribution: a duration, or a mapping with p50 and p99, exponential or
// samples.
func (r reader) distribution(n config.Value) Distribution {
	if n.IsScalar() {
		var d time.Duration
		r.Duration(&d, longest)(n)
		return constant(d)
	}
	var p50, p99, mean time.Duration
	var list samples
	r.Object(n, config.Keys{
		"p50": r.Duration(&p50, longest), "p99": r.Duration(&p99, longest), "exponential": r.Duration(&mean, longest),
		"samples": func(n config.Value) {
			r.List(n, func(n config.Value) {
				var d time.Duration
				r.Duration(&d, longest)(n)
				list = append(list, d)
			})
		},
	})
	switch {
	case p50 > 0 && p99 >= p50 && mean == 0 && list == nil:
		return lognormal{p50, p99}
	case p50 == 0 && p99 == 0 && mean > 0 && list == nil:
		return exponential(mean)
	case p50 == 0 && p99 == 0 && mean == 0 && len(list) > 0:
		return list
	}
	r.Fault(n, "is no distribution; write 20ms, or a mapping with p50 and a larger p99, with exponential: 20ms, or with samples")
	return constant(0)
}
