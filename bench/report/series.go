package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/taskengine/taskengine/bench/result"
)

// series has all runs of one subject in one scenario with the same load.
type series struct {
	subject *subject
	res     *result.Result
	offered float64
	runs    []*result.Run
}

// subject is a measured subject with a unique label.
type subject struct {
	result.Subject
	label string
	style int // of its lines
}

// scenario has all series of the scenario with one name.
type scenario struct {
	name     string
	purpose  string
	subjects []*subject
	series   []*series        // by subject, and then by load
	results  []*result.Result // that it comes from
}

// collect groups the runs of results by scenario, subject and load.
func collect(results []*result.Result) (scenarios []*scenario, subjects []*subject) {
	subjects = name(results)
	for _, res := range results {
		at := slices.IndexFunc(scenarios, func(s *scenario) bool { return s.name == res.Scenario })
		if at < 0 {
			at = len(scenarios)
			scenarios = append(scenarios, &scenario{name: res.Scenario})
		}
		scenarios[at].take(res, subjects[slices.IndexFunc(subjects, func(s *subject) bool { return s.Subject == res.Subject })])
	}
	for _, s := range scenarios {
		slices.SortStableFunc(s.series, func(a, b *series) int {
			if a.subject != b.subject {
				return slices.Index(s.subjects, a.subject) - slices.Index(s.subjects, b.subject)
			}
			return cmp.Compare(a.offered, b.offered)
		})
	}
	return scenarios, subjects
}

func (s *scenario) take(res *result.Result, of *subject) {
	s.results = append(s.results, res)
	if s.purpose == "" {
		s.purpose = res.Purpose
	}
	if !slices.Contains(s.subjects, of) {
		s.subjects = append(s.subjects, of)
	}
	for i := range res.Runs {
		x := s.seriesOf(res, of, res.Runs[i].Offered)
		x.runs = append(x.runs, &res.Runs[i])
	}
	if len(res.Runs) == 0 {
		s.series = append(s.series, &series{subject: of, res: res, offered: math.NaN()}) // shows that runs are missing
	}
}

func (s *scenario) seriesOf(res *result.Result, of *subject, offered float64) *series {
	for _, x := range s.series {
		if x.subject == of && result.SameLoad(x.offered, offered) {
			return x
		}
	}
	x := &series{subject: of, res: res, offered: offered}
	s.series = append(s.series, x)
	return x
}

// name gives every subject of the results a label: its name and store, and as much more as needed to
// distinguish it from the others.
func name(results []*result.Result) []*subject {
	var out []*subject
	for _, res := range results {
		if !slices.ContainsFunc(out, func(s *subject) bool { return s.Subject == res.Subject }) {
			out = append(out, &subject{Subject: res.Subject, style: len(out)})
		}
	}
	for _, s := range out {
		s.label = short(s.Name, 40)
		if s.Store != "" && s.Store != s.Name {
			s.label += " · " + short(s.Store, 40)
		}
	}
	for _, more := range []func(*subject) string{
		func(s *subject) string { return s.Version },
		func(s *subject) string { return s.Settings },
		func(s *subject) string { return s.Durability },
		func(s *subject) string { return s.Revision },
	} {
		distinguish(out, more)
	}
	for i, s := range out {
		if i > 0 && slices.ContainsFunc(out[:i], func(o *subject) bool { return o.label == s.label }) {
			s.label += fmt.Sprintf(" (%d)", i+1)
		}
		if s.label == "" {
			s.label = "unnamed"
		}
	}
	return out
}

// distinguish extends labels that several subjects share by their differences.
func distinguish(all []*subject, more func(*subject) string) {
	byLabel := map[string][]*subject{}
	for _, s := range all {
		byLabel[s.label] = append(byLabel[s.label], s)
	}
	for _, alike := range byLabel {
		apart := slices.ContainsFunc(alike, func(s *subject) bool { return more(s) != more(alike[0]) })
		for _, s := range alike {
			if apart && more(s) != "" {
				s.label += " · " + short(firstPart(more(s)), 40)
			}
		}
	}
}

// firstPart returns the text before the explanation, as in "everysec: may lose a second".
func firstPart(s string) string {
	if at := strings.IndexAny(s, ":;("); at > 0 {
		return strings.TrimSpace(s[:at])
	}
	return s
}

// short cuts text to n characters.
func short(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

// spread is the distribution of a figure over runs.
type spread struct {
	median, low, high float64
	n                 int
}

// ok reports whether there is any figure.
func (s spread) ok() bool { return s.n > 0 }

// text writes a spread with its unit: the median, and the range if it differs.
func (s spread) text(format func(float64) string) string {
	if !s.ok() {
		return none
	}
	if s.n == 1 || format(s.low) == format(s.high) {
		return format(s.median)
	}
	return fmt.Sprintf("%s (%s)", format(s.median), formatRange(s.low, s.high, format))
}

// cell writes a spread for a table, with the range on a second line.
func (s spread) cell(format func(float64) string) string {
	if !s.ok() || s.n == 1 || format(s.low) == format(s.high) {
		return s.text(format)
	}
	return format(s.median) + "\n" + formatRange(s.low, s.high, format)
}

// spreadOf returns the spread of values. It leaves out values that are no numbers.
func spreadOf(values []float64) spread {
	var sorted []float64
	for _, v := range values {
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			sorted = append(sorted, v)
		}
	}
	slices.Sort(sorted)
	n := len(sorted)
	if n == 0 {
		return spread{}
	}
	return spread{sorted[(n-1)/2]/2 + sorted[n/2]/2, sorted[0], sorted[n-1], n}
}

// over returns the spread of a figure over the runs that have it.
func (s *series) over(of func(*result.Run) (v float64, ok bool)) spread {
	var values []float64
	for _, r := range s.runs {
		if v, ok := of(r); ok {
			values = append(values, v)
		}
	}
	return spreadOf(values)
}

func (s *series) rate() spread {
	return s.over(func(r *result.Run) (float64, bool) { return r.Rate, true })
}

// quantile returns a quantile of a latency in nanoseconds. A run with so few tasks that none is
// expected beyond the quantile does not have it.
func (s *series) quantile(latency string, q float64) spread {
	return s.over(func(r *result.Run) (float64, bool) {
		h := r.Latency[latency]
		if h == nil || float64(h.Count())*(1-q) < 1-1e-9 {
			return 0, false
		}
		return max(1, float64(h.Quantile(q))), true
	})
}

func (s *series) longest(latency string) spread {
	return s.over(func(r *result.Run) (float64, bool) {
		h := r.Latency[latency]
		if h == nil || h.Count() <= 0 {
			return 0, false
		}
		return max(1, float64(h.Max())), true
	})
}

// perTask returns a cost per task that ended. A cost of 0 was not measured.
func (s *series) perTask(of func(*result.Cost) int64) spread {
	return s.over(func(r *result.Run) (float64, bool) {
		tasks := float64(r.Finished) + float64(r.Failed)
		return float64(of(&r.Cost)) / tasks, tasks > 0 && of(&r.Cost) > 0
	})
}

// cost returns a cost of a whole run.
func (s *series) cost(of func(*result.Cost) float64) spread {
	return s.over(func(r *result.Run) (float64, bool) { return of(&r.Cost), of(&r.Cost) > 0 })
}

// typical returns the run with the median rate, and its number.
func (s *series) typical() (run *result.Run, number int) {
	if len(s.runs) == 0 {
		return nil, 0
	}
	order := slices.Clone(s.runs)
	slices.SortStableFunc(order, func(a, b *result.Run) int { return cmp.Compare(a.Rate, b.Rate) })
	run = order[(len(order)-1)/2]
	return run, slices.Index(s.runs, run) + 1
}

// latencies returns the names of latencies that some run has, the known ones first.
func (s *scenario) latencies() []string {
	has := map[string]bool{}
	for _, x := range s.series {
		for _, r := range x.runs {
			for name, h := range r.Latency {
				has[name] = has[name] || h != nil && h.Count() > 0
			}
		}
	}
	var out, others []string
	for _, name := range result.Latencies() {
		if has[name] {
			out = append(out, name)
		}
	}
	for name, there := range has {
		if there && !slices.Contains(out, name) {
			others = append(others, name)
		}
	}
	slices.Sort(others)
	return append(out, others...)
}

// loads returns the loads of the scenario, ascending.
func (s *scenario) loads() []float64 {
	var out []float64
	for _, x := range s.series {
		if len(x.runs) > 0 && !slices.ContainsFunc(out, func(load float64) bool { return result.SameLoad(load, x.offered) }) {
			out = append(out, x.offered)
		}
	}
	slices.Sort(out)
	return out
}
