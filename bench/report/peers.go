package report

import (
	"fmt"

	"github.com/taskengine/taskengine/bench/result"
	"github.com/taskengine/taskengine/internal/chart"
)

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
	b := chart.Bars{X: chart.Axis{Label: "tasks per second", Format: formatCount}}
	for _, s := range chosen {
		v, c := s.rate(), s.checks()
		f.Table.Rows = append(f.Table.Rows, row{c.state, []string{s.subject.label, v.cell(formatRate), fmt.Sprint(v.n), c.text(), s.subject.Durability}})
		if !v.ok() {
			continue
		}
		b.Rows = append(b.Rows, chart.Bar{
			Label: barLabel(s, c), Style: s.subject.style % chart.Styles, Value: formatRate(v.median), Bad: c.state == failed,
			To: v.median, Low: v.low, High: v.high, Tip: s.subject.label + ": " + v.text(formatRate) + ", " + c.text(),
		})
	}
	f.Drawing = b.Draw(f.Title, "Bars of "+result.Counted(len(b.Rows), "subject")+"; the table below has the numbers.", id)
	return f
}

func drawStarts(id string, load float64, chosen []*series) (figure, bool) {
	f := figure{
		ID: id, Title: "Insert to start " + under(load),
		Caption: "Bars reach from the p50 to the p99 of the median run, so shorter and further left is better. The axis is logarithmic.",
		Table:   grid{Head: []string{"Subject", "p50", "p99", "checks"}},
	}
	b := chart.Bars{X: chart.Axis{Label: "insert to start, p50 to p99 (logarithmic)", By: chart.Logged, Format: formatTime}}
	for _, s := range chosen {
		p50, p99, c := s.quantile(result.InsertToStart, 0.5), s.quantile(result.InsertToStart, 0.99), s.checks()
		f.Table.Rows = append(f.Table.Rows, row{c.state, []string{s.subject.label, p50.cell(formatTime), p99.cell(formatTime), c.text()}})
		if !p50.ok() || !p99.ok() {
			continue
		}
		b.Rows = append(b.Rows, chart.Bar{
			Label: barLabel(s, c), Style: s.subject.style % chart.Styles, Bad: c.state == failed,
			From: p50.median, To: p99.median, Low: p99.median, High: p99.median,
			Value: formatTime(p50.median) + " to " + formatTime(p99.median),
			Tip:   fmt.Sprintf("%s: p50 %s, p99 %s, %s", s.subject.label, p50.text(formatTime), p99.text(formatTime), c.text()),
		})
	}
	f.Drawing = b.Draw(f.Title, "Bars of "+result.Counted(len(b.Rows), "subject")+"; the table below has the numbers.", id)
	return f, len(b.Rows) > 0
}

// barLabel returns the label of the bar of a series.
func barLabel(s *series, c checks) string {
	if c.state == failed {
		return "✗ check failed: " + s.subject.label
	}
	return s.subject.label
}
