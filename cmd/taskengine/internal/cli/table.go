package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/internal/suggest"
)

// sheet is a table: rows under headings. All tables of the program are written by [app.printSheets].
type sheet struct {
	head []string
	rows [][]string // as many cells each as head has

	spare []string // the columns that a terminal without room for all leaves out, in their order
	wide  []string // the columns that only -o wide and --columns show

	foreign bool // the ids in it are not those of tasks
}

// printTable writes a table whose columns are all shown where there is room.
func (a *app) printTable(head []string, rows [][]string, spare ...string) error {
	return a.printSheets(sheet{head: head, rows: rows, spare: spare})
}

// printSheets writes tables with an empty line between them.
//
// On a terminal, no line is wider than that: ids of tasks are shortened, columns without a value are left out, and then the
// spare columns, and text is cut. Nothing of that is done if the standard output is no terminal, or with -o wide. With
// --columns, tables that have none of these columns are not written.
func (a *app) printSheets(all ...sheet) error {
	all, err := a.table.choose(all)
	if err != nil {
		return err
	}
	for i, s := range all {
		if i > 0 {
			if _, err := fmt.Fprintln(a.stdout); err != nil {
				return err
			}
		}
		if err := a.printGrid(a.gridOf(s)); err != nil {
			return err
		}
	}
	return nil
}

// gridOf returns the columns of a sheet that are shown.
func (a *app) gridOf(s sheet) *grid {
	g := &grid{foreign: s.foreign}
	for i, name := range s.head {
		if a.output != wide && a.table.columns == nil && slices.Contains(s.wide, name) {
			continue
		}
		cells := make([]string, len(s.rows)+1)
		cells[0] = name
		for n, row := range s.rows {
			cells[n+1] = clean(row[i])
		}
		g.columns = append(g.columns, &column{cells: cells, isID: slices.Contains(idColumns, name)})
	}
	for i, c := range g.columns {
		if i < len(g.columns)-1 {
			c.fill("-")
		}
		c.measure()
	}
	if a.outTTY && a.output != wide {
		spare := s.spare
		if a.table.columns != nil {
			spare = nil
		}
		g.fit(a.width(), spare, a.table.columns == nil)
	}
	return g
}

// printGrid writes a table line by line.
func (a *app) printGrid(g *grid) error {
	if len(g.columns) == 0 {
		return nil
	}
	var b strings.Builder
	for n := range g.columns[0].cells {
		if n == 0 && a.table.noHeaders {
			continue
		}
		var line strings.Builder
		for i, c := range g.columns {
			shown := cut(c.cells[n], c.width)
			if i < len(g.columns)-1 {
				shown += strings.Repeat(" ", c.width-widthOf(shown)+columnGap)
			}
			if n > 0 && c.cells[0] == "STATE" {
				shown = a.coloured(c.cells[n], shown)
			}
			line.WriteString(shown)
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	_, err := fmt.Fprint(a.stdout, b.String())
	return err
}

// tableFlags are the flags of commands that show tables.
type tableFlags struct {
	columns   []string // --columns; nil: as the command shows them
	noHeaders bool     // --no-headers
}

// choose returns the sheets that have columns of --columns, with these columns in their order.
func (f *tableFlags) choose(all []sheet) (chosen []sheet, err error) {
	if f.columns == nil {
		return all, nil
	}
	if len(f.columns) == 0 {
		return nil, exit.Errorf(exit.Usage, "--columns names no column")
	}
	unknown := slices.Clone(f.columns)
	var names []string
	for _, s := range all {
		some := sheet{rows: make([][]string, len(s.rows)), foreign: s.foreign}
		for _, wanted := range f.columns {
			i := slices.IndexFunc(s.head, func(name string) bool { return columnName(name) == columnName(wanted) })
			if i < 0 {
				continue
			}
			some.head = append(some.head, s.head[i])
			for n, row := range s.rows {
				some.rows[n] = append(some.rows[n], row[i])
			}
			unknown = slices.DeleteFunc(unknown, func(name string) bool { return name == wanted })
		}
		if some.head != nil {
			chosen = append(chosen, some)
		}
		for _, name := range s.head {
			names = append(names, columnName(name))
		}
	}
	if len(unknown) > 0 {
		return nil, exit.Errorf(exit.Usage, "--columns: there is no column %.40q; %s", unknown[0], suggest.Advice(columnName(unknown[0]), names))
	}
	return chosen, nil
}

// columnName returns a heading as --columns has it: ordering-key for ORDERING KEY.
func columnName(heading string) string {
	return strings.ToLower(strings.NewReplacer(" ", "-", "_", "-").Replace(strings.TrimSpace(heading)))
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
