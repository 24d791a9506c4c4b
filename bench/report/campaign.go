package report

import (
	"errors"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"

	_ "embed"

	"github.com/taskengine/taskengine/bench/result"
	"github.com/taskengine/taskengine/internal/chart"
)

//go:embed campaign.html.tmpl
var campaignText string

// campaignPage is the page of a campaign.
type campaignPage struct {
	Policy   string
	Style    template.CSS
	When     string
	State    state
	Verdict  string
	Facts    [][2]string // of the machine
	Command  string
	Rate     grid // starts a second of each subject in each phase
	P99      grid
	Sections []campaignSection
}

// campaignSection is one course.
type campaignSection struct {
	ID, Name, Text, Check string
	State                 state
	Phases                grid
	Figure                figure
}

// WriteCampaign writes a page about a campaign. It has no script.
func WriteCampaign(w io.Writer, c *result.Campaign) error {
	if c == nil {
		return errors.New("report: the campaign is nil")
	}
	t, err := template.New("page").Funcs(template.FuncMap{"lines": func(s string) []string { return strings.Split(s, "\n") }}).Parse(pageText)
	if err == nil {
		t, err = t.New("campaign").Parse(campaignText)
	}
	if err == nil {
		err = t.Execute(w, newCampaignPage(c))
	}
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

func newCampaignPage(c *result.Campaign) *campaignPage {
	p := &campaignPage{
		Policy: "default-src 'none'; style-src 'unsafe-inline'",
		Style:  template.CSS(chart.Style() + styleText),
		When:   formatDate(c.Began), State: passed, Command: strings.Join(c.Command, " "),
		Verdict: "Every job with an acknowledged insert has ended.",
		Facts: [][2]string{
			{"Processor", fmt.Sprintf("%s, %d cores", orNone(c.Machine.CPU), c.Machine.Cores)},
			{"Memory", formatBytes(float64(c.Machine.Memory))},
			{"Disk", orNone(c.Machine.Disk)},
			{"System", c.Machine.OS + " " + c.Machine.Kernel},
		},
	}
	p.Rate = compared(c, func(x *result.Phase) string { return formatRate(x.Rate) + "\n" + formatRate(x.Last) + " at its end" })
	p.P99 = compared(c, func(x *result.Phase) string {
		if x.Start.Count() == 0 {
			return none
		}
		return formatTime(float64(x.Start.Quantile(0.99))) + "\n" + formatTime(float64(x.Start.Quantile(0.5))) + " p50"
	})
	for i, course := range c.Courses {
		s := newCampaignSection(fmt.Sprintf("c%d", i), course)
		p.State = worst(p.State, s.State)
		p.Sections = append(p.Sections, s)
	}
	switch p.State {
	case failed:
		p.Verdict = "Jobs were lost, or others have failed. Do not use the figures of that course."
	case unchecked:
		p.Verdict = "No job is known to be lost, but not every course was checked."
	}
	return p
}

// compared returns a table with a row for each phase of the longest course, and a column for each course.
func compared(c *result.Campaign, of func(*result.Phase) string) grid {
	g := grid{Head: []string{"Phase"}}
	var longest []result.Phase
	for _, x := range c.Courses {
		g.Head = append(g.Head, courseName(x))
		if len(x.Phases) > len(longest) {
			longest = x.Phases
		}
	}
	seen := map[string]int{}
	for _, p := range longest {
		seen[p.Kind]++
		cells := []string{p.Kind}
		for _, x := range c.Courses {
			cell, n := none, 0
			for i := range x.Phases {
				if x.Phases[i].Kind != p.Kind {
					continue
				}
				if n++; n == seen[p.Kind] {
					cell = of(&x.Phases[i])
				}
			}
			cells = append(cells, cell)
		}
		g.Rows = append(g.Rows, row{Cells: cells})
	}
	return g
}

func courseName(c *result.Course) string { return c.Subject.Name + ", " + c.Subject.Store }

func newCampaignSection(id string, c *result.Course) campaignSection {
	s := campaignSection{ID: id, Name: courseName(c), State: passed, Check: "Every job with an acknowledged insert has ended."}
	s.Text = strings.Join([]string{c.Subject.Settings, c.Subject.Durability, c.Database}, ". ")
	switch {
	case c.Check.Lost > 0:
		s.State, s.Check = failed, formatWhole(c.Check.Lost)+" jobs with an acknowledged insert are lost."
	case !c.Check.OK:
		s.State, s.Check = unchecked, "It was not checked: "+strings.Join(c.Check.Notes, "; ")
	}
	if c.Again > 0 {
		s.Check += fmt.Sprintf(" Handlers were called %s times more than jobs ended.", formatWhole(c.Again))
	}
	s.Phases = grid{Head: []string{"Phase", "offered", "inserted", "refused", "started", "start p50", "start p99", "longest", "backlog at its end", "dead rows", "tables", "log", "bystander p99"}}
	for _, p := range c.Phases {
		seconds := max(1, (p.To - p.From).Seconds())
		cells := []string{
			p.Kind, formatRate(float64(p.Offered) / seconds), formatRate(float64(p.Inserted) / seconds), formatWhole(p.Refused), formatRate(p.Rate),
			timeOrNone(p.Start.Quantile(0.5)), timeOrNone(p.Start.Quantile(0.99)), timeOrNone(p.Start.Max()), formatWhole(p.Backlog),
		}
		if c.Database == "" {
			cells = append(cells, none, none, none, none)
		} else {
			cells = append(cells, formatWhole(p.Dead), formatBytes(float64(p.Tables)), formatBytes(float64(p.Log)), timeOrNone(p.Bystander.Quantile(0.99)))
		}
		s.Phases.Rows = append(s.Phases.Rows, row{Cells: cells})
	}
	s.Figure = drawCourse(id+"-time", c)
	return s
}

func timeOrNone(d time.Duration) string {
	if d == 0 {
		return none
	}
	return formatTime(float64(d))
}
