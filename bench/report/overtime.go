package report

import (
	"fmt"
	"math"
	"time"

	"github.com/taskengine/taskengine/bench/result"
	"github.com/taskengine/taskengine/internal/chart"
)

const (
	mostIntervals = 240 // of a run that are drawn; more are merged
	mostDots      = 40  // maximum number of intervals with dots
	memoryName    = "resident memory"
	openAtOnce    = 2 // drawings over time that are not collapsed
)

// interval has the figures of a run between two times, ready to be drawn.
type interval struct {
	at                  float64 // its end, in seconds
	submitted, finished float64 // per second
	p50, p99            float64 // ns
	cpu, resident       float64
}

// overTime draws the typical run of each series over time.
func (s *scenario) overTime(id string) group {
	g := group{
		Title: "Over time",
		Intro: "How the run with the median rate went, from its first submit on. A rate that saws or a latency that climbs does not show in a mean.",
	}
	labels := labelsOf(s.series)
	for i, x := range s.series {
		run, number := x.typical()
		if run == nil {
			continue
		}
		all, together := intervals(run.Points)
		if len(all) == 0 {
			continue
		}
		f := drawOverTime(fmt.Sprintf("%s-time-%d", id, i), labels[i], all, s.goals(result.InsertToStart))
		f.Caption = fmt.Sprintf("Run %d of %d.", number, len(x.runs))
		if together > 1 {
			f.Caption += fmt.Sprintf(" Every point stands for %d intervals: rates are their mean, latencies and memory their worst.", together)
		}
		if len(g.Figures) < openAtOnce {
			g.Figures = append(g.Figures, f)
		} else {
			g.More = append(g.More, f)
		}
	}
	return g
}

// intervals merges points into at most mostIntervals intervals. together is the number of points of
// each.
func intervals(points []result.Point) (out []interval, together int) {
	together = (len(points) + mostIntervals - 1) / mostIntervals
	var last time.Duration
	for i := 0; i < len(points); i += together {
		some := points[i:min(i+together, len(points))]
		end := some[len(some)-1].At
		if end <= last {
			continue // without time there is no rate
		}
		seconds := end.Seconds() - last.Seconds()
		v := interval{at: end.Seconds()}
		for _, p := range some {
			v.submitted += float64(p.Submitted) / seconds
			v.finished += float64(p.Finished) / seconds
			v.p50 = max(v.p50, float64(p.StartP50))
			v.p99 = max(v.p99, float64(p.StartP99))
			v.cpu += p.CPU / float64(len(some))
			v.resident = max(v.resident, float64(p.Resident))
		}
		out, last = append(out, v), end
	}
	return out, together
}

// course is one line over time.
type course struct {
	name   string
	style  int
	dashed bool
	of     func(interval) float64
}

func drawOverTime(id, label string, all []interval, goals []chart.Goal) figure {
	key := 0
	var legend []entry
	panel := func(name string, height float64, by chart.Projection, format func(float64) string, courses ...course) *chart.Frame {
		f := &chart.Frame{Height: height, X: chart.Axis{Label: "time since the first submit", Format: formatSeconds}, Y: chart.Axis{Label: name, By: by, Format: format}}
		for _, c := range courses {
			f.Lines = append(f.Lines, c.line(key, all, format))
			if len(courses) > 1 {
				legend = append(legend, newEntry(key, c.style, c.dashed, c.name))
			}
			key++
		}
		if by == chart.Logged {
			f.Goals = goals
		}
		f.Fit(6, 4)
		return f
	}
	rates := panel("tasks per second", 130, chart.Linear, formatCount,
		course{"submitted", 4, true, func(i interval) float64 { return i.submitted }},
		course{"finished", 0, false, func(i interval) float64 { return i.finished }})
	starts := panel("insert to start (logarithmic)", 100, chart.Logged, formatTime,
		course{"start p99", 1, false, func(i interval) float64 { return above0(i.p99) }},
		course{"start p50", 2, true, func(i interval) float64 { return above0(i.p50) }})
	cpu := panel("cores in use", 60, chart.Linear, formatCores, course{"cores", 3, false, func(i interval) float64 { return i.cpu }})
	memory := panel(memoryName, 60, chart.Linear, formatBytes, course{"resident", 5, false, func(i interval) float64 { return i.resident }})
	desc := "Four graphs below each other over the time of one run: tasks submitted and finished per second, insert to start, cores in use and resident memory. The table below has the numbers."
	return figure{
		ID: id, Title: label, Legend: legend, Table: timeTable(all),
		Drawing: chart.Draw("Over time: "+label, desc, id, rates, starts, cpu, memory),
	}
}

// above0 returns NaN, which is not drawn, for a latency that was not measured.
func above0(v float64) float64 {
	if v <= 0 {
		return math.NaN()
	}
	return v
}

func (c course) line(key int, all []interval, format func(float64) string) chart.Line {
	l := chart.Line{Key: key, Style: c.style, Dashed: c.dashed}
	for _, i := range all {
		v := c.of(i)
		l.Points = append(l.Points, chart.Point{
			X: i.at, Y: v, Bare: len(all) > mostDots,
			Tip: fmt.Sprintf("%s at %s: %s", c.name, formatSeconds(i.at), format(v)),
		})
	}
	return l
}

func timeTable(all []interval) grid {
	g := grid{Head: []string{"Until", "submitted", "finished", "start p50", "start p99", "cores", "resident"}}
	const rows = 60
	every := (len(all) + rows - 1) / rows
	for i := every - 1; i < len(all); i += every {
		v := all[i]
		g.Rows = append(g.Rows, row{Cells: []string{
			formatSeconds(v.at), formatRate(v.submitted), formatRate(v.finished),
			formatTime(v.p50), formatTime(v.p99), formatCores(v.cpu), formatBytes(v.resident),
		}})
	}
	return g
}
