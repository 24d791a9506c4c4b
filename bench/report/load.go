package report

import (
	"fmt"

	"github.com/taskengine/taskengine/bench/result"
	"github.com/taskengine/taskengine/internal/chart"
)

// behind is the share of the offered load below which a subject has not kept up.
const behind = 0.95

// widest is the maximum factor between loads on a chart.Linear axis.
const widest = 30

// markLabel is the maximum width of the name of a subject at its knee.
const markLabel = 150.0

// curve is the latency of one subject over the load.
type curve struct {
	subject *subject
	series  []*series // by ascending load
	knee    int       // the index of the load at the knee, or -1
}

// underLoad draws latency over load, if there are several loads.
func (s *scenario) underLoad(id string) group {
	g := group{
		Title: "Latency against load",
		Intro: "Each point is a load that was offered at a steady pace, whether or not the subject kept up. " +
			"The knee, marked by a line, is where the p99 begins to rise faster than the load: the place furthest below the straight line " +
			"from the first to the last load, on the axes as they are drawn (the method Kneedle). " +
			"To the right of it, a little more load costs much more latency. It is looked for from four loads on, and only if the p99 at least doubles.",
	}
	for i, latency := range []string{result.InsertToStart, result.EndToEnd, result.Lateness} {
		if curves := s.curves(latency); len(curves) > 0 && len(g.Figures) == 0 {
			g.Figures = append(g.Figures, drawCurves(fmt.Sprintf("%s-load-%d", id, i), latency, curves, s.goals(latency)))
		}
	}
	return g
}

// curves returns the curves of the subjects that were measured under several steady loads.
func (s *scenario) curves(latency string) []curve {
	var out []curve
	for _, of := range s.subjects {
		c := curve{subject: of, knee: -1}
		for _, x := range s.series {
			if x.subject == of && x.offered > 0 && x.quantile(latency, 0.99).ok() {
				c.series = append(c.series, x)
			}
		}
		if len(c.series) > 1 {
			out = append(out, c)
		}
	}
	by := projectionOf(out)
	for i := range out {
		out[i].findKnee(latency, by)
	}
	return out
}

// projectionOf returns the chart.Projection of the loads of curves: by their logarithm if they differ much.
func projectionOf(curves []curve) chart.Projection {
	if len(curves) == 0 {
		return chart.Linear
	}
	least, most := curves[0].series[0].offered, 0.0
	for _, c := range curves {
		least, most = min(least, c.series[0].offered), max(most, c.series[len(c.series)-1].offered)
	}
	if most/least > widest {
		return chart.Logged
	}
	return chart.Linear
}

// findKnee sets the knee of the p99 of a curve with loads drawn by a chart.Projection.
func (c *curve) findKnee(latency string, by chart.Projection) {
	var loads, p99s []float64
	for _, x := range c.series {
		loads, p99s = append(loads, x.offered), append(p99s, x.quantile(latency, 0.99).median)
	}
	if at, ok := knee(loads, p99s, by); ok {
		c.knee = at
	}
}

func drawCurves(id, latency string, curves []curve, goals []chart.Goal) figure {
	f := figure{ID: id, Title: titleOf(latency) + " against load"}
	f.Table = grid{Head: []string{"Subject", "offered", "rate", "p50", "p99", "p99.9", ""}}
	fr := &chart.Frame{
		Height: 280, Goals: goals,
		X: chart.Axis{Label: "offered load, tasks per second", Format: formatCount},
		Y: chart.Axis{Label: "latency (logarithmic)", By: chart.Logged, Format: formatTime},
	}
	for i, c := range curves {
		style := c.subject.style % chart.Styles
		if len(curves) == 1 {
			style = 0
		}
		fr.Lines = append(fr.Lines, c.line(latency, 0.5, 2*i, style), c.line(latency, 0.99, 2*i+1, style))
		f.Legend = append(f.Legend,
			newEntry(2*i+1, style, false, c.subject.label+", p99"), newEntry(2*i, style, true, c.subject.label+", p50"))
		if c.knee >= 0 {
			fr.Marks = append(fr.Marks, c.mark(latency, 2*i+1, style, len(curves) > 1))
		}
		f.Table.Rows = append(f.Table.Rows, c.rows(latency)...)
		f.Caption += c.sentence() + " "
	}
	f.Caption += fmt.Sprintf("Hollow points did not keep up: they ended less than %g %% of what was offered.", 100*behind)
	if fr.X.By = projectionOf(curves); fr.X.By == chart.Logged {
		fr.X.Label += " (logarithmic)"
	}
	fr.Fit(6, 6)
	desc := "p50 and p99 over the offered load, with the knee of each p99 marked. " + f.Caption
	f.Drawing = chart.Draw(f.Title, desc, id, fr)
	return f
}

func (c curve) line(latency string, q float64, key, style int) chart.Line {
	l := chart.Line{Key: key, Style: style, Dashed: q == 0.5}
	for _, s := range c.series {
		v := s.quantile(latency, q)
		if !v.ok() {
			continue
		}
		l.Points = append(l.Points, chart.Point{
			X: s.offered, Y: v.median, Hollow: s.behind(),
			Tip: fmt.Sprintf("%s at %s: p%g %s", c.subject.label, formatRate(s.offered), 100*q, v.text(formatTime)),
		})
		if q != 0.5 {
			l.Band = append(l.Band, chart.Between{X: s.offered, Low: v.low, High: v.high})
		}
	}
	return l
}

// behind reports whether the rate of a subject was below the offered load.
func (s *series) behind() bool {
	r := s.rate()
	return r.ok() && r.median < behind*s.offered
}

func (c curve) mark(latency string, key, style int, named bool) chart.Mark {
	s := c.series[c.knee]
	m := chart.Mark{Key: key, Style: style, X: s.offered, Y: s.quantile(latency, 0.99).median, Tip: c.sentence()}
	m.Label = "knee at " + formatRate(s.offered)
	if named {
		m.Label = chart.Fitted(c.subject.label, markLabel) + ": " + m.Label
	}
	return m
}

func (c curve) sentence() string {
	if c.knee >= 0 {
		return fmt.Sprintf("%s: the knee is at %s.", c.subject.label, formatRate(c.series[c.knee].offered))
	}
	if len(c.series) < kneeRates {
		return fmt.Sprintf("%s: too few loads to look for a knee, %d of %d.", c.subject.label, len(c.series), kneeRates)
	}
	return c.subject.label + ": no knee within these loads."
}

func (c curve) rows(latency string) []row {
	var out []row
	for i, s := range c.series {
		remark := ""
		switch {
		case i == c.knee:
			remark = "knee"
		case s.behind():
			remark = "did not keep up"
		}
		cells := []string{c.subject.label, formatRate(s.offered), s.rate().cell(formatRate)}
		for _, q := range []float64{0.5, 0.99, 0.999} {
			cells = append(cells, s.quantile(latency, q).cell(formatTime))
		}
		out = append(out, row{Cells: append(cells, remark)})
	}
	return out
}
