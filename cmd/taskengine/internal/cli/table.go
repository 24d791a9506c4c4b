package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rivo/uniseg"
)

const (
	columnGap   = 2
	columnLeast = 8 // columns of a narrow terminal; text is not cut below that
)

// idColumns are the headings of columns with ids. They are never cut, so that they can be copied.
var idColumns = []string{"ID", "HEAD", "SILENCE", "WORKER"}

// printTable writes rows in columns. On a terminal they are cut to its width, except ids, and states
// have colours. If the terminal is too narrow for that, columns without a value are left out, and then
// the spare columns, in their order.
func (a *app) printTable(head []string, rows [][]string, spare ...string) error {
	cells := make([][]string, 0, len(rows)+1)
	for _, row := range append([][]string{head}, rows...) {
		clear := make([]string, len(row))
		for i, c := range row {
			if clear[i] = clean(c); c == "" && i < len(row)-1 {
				clear[i] = "-"
			}
		}
		cells = append(cells, clear)
	}
	widths := columnWidths(cells)
	if a.outTTY {
		width := a.width()
		for _, i := range leftOut(cells, widths, width, spare) {
			widths = slices.Delete(widths, i, i+1)
			for n := range cells {
				cells[n] = slices.Delete(cells[n], i, i+1)
			}
		}
		head = cells[0]
		fit(widths, head, width)
	}
	var b strings.Builder
	for n, row := range cells {
		for i, c := range row {
			shown := cut(c, widths[i])
			if i < len(row)-1 {
				shown += strings.Repeat(" ", widths[i]-uniseg.StringWidth(shown)+columnGap)
			}
			if n > 0 && head[i] == "STATE" {
				shown = a.coloured(c, shown)
			}
			b.WriteString(shown)
		}
		b.WriteByte('\n')
	}
	_, err := fmt.Fprint(a.stdout, b.String())
	return err
}

// leftOut returns the columns to omit so that the table fits the terminal, the last one first. Only
// columns with a heading in spare may be omitted.
func leftOut(cells [][]string, widths []int, terminal int, spare []string) (out []int) {
	head, total := cells[0], -columnGap
	for i, w := range widths {
		if total += w + columnGap; !slices.Contains(idColumns, head[i]) {
			total -= max(0, w-columnLeast) // it can be cut
		}
	}
	leave := func(i int) {
		if total > terminal && !slices.Contains(out, i) {
			total -= min(widths[i], columnLeast) + columnGap
			out = append(out, i)
		}
	}
	for i := len(head) - 1; i > 0; i-- {
		isEmpty := func(row []string) bool { return row[i] == "" || row[i] == "-" }
		if len(cells) > 1 && !slices.ContainsFunc(cells[1:], func(row []string) bool { return !isEmpty(row) }) {
			leave(i)
		}
	}
	for _, name := range spare {
		leave(slices.Index(head, name))
	}
	slices.SortFunc(out, func(a, b int) int { return b - a })
	return out
}

// columnWidths returns how many columns of a terminal each column of a table needs.
func columnWidths(rows [][]string) []int {
	var widths []int
	for _, row := range rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], uniseg.StringWidth(c))
		}
	}
	return widths
}

// fit takes from the widest columns until a table is not wider than the terminal, or nothing
// can be cut.
func fit(widths []int, head []string, terminal int) {
	total := -columnGap
	for _, w := range widths {
		total += w + columnGap
	}
	for ; total > terminal; total-- {
		widest := -1
		for i, w := range widths {
			if !slices.Contains(idColumns, head[i]) && w > columnLeast && (widest < 0 || w >= widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return
		}
		widths[widest]--
	}
}

// cut returns text that is not wider than width.
func cut(text string, width int) string {
	if uniseg.StringWidth(text) <= width {
		return text
	}
	var b strings.Builder
	used := 0
	for g := uniseg.NewGraphemes(text); g.Next() && used+g.Width() < width; used += g.Width() {
		b.WriteString(g.Str())
	}
	return b.String() + "…"
}

// The colours of states, as parameters of a terminal.
var stateColours = map[string]string{
	"done": "32", "error": "31;1", "failed": "31", "processing": "36", "waiting": "33", "cancelled": "2",
}

// coloured returns text in the colour of a state, if the standard output may have colours.
func (a *app) coloured(state, text string) string {
	colour, ok := stateColours[state]
	if !ok || !a.outTTY || !a.mayColour() {
		return text
	}
	trimmed := strings.TrimRight(text, " ")
	return "\x1b[" + colour + "m" + trimmed + "\x1b[0m" + text[len(trimmed):]
}

// mayColour reports whether the environment allows colours on a terminal.
func (a *app) mayColour() bool {
	no, _ := a.env("NO_COLOR")
	kind, _ := a.env("TERM")
	return no == "" && kind != "dumb"
}
