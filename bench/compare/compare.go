// Package compare says which differences between two measurements are more than chance.
//
// Few runs and no assumption about how they scatter leave one sound choice: the ranks of
// the runs. A difference is tested by the exact Mann-Whitney U test, and its size is the
// Hodges-Lehmann estimate of the ratio with the interval that belongs to that test. Since
// many figures are compared at once, p values are adjusted after Benjamini and Hochberg.
//
// Ranks are honest about few runs: with three runs on each side no outcome is rarer than
// one in ten, and with four one in 35. Where the runs do not suffice for an answer, the
// answer is [TooFewRuns], never "no difference".
package compare

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/taskengine/taskengine/bench/result"
)

// Schema is the version of a report's JSON. A field is never given another meaning within
// one version.
const Schema = 1

// DefaultAlpha is the share of false differences that [Compare] accepts among those that
// it shows.
const DefaultAlpha = 0.05

// mostRuns is how many runs of one kind are compared: the work grows with their product.
const mostRuns = 1000

// Verdict is what a comparison came to, seen from B.
type Verdict string

// The verdicts. Rates and latencies are faster or slower, costs are cheaper or dearer.
const (
	Faster       Verdict = "faster"
	Slower       Verdict = "slower"
	Cheaper      Verdict = "cheaper"
	Dearer       Verdict = "dearer"
	NoDifference Verdict = "no difference shown" // there may be one that is too small for these runs
	TooFewRuns   Verdict = "too few runs"        // whatever they show, so few prove nothing
)

// Report is what came of comparing B with A.
type Report struct {
	Schema     int     `json:"schema"`
	Alpha      float64 `json:"alpha"`      // what an adjusted p may be at most to count
	Adjustment string  `json:"adjustment"` // of the p values for their number
	Compared   int     `json:"compared"`   // figures, in all pairs
	Pairs      []Pair  `json:"pairs"`
	OnlyA      []Key   `json:"only_a"` // without a counterpart
	OnlyB      []Key   `json:"only_b"`
	Failed     bool    `json:"failed"` // a run of B failed its check
}

// Pair is one scenario on one subject, before and after.
type Pair struct {
	Key
	A        Side     `json:"a"`
	B        Side     `json:"b"`
	Warnings []string `json:"warnings,omitempty"` // what else differs, checks that failed
	Figures  []Figure `json:"figures"`

	SmallestP float64 `json:"p_smallest"`            // that so many runs can reach
	Wanted    int     `json:"runs_wanted,omitempty"` // of each side, so that one figure alone can be shown to differ; 0 if there are as many
}

// TooFew says what so few runs cannot show, and how many more are wanted; "" if there are
// enough.
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

// Side is where the figures of one side come from.
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

// Spread is how a figure scatters over the runs.
type Spread struct {
	Median float64 `json:"median"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
}

// Compare compares b with a at DefaultAlpha. Results are paired by scenario, subject,
// store and offered load, and by settings and durability where there are several of these.
func Compare(a, b []*result.Result) (*Report, error) { return At(DefaultAlpha, a, b) }

// At is [Compare] with an alpha above 0 and below 1.
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

// judge adjusts the p values of all figures together and gives the verdicts.
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

// rounding is by how much a sum of floating point may be off.
const rounding = 1 + 1e-9

func (f *Figure) verdict(alpha float64) Verdict {
	alpha *= rounding
	switch {
	case f.SmallestP > alpha:
		return TooFewRuns
	case f.Adjusted > alpha && f.P <= f.SmallestP*rounding:
		return TooFewRuns // every run of one side is beyond all of the other: more is not to be had
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
