package capacity

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/taskengine/taskengine/engine/sim"
	"github.com/taskengine/taskengine/task"
)

// trace draws about this number of tasks of a load in its busiest time. factor multiplies all rates:
// with the same seed the tasks are the same for every factor, only closer together.
func (l *Load) trace(seed uint64, tasks int, factor float64) []sim.Arrival {
	length := time.Duration(float64(l.simulated(tasks)) / l.rate() * float64(time.Second))
	return l.during(seed, min(max(length, shortest), l.longestTrace()), factor)
}

// Bounds of the length of a trace in simulated time: long enough for bursts, and so that as many of the longest attempts run at once as in
// the long run; short enough for tiny rates.
const (
	shortest    = 5 * time.Second
	usualTrace  = time.Hour
	mostOfTrace = 10 // times the mean of the longest attempts
)

func (l *Load) longestTrace() time.Duration {
	slowest := time.Duration(0)
	for _, t := range l.Types {
		slowest = max(slowest, t.Duration.Mean())
	}
	return max(usualTrace, mostOfTrace*min(slowest, longest/mostOfTrace))
}

// simulated returns how many tasks are simulated in place of so many: fewer, down to a tenth, if they are tried more than twice on average,
// because attempts are what a simulation costs.
func (l *Load) simulated(tasks int) int {
	const mostAttempts, least = 2, 10
	attempts := 0.0
	for _, name := range l.names() {
		t := l.Types[name]
		attempts += t.busiest(l.Growth) * t.attempts() / l.rate()
	}
	return max(min(tasks, int(mostAttempts*float64(tasks)/attempts)), tasks/least)
}

// during draws the tasks of a load for a time of this length.
func (l *Load) during(seed uint64, length time.Duration, factor float64) []sim.Arrival {
	var all []sim.Arrival
	set := l.policies(0)
	for i, name := range l.names() {
		t := l.Types[name]
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		keyed := len(set.Keyed(t.Policy))
		size := max(1, t.Bursts)
		gap := float64(size) / t.busiest(l.Growth) * float64(time.Second)
		for at := time.Duration(rng.Float64() * gap); at < length; {
			for range size {
				a := sim.Arrival{At: time.Duration(float64(at) / factor), Type: name, Size: t.Payload}
				took := t.Duration.Draw(rng)
				a.CPU = time.Duration(float64(took) * t.CPU)
				a.Wait = took - a.CPU
				a.Group = group(keyed, rng.IntN(t.Values))
				for t.Retries > 0 && !t.Policy.Retry.Exhausted(uint32(a.Fails)) && rng.Float64() < t.Retries {
					a.Fails++
				}
				all = append(all, a)
			}
			if t.Regular {
				at += time.Duration(gap)
			} else {
				at += time.Duration(rng.ExpFloat64() * gap)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b sim.Arrival) int { return cmp.Compare(a.At, b.At) })
	return all
}

// group returns the group of a task that has the same value for all its keyed limits.
func group(keyed, value int) string {
	if keyed == 0 {
		return ""
	}
	values := make([]string, keyed)
	for i := range values {
		values[i] = fmt.Sprint(value)
	}
	return task.GroupOf(values...)
}
