package report

import (
	"html/template"
	"strings"

	"github.com/taskengine/taskengine/internal/chart"
)

// figure is a drawing with its title, legend and table.
type figure struct {
	ID      string
	Title   string
	Caption string
	Legend  []entry
	Drawing template.HTML
	Table   grid // the values of the drawing
}

// entry is one line of a legend. Its key is that of the lines that it shows and hides.
type entry struct {
	Key    int
	Label  string
	Swatch template.HTML
}

// group is a list of figures of one kind.
type group struct {
	Title   string
	Intro   string
	Figures []figure
	More    []figure // that are collapsed at first
}

// grid is a table.
type grid struct {
	Head []string
	Rows []row
}

// row is one row of a table. The first cell is its name.
type row struct {
	State state // "" is nothing special
	Cells []string
}

// newEntry returns a line of a legend: a sample of the line, and its label.
func newEntry(key, style int, dashed bool, label string) entry {
	return entry{key, label, chart.Swatch(style%chart.Styles, dashed)}
}

// entriesOf returns the legend of lines that differ by subject and load.
func entriesOf(chosen []*series, labels []string, styleOf func(i int) int) []entry {
	out := make([]entry, len(chosen))
	for i := range chosen {
		out[i] = newEntry(i, styleOf(i), false, labels[i])
	}
	return out
}

// labelsOf returns the shortest names that distinguish series: with the subject if there are several,
// and with the load if there are several.
func labelsOf(chosen []*series) []string {
	subjects, loads := false, false
	for _, s := range chosen {
		subjects = subjects || s.subject != chosen[0].subject
		loads = loads || s.offered != chosen[0].offered
	}
	out := make([]string, len(chosen))
	for i, s := range chosen {
		var parts []string
		if subjects || !loads {
			parts = append(parts, s.subject.label)
		}
		if loads {
			parts = append(parts, formatOffered(s.offered))
		}
		out[i] = strings.Join(parts, ", ")
	}
	return out
}

// stylesOf returns the colours of lines: that of the subject if there are several, and else one for
// each line.
func stylesOf(chosen []*series) func(i int) int {
	seen := map[*subject]bool{}
	for _, s := range chosen {
		seen[s.subject] = true
	}
	if len(seen) == len(chosen) && len(seen) > 1 {
		return func(i int) int { return chosen[i].subject.style % chart.Styles }
	}
	return func(i int) int { return i % chart.Styles }
}
