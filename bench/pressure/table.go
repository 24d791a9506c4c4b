//go:build unix

package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/taskengine/taskengine/bench/result"
	"github.com/taskengine/taskengine/internal/units"
)

// writeTable writes the phases of all courses as text.
func writeTable(w io.Writer, c *result.Campaign) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, course := range c.Courses {
		fmt.Fprintf(t, "%s, %s\n", course.Subject.Name, course.Subject.Store)
		fmt.Fprintln(t, strings.Join([]string{"phase", "offered/s", "started/s", "last quarter", "start p50", "p99", "longest", "refused", "backlog", "dead rows", "tables", "log", "bystander p99", ""}, "\t"))
		for _, p := range course.Phases {
			lasts := max(1, (p.To - p.From).Seconds())
			cells := []string{
				p.Kind, fmt.Sprintf("%.0f", float64(p.Offered)/lasts), fmt.Sprintf("%.0f", p.Rate), fmt.Sprintf("%.0f", p.Last),
				short(p.Start.Quantile(0.5)), short(p.Start.Quantile(0.99)), short(p.Start.Max()), fmt.Sprint(p.Refused), fmt.Sprint(p.Backlog),
			}
			if course.Database == "" {
				cells = append(cells, "", "", "", "")
			} else {
				cells = append(cells, fmt.Sprint(p.Dead), units.Bytes(float64(p.Tables)), units.Bytes(float64(p.Log)), short(p.Bystander.Quantile(0.99)))
			}
			fmt.Fprintln(t, strings.Join(append(cells, ""), "\t"))
		}
		fmt.Fprintf(t, "%s\n\n", verdict(course))
	}
	return t.Flush()
}

// verdict describes the check of a course.
func verdict(c *result.Course) string {
	text := "checked: every job with an acknowledged insert has ended"
	switch {
	case c.Check.Lost > 0:
		text = fmt.Sprintf("CHECK FAILED: %s lost", result.Counted(c.Check.Lost, "job"))
	case !c.Check.OK:
		text = "NOT CHECKED"
	}
	if c.Again > 0 {
		text += fmt.Sprintf("; handlers were called %s more than jobs ended", result.Counted(c.Again, "time"))
	}
	for _, n := range c.Check.Notes {
		text += "; " + n
	}
	return text
}

// short writes a duration with three digits or less.
func short(d time.Duration) string {
	switch {
	case d == 0:
		return "-"
	case d < 10*time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	}
	return d.Round(100 * time.Millisecond).String()
}
