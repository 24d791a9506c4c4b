// Package compare finds the differences between two measurements that are more than chance.
//
// The runs are few and their distribution is unknown, so the package compares their ranks. It tests a
// difference by the exact Mann-Whitney U test, and estimates its size by the Hodges-Lehmann estimate
// of the ratio, with the interval that belongs to that test. Since many figures are compared at once,
// it adjusts the p values with the method of Benjamini and Hochberg.
//
// Few runs prove little: with three runs on each side the smallest p is 1/10, and with four it is
// 1/35. If there are too few runs for an answer, the answer is [TooFewRuns], never "no difference".
package compare

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/taskengine/taskengine/bench/result"
)

// Schema is the version of the JSON of a report. The meaning of a field does not change within one
// version.
const Schema = 1

// DefaultAlpha is the share of false differences that [At] accepts by default among the reported ones.
const DefaultAlpha = 0.05

// mostRuns is the maximum number of runs on one side: the work grows with the product of both.
const mostRuns = 1000

// Verdict is the result of a comparison: how B differs from A.
type Verdict string

// The verdicts: faster or slower for rates and latencies, cheaper or dearer for costs.
const (
	Faster       Verdict = "faster"
	Slower       Verdict = "slower"
	Cheaper      Verdict = "cheaper"
	Dearer       Verdict = "dearer"
	NoDifference Verdict = "no difference shown" // there may be one that is too small for these runs
	TooFewRuns   Verdict = "too few runs"        // no values of so few runs would be significant
)

// Report is the result of comparing B with A.
type Report struct {
	Schema     int     `json:"schema"`
	Alpha      float64 `json:"alpha"`      // maximum of the adjusted p of a difference
	Adjustment string  `json:"adjustment"` // method of adjusting the p values
	Compared   int     `json:"compared"`   // figures, in all pairs
	Pairs      []Pair  `json:"pairs"`
	OnlyA      []Key   `json:"only_a"` // without a counterpart
	OnlyB      []Key   `json:"only_b"`
	Failed     bool    `json:"failed"` // a run of B failed its check
}

// Pair is one scenario on one subject, in A and B.
type Pair struct {
	Key
	A        Side     `json:"a"`
	B        Side     `json:"b"`
	Warnings []string `json:"warnings,omitempty"` // other differences, and failed checks
	Figures  []Figure `json:"figures"`

	SmallestP float64 `json:"p_smallest"`            // that so many runs can reach
	Wanted    int     `json:"runs_wanted,omitempty"` // runs of each side needed to show that a single figure differs; 0 if there are enough
}

// TooFew names the differences that so few runs cannot show, and the number of runs needed; "" if
// there are enough.
func (p *Pair) TooFew(r *Report) string {
	if p.Wanted == 0 {
		return ""
	}
	what := fmt.Sprintf("one figure alone among %d", r.Compared)
	if p.SmallestP > r.Alpha {
		what = "anything"
	}
	text := fmt.Sprintf("%s of A and %d of B are too few to tell %s from chance: however they come out, P is at least %.2g",
		result.Counted(p.A.Runs, "run"), p.B.Runs, what, p.SmallestP)
	if p.SmallestP <= r.Alpha {
		text += " before it is adjusted"
	}
	var more []string
	for _, side := range []struct {
		name string
		runs int
	}{{"A", p.A.Runs}, {"B", p.B.Runs}} {
		if n := p.Wanted - side.runs; n > 0 {
			more = append(more, fmt.Sprintf("%d more of %s", n, side.name))
		}
	}
	return fmt.Sprintf("%s; measure each %d times (%s)", text, p.Wanted, strings.Join(more, ", "))
}

// Side is the origin of the figures of one side.
type Side struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Runs     int    `json:"runs"`
}

// Figure is one figure of both sides.
type Figure struct {
	Name       string  `json:"name"`
	Unit       string  `json:"unit"` // tasks/s, ns or bytes
	A          Spread  `json:"a"`
	B          Spread  `json:"b"`
	Ratio      float64 `json:"ratio"`      // of B to A
	Low        float64 `json:"low"`        // the ratio is between Low and High
	High       float64 `json:"high"`       // ...
	Confidence float64 `json:"confidence"` // ... with this confidence, for this figure alone
	P          float64 `json:"p"`          // of the test for this figure alone
	Adjusted   float64 `json:"p_adjusted"` // for the number of figures
	SmallestP  float64 `json:"p_smallest"` // that so many runs can reach
	Verdict    Verdict `json:"verdict"`

	kind int
}

// Spread is the distribution of a figure over the runs.
type Spread struct {
	Median float64 `json:"median"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
}

// At compares b with a at an alpha above 0 and below 1. It pairs results by scenario, subject, store and
// offered load, and by settings and durability if there are several of these.
func At(alpha float64, a, b []*result.Result) (*Report, error) {
	if !(alpha > 0 && alpha < 1) {
		return nil, fmt.Errorf("alpha is %v; want a share above 0 and below 1", alpha)
	}
	if slices.Contains(a, nil) || slices.Contains(b, nil) {
		return nil, errors.New("compare: a result is nil")
	}
	r := &Report{Schema: Schema, Alpha: alpha, Adjustment: "Benjamini-Hochberg", Pairs: []Pair{}}
	pairs, onlyA, onlyB := pairUp(split(a), split(b))
	r.OnlyA, r.OnlyB = keys(onlyA), keys(onlyB)
	for _, p := range pairs {
		pair, err := comparePair(p[0], p[1], alpha)
		if err != nil {
			return nil, err
		}
		r.Pairs = append(r.Pairs, pair)
		r.Failed = r.Failed || len(failures("B", p[1].runs)) > 0
	}
	r.judge()
	return r, nil
}

func keys(sets []*set) []Key {
	out := []Key{}
	for _, s := range sets {
		out = append(out, s.key)
	}
	return out
}

func comparePair(a, b *set, alpha float64) (Pair, error) {
	if n := max(len(a.runs), len(b.runs)); n > mostRuns {
		return Pair{}, fmt.Errorf("%s: there are %d runs on one side; at most %d can be compared", a.key, n, mostRuns)
	}
	p := Pair{Key: a.key, A: sideOf(a), B: sideOf(b), Figures: []Figure{}}
	p.Warnings = slices.Concat(failures("A", a.runs), failures("B", b.runs), differences(a.from, b.from))
	for _, f := range figures(slices.Concat(a.runs, b.runs)) {
		x, okA := f.values(a.runs)
		y, okB := f.values(b.runs)
		if !okA || !okB {
			if why := f.absent(okA, okB); why != "" {
				p.Warnings = append(p.Warnings, why)
			}
			continue
		}
		c := Figure{
			Name: f.name, Unit: f.unit, A: spreadOf(x), B: spreadOf(y), kind: f.kind,
			P: mannWhitney(x, y), SmallestP: smallestP(len(x), len(y)),
		}
		c.Ratio, c.Low, c.High, c.Confidence = ratio(x, y, alpha)
		p.Figures = append(p.Figures, c)
	}
	return p, nil
}

func sideOf(s *set) Side {
	return Side{s.from.Subject.Version, s.from.Subject.Revision, len(s.runs)}
}

func spreadOf(values []float64) Spread {
	sorted := slices.Sorted(slices.Values(values))
	return Spread{median(sorted), sorted[0], sorted[len(sorted)-1]}
}

// judge adjusts the p values of all figures together and sets the verdicts.
func (r *Report) judge() {
	var all []*Figure
	var ps []float64
	for i := range r.Pairs {
		for j := range r.Pairs[i].Figures {
			f := &r.Pairs[i].Figures[j]
			all, ps = append(all, f), append(ps, f.P)
		}
	}
	r.Compared = len(all)
	for i := range r.Pairs {
		p := &r.Pairs[i]
		if p.SmallestP = smallestP(p.A.Runs, p.B.Runs); p.SmallestP*float64(r.Compared) > r.Alpha*rounding {
			p.Wanted = runsFor(r.Alpha * rounding / float64(max(1, r.Compared)))
		}
	}
	for i, p := range adjust(ps) {
		all[i].Adjusted = p
		all[i].Verdict = all[i].verdict(r.Alpha)
	}
}

// rounding is the largest relative error of a floating point sum, as a factor.
const rounding = 1 + 1e-9

func (f *Figure) verdict(alpha float64) Verdict {
	alpha *= rounding
	switch {
	case f.SmallestP > alpha:
		return TooFewRuns
	case f.Adjusted > alpha && f.P <= f.SmallestP*rounding:
		return TooFewRuns // every run of one side is beyond all runs of the other: p cannot be smaller
	case f.Adjusted > alpha || f.Ratio == 1:
		return NoDifference
	}
	switch more := f.Ratio > 1; {
	case f.kind == kindCost && more:
		return Dearer
	case f.kind == kindCost:
		return Cheaper
	case more == (f.kind == kindRate):
		return Faster
	}
	return Slower
}

// Slower reports whether B is slower than A in any figure.
func (r *Report) Slower() bool {
	return slices.ContainsFunc(r.Pairs, func(p Pair) bool {
		return slices.ContainsFunc(p.Figures, func(f Figure) bool { return f.Verdict == Slower })
	})
}
