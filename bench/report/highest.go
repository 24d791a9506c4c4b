package report

import (
	"fmt"

	"github.com/taskengine/taskengine/bench/result"
)

// within is the highest load of a subject that met the objective of a scenario.
type within struct {
	subject   *subject
	objective result.Objective
	highest   *series // nil if no load met it
	missed    *series // the lowest load above highest that did not; nil if there is none
	below     *series // a load below highest that did not; nil if there is none
}

// holds reports whether a series met its objective in every run and kept up with its load.
func (s *series) holds() bool { return s.objective() == "met" && !s.behind() }

// withins returns the highest load that met the objective for each subject that was measured under
// several steady loads with an objective.
func (s *scenario) withins() (out []within) {
	for _, of := range s.subjects {
		loads := 0
		w := within{subject: of}
		for _, x := range s.series {
			if x.subject != of || x.offered <= 0 || x.objective() == "" {
				continue
			}
			loads++
			w.objective = x.res.Objective.Objective
			w.add(x)
		}
		if loads > 1 {
			out = append(out, w)
		}
	}
	return out
}

// add adds the next series, in the order of loads.
func (w *within) add(x *series) {
	switch {
	case !x.holds():
		if w.missed == nil {
			w.missed = x
		}
	default:
		if w.missed != nil {
			w.below, w.missed = w.missed, nil
		}
		w.highest = x
	}
}

// loadsWithin returns the table of the highest loads that met the objective.
func (s *scenario) loadsWithin() grid {
	g := grid{Head: []string{"Subject", "objective", "highest load that met it", "there", "next load that missed it", "remark"}}
	for _, w := range s.withins() {
		of := func(x *series) string {
			return "p" + digits4(100*w.objective.Quantile) + " " + x.quantile(w.objective.Latency, w.objective.Quantile).text(formatTime)
		}
		cells := []string{w.subject.label, w.objective.String(), none, none, none, ""}
		if w.highest != nil {
			cells[2], cells[3] = formatRate(w.highest.offered), of(w.highest)
		} else {
			cells[2] = "none"
		}
		if w.missed != nil {
			cells[4] = formatRate(w.missed.offered) + ": " + of(w.missed)
			if w.missed.behind() {
				cells[4] = formatRate(w.missed.offered) + ": did not keep up"
			}
		}
		switch {
		case w.below != nil:
			cells[5] = fmt.Sprintf("it was missed at %s, too: measure again", formatRate(w.below.offered))
		case w.missed == nil:
			cells[5] = "no load missed it: measure higher ones"
		}
		g.Rows = append(g.Rows, row{Cells: cells})
	}
	return g
}
