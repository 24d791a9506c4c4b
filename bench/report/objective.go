package report

import (
	"fmt"
	"slices"

	"github.com/taskengine/taskengine/bench/result"
	"github.com/taskengine/taskengine/internal/chart"
)

// goals returns the objectives for a latency in the results of the scenario, each once.
func (s *scenario) goals(latency string) (out []chart.Goal) {
	for _, res := range s.results {
		o := res.Objective
		if o == nil || o.Latency != latency {
			continue
		}
		g := chart.Goal{Y: float64(o.Below), Label: fmt.Sprintf("objective: p%s < %s", digits4(100*o.Quantile), formatTime(float64(o.Below)))}
		if !slices.Contains(out, g) {
			out = append(out, g)
		}
	}
	return out
}

// objective returns whether a series met its objective, in words; "" if it has none.
func (s *series) objective() string {
	o := s.res.Objective
	if o == nil {
		return ""
	}
	missed := 0
	for _, r := range s.runs {
		if !o.MetIn(r) {
			missed++
		}
	}
	switch {
	case len(s.runs) == 0:
		return ""
	case missed > 0:
		return fmt.Sprintf("MISSED in %d of %s", missed, result.Counted(len(s.runs), "run"))
	}
	return "met"
}

// missed returns which objectives no load of a scenario has met, in words; "" is none.
func (s *scenario) missed() string {
	var o *result.Evaluation
	for _, x := range s.series {
		switch x.objective() {
		case "":
		case "met":
			return ""
		default:
			o = x.res.Objective
		}
	}
	if o == nil {
		return ""
	}
	return fmt.Sprintf("%s: the objective was missed: %s.", orNone(s.name), short(o.String(), 60))
}

// disturbed describes the runs that other processes disturbed; "" is none.
func (s *scenario) disturbed() string {
	runs, busy, most := 0, 0, 0.0
	for _, x := range s.series {
		for _, r := range x.runs {
			runs++
			if r.Others > result.Disturbed {
				busy, most = busy+1, max(most, r.Others)
			}
		}
	}
	if busy == 0 {
		return ""
	}
	return fmt.Sprintf("%s: others used up to %s cores of the machine in %d of %s, so these figures are not those of the subject alone.",
		orNone(s.name), formatCores(most), busy, result.Counted(runs, "run"))
}
