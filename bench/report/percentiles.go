package report

import (
	"fmt"
	"math"
	"slices"

	"github.com/taskengine/taskengine/bench/result"
	"github.com/taskengine/taskengine/internal/chart"
)

// mostLines is the maximum number of lines of a drawing.
const mostLines = chart.Styles

// shares are the quantiles in tables.
var shares = []float64{0.5, 0.9, 0.99, 0.999, 0.9999}

// stepsPerNine is the number of values of a line of percentiles for each nine.
const stepsPerNine = 8

// meanings has the definitions of latencies.
var meanings = map[string]string{
	result.InsertAck:     "from when the load meant to submit a task until it was acknowledged as durable",
	result.TriggerToGrab: "from a task being ready to run and durable until its handler was called",
	result.InsertToStart: "from when the load meant to submit a task until its handler was called",
	result.FinishAck:     "from a handler's return until its outcome was durable",
	result.EndToEnd:      "from when the load meant to submit a task until its outcome was durable",
	result.Lateness:      "from the time a task was scheduled for until its handler was called",
}

// titles has the names of latencies on the page.
var titles = map[string]string{
	result.InsertAck:     "Insert to acknowledgement",
	result.TriggerToGrab: "Trigger to grab",
	result.InsertToStart: "Insert to start",
	result.FinishAck:     "Finish to acknowledgement",
	result.EndToEnd:      "End to end",
	result.Lateness:      "Lateness of scheduled tasks",
}

func titleOf(latency string) string {
	if t, ok := titles[latency]; ok {
		return t
	}
	return short(latency, 60)
}

// percentiles draws each latency of a scenario.
func (s *scenario) percentiles(id string) group {
	g := group{
		Title: "Latency percentiles",
		Intro: "How long the slowest share of tasks took. Each further nine to the right is ten times rarer. Lines are medians of the runs, bands reach from the lowest run to the highest.",
	}
	for i, latency := range s.latencies() {
		for j, chosen := range s.bundles(latency) {
			f := drawPercentiles(fmt.Sprintf("%s-lat-%d-%d", id, i, j), latency, chosen, s.goals(latency))
			g.Figures = append(g.Figures, f)
		}
	}
	return g
}

// bundles returns the series to draw together: all that have a latency, or one bundle for each subject
// if there are too many.
func (s *scenario) bundles(latency string) [][]*series {
	var all []*series
	bySubject := make([][]*series, len(s.subjects))
	for _, x := range s.series {
		if x.longest(latency).ok() {
			all = append(all, x)
			at := slices.Index(s.subjects, x.subject)
			bySubject[at] = append(bySubject[at], x)
		}
	}
	if len(all) <= mostLines {
		return [][]*series{all}
	}
	var out [][]*series
	if loads := len(s.loads()); loads > 1 && loads < len(all) {
		for _, of := range bySubject {
			if len(of) > 0 {
				out = append(out, of)
			}
		}
		return out
	}
	return [][]*series{all}
}

// thin keeps the first, the last and evenly chosen elements between them.
func thin(all []*series) []*series {
	if len(all) <= mostLines {
		return all
	}
	var out []*series
	for i := range mostLines {
		out = append(out, all[i*(len(all)-1)/(mostLines-1)])
	}
	return out
}

func drawPercentiles(id, latency string, all []*series, goals []chart.Goal) figure {
	chosen := thin(all)
	labels, styleOf := labelsOf(chosen), stylesOf(chosen)
	fr := &chart.Frame{
		Height: 240, Goals: goals,
		X: chart.Axis{Label: "percentile", By: chart.Percent, Format: formatShare, Shares: shares},
		Y: chart.Axis{Label: "latency (logarithmic)", By: chart.Logged, Format: formatTime},
	}
	for i, s := range chosen {
		fr.Lines = append(fr.Lines, percentileLine(s, latency, labels[i], i, styleOf(i)))
	}
	fr.Fit(6, 6)
	f := figure{ID: id, Title: titleOf(latency), Caption: caption(latency, all, chosen), Legend: entriesOf(chosen, labels, styleOf)}
	desc := fmt.Sprintf("Percentiles of %s for %d series; the table below has the numbers.", latency, len(chosen))
	f.Drawing = chart.Draw(f.Title, desc, id, fr)
	f.Table = percentileTable(latency, all)
	if len(subjectsOf(chosen)) == 1 && len(chosen) > 1 {
		f.Title += ", " + chosen[0].subject.label
	}
	return f
}

// subjectsOf returns the subjects of series.
func subjectsOf(all []*series) (out []*subject) {
	for _, s := range all {
		if !slices.Contains(out, s.subject) {
			out = append(out, s.subject)
		}
	}
	return out
}

func caption(latency string, all, chosen []*series) string {
	text := latency
	if m := meanings[latency]; m != "" {
		text += ": " + m
	}
	if len(chosen) < len(all) {
		text += fmt.Sprintf(". %d of %d series are drawn; the table has all", len(chosen), len(all))
	}
	return text + "."
}

func percentileLine(s *series, latency, label string, key, style int) chart.Line {
	l := chart.Line{Key: key, Style: style}
	for _, q := range quantilesOf(s, latency) {
		v := s.quantile(latency, q)
		if !v.ok() {
			continue
		}
		p := chart.Point{X: q, Y: v.median}
		if slices.Contains(shares, q) {
			p.Tip = fmt.Sprintf("%s: %s of tasks within %s", label, formatShare(q), v.text(formatTime))
		}
		l.Points = append(l.Points, p)
		l.Band = append(l.Band, chart.Between{X: q, Low: v.low, High: v.high})
	}
	return l
}

// quantilesOf returns the quantiles to draw, ascending, up to the last one that every run has tasks
// for.
func quantilesOf(s *series, latency string) []float64 {
	count := math.Inf(1)
	for _, r := range s.runs {
		if h := r.Latency[latency]; h != nil {
			count = min(count, float64(h.Count()))
		}
	}
	nines := min(math.Log10(count), 4)
	if math.IsNaN(nines) {
		return nil
	}
	var out []float64
	for i := 0.0; i/stepsPerNine <= nines; i++ {
		out = append(out, 1-math.Pow(10, -i/stepsPerNine))
	}
	for _, q := range shares {
		if at, _ := chart.Percent.Project(q); at <= nines+1e-9 && !slices.ContainsFunc(out, func(o float64) bool { return math.Abs(o-q) < 1e-9 }) {
			out = append(out, q)
		}
	}
	for i, q := range out { // use exactly the values of the table
		for _, share := range shares {
			if math.Abs(q-share) < 1e-9 {
				out[i] = share
			}
		}
	}
	slices.Sort(out)
	return out
}

func percentileTable(latency string, all []*series) grid {
	g := grid{Head: []string{"Series"}}
	for _, q := range shares {
		g.Head = append(g.Head, formatShare(q))
	}
	g.Head = append(g.Head, "longest")
	labels := labelsOf(all)
	for i, s := range all {
		cells := []string{labels[i]}
		for _, q := range shares {
			cells = append(cells, s.quantile(latency, q).cell(formatTime))
		}
		g.Rows = append(g.Rows, row{Cells: append(cells, s.longest(latency).cell(formatTime))})
	}
	return g
}

func formatShare(q float64) string {
	return digits4(100*q) + nbsp + "%"
}

// digits4 writes a percentage with all of its nines.
func digits4(v float64) string { return fmt.Sprintf("%.6g", v) }
