package result

import (
	"slices"
	"time"

	"github.com/taskengine/taskengine/internal/objective"
)

// Objective is a wanted latency: a share of the tasks must take less than a time.
type Objective struct {
	Latency  string   `json:"latency"`  // one of Latencies
	Quantile float64  `json:"quantile"` // the share, above 0 and below 1
	Below    Duration `json:"below_ns"`
}

// Evaluation is an objective and whether it was met.
type Evaluation struct {
	Objective
	Met bool `json:"met"` // in every run
}

// shortNames has short names of the most common latencies.
var shortNames = map[string]string{"start": InsertToStart, "end": EndToEnd}

// ParseObjective reads an objective such as "p99 start < 50ms": a percentile, then start, end or the
// name of a latency, then a duration. The error describes the syntax.
func ParseObjective(s string) (Objective, error) {
	o, err := objective.Parse(s, time.ParseDuration, append([]string{"start", "end"}, Latencies()...)...)
	if err != nil {
		return Objective{}, err
	}
	if long, ok := shortNames[o.Latency]; ok {
		o.Latency = long
	}
	return Objective{o.Latency, o.Quantile, o.Below}, nil
}

// String returns the objective in the form that [ParseObjective] reads.
func (o Objective) String() string {
	name := o.Latency
	for short, long := range shortNames {
		if long == name {
			name = short
		}
	}
	return objective.Objective{Quantile: o.Quantile, Latency: name, Below: o.Below}.String()
}

// MetIn reports whether a run has met the objective. A run without that latency has not.
func (o Objective) MetIn(r *Run) bool {
	h := r.Latency[o.Latency]
	return h != nil && h.Count() > 0 && h.Quantile(o.Quantile) < o.Below
}

// Evaluate reports whether the objective was met in all runs. Without runs it is not met.
func (o Objective) Evaluate(runs []Run) *Evaluation {
	missed := slices.ContainsFunc(runs, func(r Run) bool { return !o.MetIn(&r) })
	return &Evaluation{o, len(runs) > 0 && !missed}
}
