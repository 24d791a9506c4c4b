package compare

import (
	"fmt"
	"math"
	"slices"

	"github.com/taskengine/taskengine/bench/result"
)

// Kinds of figures. They decide which direction is better, and the words of the verdict.
const (
	kindRate = iota // more is better
	kindTime        // less is better
	kindCost        // less is cheaper
)

// figure is a number that every run has.
type figure struct {
	name string
	unit string
	kind int
	of   func(*result.Run) (value float64, ok bool)
}

// shares are the quantiles that are compared, and the number of tasks that a run needs for each: at
// least one task must be expected beyond it.
var shares = [...]struct {
	name string
	q    float64
	need int64
}{{"p50", 0.5, 1}, {"p99", 0.99, 100}, {"p99.9", 0.999, 1000}}

// figures returns the figures of runs that can be compared, in the order to show them in.
func figures(runs []*result.Run) []figure {
	out := []figure{{"rate", "tasks/s", kindRate, func(r *result.Run) (float64, bool) { return r.Rate, true }}}
	for _, name := range latencies(runs) {
		for _, s := range shares {
			out = append(out, figure{name + " " + s.name, "ns", kindTime, func(r *result.Run) (float64, bool) {
				h := r.Latency[name]
				if h == nil || h.Count() < s.need {
					return 0, false
				}
				return float64(h.Quantile(s.q)), true
			}})
		}
	}
	return append(out,
		figure{"CPU per task", "ns", kindCost, perTask(func(c *result.Cost) int64 { return int64(c.CPU) })},
		figure{"resident", "bytes", kindCost, func(r *result.Run) (float64, bool) { return float64(r.Cost.Resident), r.Cost.Resident > 0 }},
		figure{"written per task", "bytes", kindCost, perTask(func(c *result.Cost) int64 { return c.Written })},
	)
}

// latencies returns the names of the latencies that runs have: first the known ones in their order,
// then the others.
func latencies(runs []*result.Run) []string {
	known := result.Latencies()
	var there, others []string
	for _, r := range runs {
		for name := range r.Latency {
			if !slices.Contains(known, name) && !slices.Contains(others, name) {
				others = append(others, name)
			}
		}
	}
	for _, name := range known {
		if slices.ContainsFunc(runs, func(r *result.Run) bool { return r.Latency[name] != nil }) {
			there = append(there, name)
		}
	}
	slices.Sort(others)
	return append(there, others...)
}

func perTask(of func(*result.Cost) int64) func(*result.Run) (float64, bool) {
	return func(r *result.Run) (float64, bool) {
		tasks := float64(r.Finished) + float64(r.Failed)
		return float64(of(&r.Cost)) / tasks, tasks > 0 && of(&r.Cost) > 0
	}
}

// values returns the figure of every run. If a run has no figure, or one that is not a positive
// number, the figure cannot be compared and ok is false.
func (f figure) values(runs []*result.Run) (values []float64, ok bool) {
	for _, r := range runs {
		v, has := f.of(r)
		if !has || !(v > 0) || math.IsInf(v, 0) {
			return nil, false
		}
		values = append(values, v)
	}
	return values, true
}

// absent says that a figure of only one side is not compared; "" if neither side has it.
func (f figure) absent(hasA, hasB bool) string {
	switch {
	case hasA:
		return fmt.Sprintf("%s is not compared: not every run of B has it", f.name)
	case hasB:
		return fmt.Sprintf("%s is not compared: not every run of A has it", f.name)
	}
	return ""
}
