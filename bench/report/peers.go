package report

import (
	"fmt"

	"github.com/taskengine/taskengine/bench/result"
)

// Sizes of bars.
const (
	barLeft   = 4.0
	barRight  = drawingWidth - 100 // values are to the right of it
	barTop    = 6.0
	barHeight = 12.0
	barPitch  = 40.0 // including the name above
	barLabel  = drawingWidth - barLeft
)

// bars is a drawing of bars below each other, each from low to high.
type bars struct {
	x    axis
	rows []bar
}

type bar struct {
	label, tip, value string
	style             int
	from, to          float64 // of the bar
	low, high         float64 // of the whisker at its end; equal if there is none
	state             state
}

// sideBySide draws subjects side by side, for every load that several of them had.
func (s *scenario) sideBySide(id string) group {
	g := group{
		Title: "Side by side",
		Intro: "The same load on each subject. Compare only what promises the same durability: the table of subjects says what is on disk when an insert is acknowledged.",
	}
	for i, load := range s.loads() {
		var chosen []*series
		for _, x := range s.series {
			if result.SameLoad(x.offered, load) && len(x.runs) > 0 {
				chosen = append(chosen, x)
			}
		}
		if len(chosen) < 2 {
			continue
		}
		figures := []figure{drawRates(fmt.Sprintf("%s-rate-%d", id, i), load, chosen)}
		if f, ok := drawStarts(fmt.Sprintf("%s-start-%d", id, i), load, chosen); ok {
			figures = append(figures, f)
		}
		if len(g.Figures) < 2*openAtOnce {
			g.Figures = append(g.Figures, figures...)
		} else {
			g.More = append(g.More, figures...)
		}
	}
	return g
}

// under returns the load in words.
func under(load float64) string {
	if load == 0 {
		return "in a " + formatOffered(load)
	}
	return "at " + formatOffered(load) + " offered"
}

func drawRates(id string, load float64, chosen []*series) figure {
	f := figure{
		ID: id, Title: "Rate " + under(load),
		Caption: "Tasks ended per second. Bars are medians of the runs, whiskers reach from the lowest to the highest.",
		Table:   grid{Head: []string{"Subject", "rate", "runs", "checks", "durability"}},
	}
	b := bars{x: axis{label: "tasks per second", format: formatCount}}
	for _, s := range chosen {
		v, c := s.rate(), s.checks()
		f.Table.Rows = append(f.Table.Rows, row{c.state, []string{s.subject.label, v.cell(formatRate), fmt.Sprint(v.n), c.text(), s.subject.Durability}})
		if !v.ok() {
			continue
		}
		b.rows = append(b.rows, bar{
			label: s.subject.label, style: s.subject.style % styles, value: formatRate(v.median), state: c.state,
			to: v.median, low: v.low, high: v.high, tip: s.subject.label + ": " + v.text(formatRate) + ", " + c.text(),
		})
	}
	f.Drawing = b.draw(f.Title, id)
	return f
}

func drawStarts(id string, load float64, chosen []*series) (figure, bool) {
	f := figure{
		ID: id, Title: "Insert to start " + under(load),
		Caption: "Bars reach from the p50 to the p99 of the median run, so shorter and further left is better. The axis is logarithmic.",
		Table:   grid{Head: []string{"Subject", "p50", "p99", "checks"}},
	}
	b := bars{x: axis{label: "insert to start, p50 to p99 (logarithmic)", by: logged, format: formatTime}}
	for _, s := range chosen {
		p50, p99, c := s.quantile(result.InsertToStart, 0.5), s.quantile(result.InsertToStart, 0.99), s.checks()
		f.Table.Rows = append(f.Table.Rows, row{c.state, []string{s.subject.label, p50.cell(formatTime), p99.cell(formatTime), c.text()}})
		if !p50.ok() || !p99.ok() {
			continue
		}
		b.rows = append(b.rows, bar{
			label: s.subject.label, style: s.subject.style % styles, state: c.state,
			from: p50.median, to: p99.median, low: p99.median, high: p99.median,
			value: formatTime(p50.median) + " to " + formatTime(p99.median),
			tip:   fmt.Sprintf("%s: p50 %s, p99 %s, %s", s.subject.label, p50.text(formatTime), p99.text(formatTime), c.text()),
		})
	}
	f.Drawing = b.draw(f.Title, id)
	return f, len(b.rows) > 0
}
