package cli

import (
	"fmt"
	"strings"

	"github.com/rivo/uniseg"
)

const (
	columnGap   = 2
	columnLeast = 8 // columns of a narrow terminal; text is not cut below that
)

// printTable writes rows in columns. On a terminal they are cut to its width, but for ids, and
// states have colours.
func (a *app) printTable(head []string, rows [][]string) error {
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
		fit(widths, head, a.width())
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
// can be cut. Ids are never cut: people copy them.
func fit(widths []int, head []string, terminal int) {
	total := -columnGap
	for _, w := range widths {
		total += w + columnGap
	}
	for ; total > terminal; total-- {
		widest := -1
		for i, w := range widths {
			if head[i] != "ID" && w > columnLeast && (widest < 0 || w >= widths[widest]) {
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
