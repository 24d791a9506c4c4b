package result

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
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

var objective = regexp.MustCompile(`^p([0-9]{1,2}(?:\.[0-9]{1,4})?) ([a-z_]+) < ([0-9][0-9a-zµ.]*)$`)

// ParseObjective reads an objective such as "p99 start < 50ms": a percentile, then start, end or the
// name of a latency, then a duration. The error says what to write.
func ParseObjective(s string) (Objective, error) {
	m := objective.FindStringSubmatch(strings.Join(strings.Fields(s), " "))
	if m == nil {
		return Objective{}, fmt.Errorf("%.60q is no objective; write it such as p99 start < 50ms", s)
	}
	percent, err := strconv.ParseFloat(m[1], 64)
	if err != nil || percent <= 0 {
		return Objective{}, errors.New("p0 is no percentile; write one above 0 and below 100, such as p99")
	}
	latency := m[2]
	if long, ok := shortNames[latency]; ok {
		latency = long
	}
	if !slices.Contains(Latencies(), latency) {
		return Objective{}, fmt.Errorf("%.40q is no latency; use start, end or one of %s", m[2], strings.Join(Latencies(), ", "))
	}
	below, err := time.ParseDuration(m[3])
	if err != nil || below <= 0 {
		return Objective{}, fmt.Errorf("%.40q is no duration of more than 0; write it such as 50ms", m[3])
	}
	return Objective{latency, percent / 100, below}, nil
}

// String returns the objective in the form that [ParseObjective] reads.
func (o Objective) String() string {
	name := o.Latency
	for short, long := range shortNames {
		if long == name {
			name = short
		}
	}
	return fmt.Sprintf("p%s %s < %v", strconv.FormatFloat(math.Round(o.Quantile*1e6)/1e4, 'f', -1, 64), name, o.Below)
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
