// Package report draws results of measurements: one self-contained HTML page, to be shared, kept and
// printed. The page depends on the results alone, so the same results make the same page.
//
// No result can break the page. All text is escaped, missing and absurd figures are left out, and the
// content security policy of the page forbids it to load anything.
package report

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/taskengine/taskengine/bench/result"
	"github.com/taskengine/taskengine/internal/chart"
)

var (
	//go:embed page.html.tmpl
	pageText string
	//go:embed page.css
	styleText string
	//go:embed page.js
	scriptText string
)

// page is the data of the template.
type page struct {
	Title    string
	Policy   string
	Style    template.CSS
	Script   template.JS
	State    state
	Verdict  string   // of all checks, in a sentence
	Failures []string // the failed checks, with their counts
	Warnings []string
	When     string
	Machines []setup
	Subjects grid
	Sections []section
}

// section is the part of the page about one scenario.
type section struct {
	ID      string
	Name    string
	Purpose string
	State   state
	First   []named // tables before the drawings
	Remarks []string
	Groups  []group
	Last    []named // tables after them
	Configs []string
}

// named is a table with a name.
type named struct {
	Name  string
	Table grid
}

// Write writes a page with all results. It fails if w fails or if a result is nil.
func Write(w io.Writer, results []*result.Result) error {
	if slices.Contains(results, nil) {
		return errors.New("report: a result is nil")
	}
	t, err := template.New("page").Funcs(template.FuncMap{"lines": func(s string) []string { return strings.Split(s, "\n") }}).Parse(pageText)
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	if err := t.Execute(w, newPage(results)); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

func newPage(results []*result.Result) *page {
	scenarios, subjects := collect(results)
	sum := sha256.Sum256([]byte(scriptText))
	p := &page{
		Title:    "Benchmark report",
		Style:    template.CSS(chart.Style() + styleText),
		Script:   template.JS(scriptText),
		Policy:   "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'",
		When:     when(results),
		Machines: machines(results),
		Subjects: described(subjects),
	}
	for i, s := range scenarios {
		p.Sections = append(p.Sections, newSection(fmt.Sprintf("s%d", i), s))
	}
	p.judge(scenarios)
	if n := len(p.Machines); n > 1 {
		p.Warnings = append(p.Warnings, fmt.Sprintf("These results come from %d different machines or set-ups. Do not compare figures across them.", n))
	}
	return p
}

func newSection(id string, s *scenario) section {
	out := section{ID: id, Name: orNone(s.name), Purpose: s.purpose, State: passed, Remarks: s.remarks()}
	for _, x := range s.series {
		out.State = worst(out.State, x.checks().state)
	}
	if len(s.series) > 0 {
		out.First, out.Last = []named{{"Result", s.speeds()}}, []named{{"Cost", s.costs()}}
		if g := s.loadsWithin(); len(g.Rows) > 0 {
			out.First = append(out.First, named{"Highest load that met the objective", g})
		}
		if checks := (named{"Checks", s.verdicts()}); out.State == passed {
			out.Last = append(out.Last, checks)
		} else {
			out.First = append(out.First, checks)
		}
	}
	for _, g := range []group{s.sideBySide(id), s.underLoad(id), s.percentiles(id), s.overTime(id)} {
		if len(g.Figures) > 0 {
			out.Groups = append(out.Groups, g)
		}
	}
	for _, res := range s.results {
		if text := string(res.Config); text != "" && !slices.Contains(out.Configs, text) {
			out.Configs = append(out.Configs, text)
		}
	}
	return out
}

// judge writes the result of all checks at the top of the page.
func (p *page) judge(scenarios []*scenario) {
	runs := 0
	p.State = passed
	for _, s := range scenarios {
		for _, x := range s.series {
			c := x.checks()
			runs += c.runs
			p.State = worst(p.State, c.state)
			where := s.name + ", " + x.subject.label + ", offered " + offeredOf(x)
			switch c.state {
			case failed:
				p.Failures = append(p.Failures, fmt.Sprintf("%s: %s: %s lost, %s doubled, %s out of order, %s beyond a limit", where, c.text(),
					formatWhole(c.lost), formatWhole(c.doubled), formatWhole(c.disorder), formatWhole(c.exceeded)))
			case unchecked:
				p.Warnings = append(p.Warnings, where+": "+c.text()+".")
			}
		}
	}
	for _, s := range scenarios {
		for _, text := range []string{s.missed(), s.disturbed()} {
			if text != "" {
				p.Warnings = append(p.Warnings, text)
			}
		}
	}
	switch {
	case p.State == failed:
		p.Title = "CHECKS FAILED – " + p.Title
		p.Verdict = "Checks failed. Do not use the figures of these runs."
	case runs == 0:
		p.State, p.Verdict = unchecked, "There are no runs."
	case p.State == unchecked:
		p.Verdict = "No check failed, but not every run was checked."
	case runs == 1:
		p.Verdict = "All checks passed in the only run."
	default:
		p.Verdict = fmt.Sprintf("All checks passed in all %d runs.", runs)
	}
}

// when returns when the runs began.
func when(results []*result.Result) string {
	var first, last time.Time
	for _, res := range results {
		for _, r := range res.Runs {
			if first.IsZero() || r.Began.Before(first) {
				first = r.Began
			}
			if last.IsZero() || r.Began.After(last) {
				last = r.Began
			}
		}
	}
	from, to := formatDate(first), formatDate(last)
	switch {
	case first.IsZero():
		return ""
	case from == to:
		return from
	}
	return from + " to " + to
}
