package report

import (
	"fmt"
	"time"

	"github.com/taskengine/taskengine/bench/result"
	"github.com/taskengine/taskengine/internal/chart"
)

// tally has the figures of one or several seconds of a course, ready to be drawn.
type tally struct {
	at                         float64 // its end, in seconds
	offered, inserted, started float64 // per second
	p50, p99, by50, by99       float64 // ns
	backlog, dead, tables, log float64
}

// tallies merges seconds into at most mostIntervals tallies. Rates are their mean, other figures their worst.
func tallies(seconds []result.Second) []tally {
	together := max(1, (len(seconds)+mostIntervals-1)/mostIntervals)
	var out []tally
	for i := 0; i < len(seconds); i += together {
		some := seconds[i:min(i+together, len(seconds))]
		v := tally{at: some[len(some)-1].At.Seconds()}
		n := float64(len(some))
		for _, s := range some {
			v.offered += float64(s.Offered) / n
			v.inserted += float64(s.Inserted) / n
			v.started += float64(s.Started) / n
			for to, d := range map[*float64]time.Duration{&v.p50: s.StartP50, &v.p99: s.StartP99, &v.by50: s.BystanderP50, &v.by99: s.BystanderP99} {
				*to = max(*to, float64(d))
			}
			for to, n := range map[*float64]int64{&v.backlog: s.Backlog, &v.dead: s.Dead, &v.tables: s.Tables, &v.log: s.Log} {
				*to = max(*to, float64(n))
			}
		}
		out = append(out, v)
	}
	return out
}

// trait is one line of a course.
type trait struct {
	name   string
	style  int
	dashed bool
	of     func(tally) float64
}

// drawing collects the frames of a course.
type drawing struct {
	all    []tally
	legend []entry
	frames []*chart.Frame
}

// panel adds a frame.
func (d *drawing) panel(name string, height float64, by chart.Projection, format func(float64) string, traits ...trait) *chart.Frame {
	f := &chart.Frame{Height: height, X: chart.Axis{Label: "time", Format: formatSeconds}, Y: chart.Axis{Label: name, By: by, Format: format}}
	for _, t := range traits {
		key := len(d.legend)
		l := chart.Line{Key: key, Style: t.style, Dashed: t.dashed}
		for _, v := range d.all {
			y := t.of(v)
			if by == chart.Logged {
				y = above0(y)
			}
			l.Points = append(l.Points, chart.Point{X: v.at, Y: y, Bare: true, Tip: fmt.Sprintf("%s at %s: %s", t.name, formatSeconds(v.at), format(y))})
		}
		f.Lines = append(f.Lines, l)
		d.legend = append(d.legend, newEntry(key, t.style, t.dashed, t.name))
	}
	d.frames = append(d.frames, f)
	return f
}

// drawCourse draws a course over time. Marks in the first frame show where phases begin.
func drawCourse(id string, c *result.Course) figure {
	d := &drawing{all: tallies(c.Seconds)}
	f := figure{ID: id, Title: courseName(c) + " over time"}
	if len(d.all) == 0 {
		return f
	}
	d.panel("jobs per second", 150, chart.Linear, formatCount,
		trait{"offered", 4, true, func(v tally) float64 { return v.offered }},
		trait{"inserted", 2, true, func(v tally) float64 { return v.inserted }},
		trait{"started", 0, false, func(v tally) float64 { return v.started }})
	d.panel("insert to start (logarithmic)", 110, chart.Logged, formatTime,
		trait{"start p99", 1, false, func(v tally) float64 { return v.p99 }},
		trait{"start p50", 2, true, func(v tally) float64 { return v.p50 }})
	d.panel("jobs that have not ended", 70, chart.Linear, formatCount, trait{"backlog", 6, false, func(v tally) float64 { return v.backlog }})
	if c.Database != "" {
		d.panel("dead rows", 70, chart.Linear, formatCount, trait{"dead rows", 3, false, func(v tally) float64 { return v.dead }})
		d.panel("size", 70, chart.Linear, formatBytes,
			trait{"tables", 5, false, func(v tally) float64 { return v.tables }},
			trait{"write-ahead log", 7, true, func(v tally) float64 { return v.log }})
		d.panel("query of a bystander (logarithmic)", 80, chart.Logged, formatTime,
			trait{"bystander p99", 1, false, func(v tally) float64 { return v.by99 }},
			trait{"bystander p50", 2, true, func(v tally) float64 { return v.by50 }})
	}
	for _, frame := range d.frames {
		frame.Fit(6, 4)
	}
	f.Legend = d.legend
	f.Caption = "The phases begin at: "
	for i, p := range c.Phases {
		if i > 0 {
			f.Caption += ", "
		}
		f.Caption += p.Kind + " " + formatSeconds(p.From.Seconds())
	}
	f.Caption += ". Figures of the database are read once a second, and the backlog every five seconds; where the database did not answer, the last ones are drawn."
	f.Drawing = chart.Draw(f.Title, "Graphs below each other over the time of one course. "+f.Caption, id, d.frames...)
	return f
}
