package cli

import (
	"slices"
	"strings"

	"github.com/rivo/uniseg"
)

const columnGap = 2

// columnLeast is how far text is cut before spare columns are left out, and columnShort before others are.
const (
	columnLeast = 8
	columnShort = 4
)

// Columns of ids are never cut, so that ids can be copied. Those of tasks are shortened.
var (
	taskColumns = []string{"ID", "HEAD", "TASK", "SAMPLE"}
	idColumns   = append([]string{"SILENCE", "WORKER"}, taskColumns...)
)

// grid is a table as it is shown.
type grid struct {
	columns []*column
	foreign bool // see sheet
}

// column is a column of a grid.
type column struct {
	cells []string // the first one is the heading
	width int      // columns of a terminal
	isID  bool
}

// measure makes the column as wide as its widest cell.
func (c *column) measure() {
	c.width = 0
	for _, cell := range c.cells {
		c.width = max(c.width, widthOf(cell))
	}
}

// fill replaces empty cells.
func (c *column) fill(text string) {
	for i, cell := range c.cells {
		if cell == "" {
			c.cells[i] = text
		}
	}
}

// isEmpty reports whether there are rows, and none has a value.
func (c *column) isEmpty() bool {
	return len(c.cells) > 1 && !slices.ContainsFunc(c.cells[1:], func(cell string) bool { return cell != "" && cell != "-" })
}

// least returns how wide the column is if its text is cut to a width.
func (c *column) least(width int) int {
	if c.isID {
		return c.width
	}
	return min(c.width, width)
}

// total returns how wide the table is if text is cut to a width.
func (g *grid) total(width int) int {
	total := columnGap * (len(g.columns) - 1)
	for _, c := range g.columns {
		total += c.least(width)
	}
	return total
}

// natural returns how wide the table is without a cut.
func (g *grid) natural() int { return g.total(1 << 30) }

// fit makes the table as narrow as a terminal. If mayOmit, columns are left out for that.
func (g *grid) fit(terminal int, spare []string, mayOmit bool) {
	if g.natural() > terminal && !g.foreign {
		g.shortenIDs()
	}
	for i := len(g.columns) - 1; mayOmit && i > 0 && g.natural() > terminal; i-- {
		if g.columns[i].isEmpty() {
			g.omit(i)
		}
	}
	for _, name := range spare {
		i := slices.IndexFunc(g.columns, func(c *column) bool { return c.cells[0] == name })
		if i > 0 && g.total(columnLeast) > terminal {
			g.omit(i)
		}
	}
	for i := len(g.columns) - 1; mayOmit && i > 0 && g.total(columnShort) > terminal; i-- {
		if !g.columns[i].isID {
			g.omit(i)
		}
	}
	g.cut(terminal, columnLeast)
	g.cut(terminal, columnShort)
}

func (g *grid) omit(i int) { g.columns = slices.Delete(g.columns, i, i+1) }

// cut takes from the widest columns until the table is not wider than the terminal, or all of them have the least width.
func (g *grid) cut(terminal, least int) {
	for total := g.natural(); total > terminal; total-- {
		var widest *column
		for _, c := range g.columns {
			if !c.isID && c.width > least && (widest == nil || c.width >= widest.width) {
				widest = c
			}
		}
		if widest == nil {
			return
		}
		widest.width--
	}
}

// shortenIDs shows the beginnings of the ids of tasks, by which verbs take them.
func (g *grid) shortenIDs() {
	for _, c := range g.columns {
		if slices.Contains(taskColumns, c.cells[0]) {
			shorten(c.cells[1:])
			c.measure()
		}
	}
}

// widthOf returns how many columns of a terminal a text takes.
func widthOf(text string) int {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return uniseg.StringWidth(text)
		}
	}
	return len(text)
}

// cut returns text that is not wider than width.
func cut(text string, width int) string {
	if widthOf(text) <= width {
		return text
	}
	var b strings.Builder
	used := 0
	for g := uniseg.NewGraphemes(text); g.Next() && used+g.Width() < width; used += g.Width() {
		b.WriteString(g.Str())
	}
	return b.String() + "…"
}
