package top

import (
	"fmt"
	"strings"
	"time"

	"github.com/rivo/uniseg"

	"github.com/taskengine/taskengine/dashboard"
	"github.com/taskengine/taskengine/internal/terminal"
	"github.com/taskengine/taskengine/internal/units"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// Rows of a section on a terminal that has no room for all. Types take the lines that are left.
const (
	mostKinds = 6
	mostNodes = 6
)

// Frame is a picture of an answer.
type Frame struct {
	Answer  *Answer
	Now     time.Time
	Paused  bool
	Problem string    // why the node does not answer; "" if it does
	Since   time.Time // the time of its last answer, if there is a problem
	Keys    bool      // keys are shown

	Width, Height int // of the terminal; a Height of 0 has room for all
	Colour        bool
}

// style is a way to show text, as parameters of a terminal.
type style string

const (
	plain  style = ""
	strong style = "1"
	bad    style = "31;1"
	head   style = "7"
)

// cell is text in a style.
type cell struct {
	text  string
	style style
}

// Lines returns the frame, which is neither wider nor higher than the terminal.
func (f *Frame) Lines() []string {
	lines := append(f.title(), f.totals()...)
	types, kinds, nodes := f.types(), f.kinds(), f.nodes()
	if f.Height > 0 {
		kinds, nodes = shortened(kinds, mostKinds, "kinds"), shortened(nodes, mostNodes, "nodes")
		const between = 3 // empty lines
		types = shortened(types, max(1, f.Height-len(lines)-len(kinds)-len(nodes)-between-2), "types")
	}
	for _, section := range [][]string{types, kinds, nodes} {
		if len(section) > 0 {
			lines = append(append(lines, ""), section...)
		}
	}
	if f.Height > 0 && len(lines) > f.Height {
		lines = lines[:f.Height]
	}
	return lines
}

// shortened cuts the rows below the head of a section to most, and says how many are left out.
func shortened(section []string, most int, name string) []string {
	if rows := len(section) - 1; rows > most+1 {
		return append(section[:1+most:1+most], fmt.Sprintf("and %d more %s", rows-most, name))
	}
	return section
}

func (f *Frame) title() (lines []string) {
	state := "live"
	if f.Paused {
		state = "paused"
	}
	left := []cell{{"taskengine top ", strong}, {" " + terminal.Line(f.Answer.Address) + "  " + f.Answer.At.UTC().Format("15:04:05Z"), plain}}
	if f.Keys {
		left = append(left, cell{"  " + state + "  (q: quit, p: pause)", plain})
	}
	lines = append(lines, f.line(left...))
	if f.Problem != "" {
		lines = append(lines, f.line(cell{fmt.Sprintf("no answer since %s (%s ago): %s", f.Since.UTC().Format("15:04:05Z"), units.Span(max(0, f.Now.Sub(f.Since))), terminal.Line(f.Problem)), bad}))
	}
	for _, s := range f.Answer.Overview.GetSilent() {
		name := "other nodes do"
		if s.GetNode() != "" {
			name = "node " + s.GetNode() + " does"
		}
		lines = append(lines, f.line(cell{terminal.Line(name + " not answer, and its part is missing: " + s.GetProblem()), bad}))
	}
	return lines
}

// totals has the numbers of all types together.
func (f *Frame) totals() []string {
	n := dashboard.Sum(f.Answer.Overview.GetNodes())
	more := ""
	if n.All.More {
		more = "+"
	}
	counted := "tasks are not counted yet"
	if !n.CountedAt.IsZero() {
		counted = "counted " + f.ago(n.CountedAt) + " ago"
	}
	ready := fmt.Sprintf("ready %d%s", n.All.Ready, more)
	if n.All.Oldest != nil {
		ready += ", the oldest for " + f.ago(n.All.Oldest.AsTime())
	}
	return []string{
		f.line(cell{fmt.Sprintf("in a second  submitted %s  started %s  done %s  ", dashboard.Rate(n.All.Submitted), dashboard.Rate(n.All.Started), dashboard.Rate(n.All.Done)), plain},
			cell{"failed " + dashboard.Rate(n.All.Failed), badIf(n.All.Failed > 0)}, cell{"  tried again " + dashboard.Rate(n.All.Retried), plain}),
		f.line(cell{fmt.Sprintf("start latency  p50 %s  p99 %s", dashboard.Delay(n.All.P50), dashboard.Delay(n.All.P99)), plain}),
		f.line(cell{fmt.Sprintf("tasks  %s  running %d  waiting %d%s  ", ready, n.All.Running, n.All.Waiting, more), plain},
			cell{fmt.Sprintf("error %d%s", n.All.Errors, more), badIf(n.All.Errors > 0)}, cell{"  (" + counted + ")", plain}),
	}
}

// delay writes a delay in a column.
func delay(seconds float64) string { return strings.ReplaceAll(dashboard.Delay(seconds), " ", "") }

func badIf(is bool) style {
	if is {
		return bad
	}
	return plain
}

func (f *Frame) types() []string {
	n := dashboard.Sum(f.Answer.Overview.GetNodes())
	rows := [][]cell{{{text: "TYPE"}, {text: "READY"}, {text: "OLDEST"}, {text: "RUN"}, {text: "WAIT"}, {text: "ERROR"}, {text: "START/S"}, {text: "FAIL/S"}, {text: "P50"}, {text: "P99"}}}
	for _, t := range n.Types {
		name := t.Name
		if name == "" {
			name = "(not configured)"
		}
		if t.Paused {
			name += " (paused)"
		}
		ready, oldest := fmt.Sprint(t.Ready), "-"
		if t.More {
			ready += "+"
		}
		if t.Oldest != nil {
			oldest = f.ago(t.Oldest.AsTime())
		}
		rows = append(rows, []cell{
			{text: name},
			{text: ready},
			{text: oldest},
			{text: fmt.Sprint(t.Running)},
			{text: fmt.Sprint(t.Waiting)},
			{fmt.Sprint(t.Errors), badIf(t.Errors > 0)},
			{text: dashboard.Rate(t.Started)},
			{dashboard.Rate(t.Failed), badIf(t.Failed > 0)},
			{text: delay(t.P50)},
			{text: delay(t.P99)},
		})
	}
	lines := f.table(rows, 0)
	if n.Quiet > 0 {
		lines = append(lines, f.line(cell{fmt.Sprintf("%d more have no tasks and do nothing", n.Quiet), plain}))
	}
	return lines
}

func (f *Frame) kinds() []string {
	a := f.Answer
	switch {
	case a.KindsProblem != "":
		return []string{f.line(cell{"errors by kind: " + terminal.Line(a.KindsProblem), plain})}
	case a.Kinds == nil:
		return []string{f.line(cell{"errors by kind: they are being counted", plain})}
	case len(a.Kinds.GetKinds()) == 0:
		return nil
	}
	rows := [][]cell{{{text: "LAST"}, {text: "TASKS"}, {text: "KIND"}, {text: "TYPES"}, {text: "ERROR (counted " + f.ago(a.KindsAt) + " ago)"}}}
	for _, k := range a.Kinds.GetKinds() {
		rows = append(rows, []cell{
			{text: f.ago(k.GetLast().AsTime())}, {fmt.Sprint(k.GetTasks()), bad}, {text: k.GetKind()[:min(8, len(k.GetKind()))]}, {text: short(strings.Join(k.GetTypes(), ","), 24)}, {text: k.GetPattern()},
		})
	}
	return f.table(rows, 4)
}

func (f *Frame) nodes() []string {
	if f.Answer.NodesProblem != "" {
		return []string{f.line(cell{"nodes: " + terminal.Line(f.Answer.NodesProblem), plain})}
	}
	rows := [][]cell{{{text: "NODE"}, {text: "RUN"}, {text: "SLOTS"}, {text: "MEMORY"}, {text: "SHARDS"}, {text: "WORKERS"}, {text: "UP"}, {text: "VERSION"}, {text: "ROLES"}}}
	for _, n := range f.Answer.Nodes.GetNodes() {
		rows = append(rows, f.node(n))
	}
	return f.table(rows, 0)
}

func (f *Frame) node(n *taskenginev1.Node) []cell {
	name, s := n.GetName(), n.GetStatus()
	if n.GetDraining() {
		name += " (draining)"
	}
	if s == nil {
		return []cell{{text: name}, {"-", bad}, {text: "-"}, {text: "-"}, {text: "-"}, {text: "-"}, {text: "-"}, {text: n.GetVersion()}, {"does not answer", bad}}
	}
	slots := "no limit"
	if s.GetSlots() > 0 {
		slots = fmt.Sprint(s.GetSlots())
	}
	return []cell{
		{text: name},
		{text: fmt.Sprint(s.GetRunning())},
		{text: slots},
		{text: fmt.Sprint(s.GetWaiting())},
		{text: fmt.Sprintf("%d/%d", s.GetShards(), s.GetShardsTotal())},
		{text: fmt.Sprint(s.GetWorkers())},
		{text: units.Span(s.GetUptime().AsDuration())},
		{text: n.GetVersion()},
		{text: strings.Join(s.GetRoles(), ",")},
	}
}

func (f *Frame) ago(at time.Time) string {
	return units.Span(max(0, f.Now.Sub(at).Truncate(time.Second)))
}

// table writes rows in columns: the first and the last one begin at the left, and the others end at the right. If they are wider than the
// terminal, the column named long is cut, at least to 12 columns.
func (f *Frame) table(rows [][]cell, long int) []string {
	const gap, least = 2, 12
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i := range row {
			row[i].text = terminal.Line(row[i].text)
			widths[i] = max(widths[i], uniseg.StringWidth(row[i].text))
		}
	}
	total := -gap
	for _, w := range widths {
		total += w + gap
	}
	if f.Width > 0 && total > f.Width {
		widths[long] = max(min(widths[long], least), widths[long]-(total-f.Width))
	}
	lines := make([]string, 0, len(rows))
	for n, row := range rows {
		var cells []cell
		for i, c := range row {
			if n == 0 {
				c.style = head
			}
			text := short(c.text, widths[i])
			space := strings.Repeat(" ", widths[i]-uniseg.StringWidth(text))
			switch {
			case i == len(row)-1:
			case i == 0:
				text += space
			default:
				text = space + text
			}
			if i > 0 {
				text = strings.Repeat(" ", gap) + text
			}
			cells = append(cells, cell{text, c.style})
		}
		lines = append(lines, f.line(cells...))
	}
	return lines
}

// line writes cells beside each other, cut to the width of the terminal.
func (f *Frame) line(cells ...cell) string {
	var b strings.Builder
	left := f.Width
	for _, c := range cells {
		text := c.text
		if f.Width > 0 {
			text = short(text, left)
			left -= uniseg.StringWidth(text)
		}
		if text != "" && f.Colour && c.style != plain {
			text = "\x1b[" + string(c.style) + "m" + text + "\x1b[0m"
		}
		b.WriteString(text)
	}
	return b.String()
}

// short returns text that is not wider than width.
func short(text string, width int) string {
	if uniseg.StringWidth(text) <= width {
		return text
	}
	if width <= 0 {
		return ""
	}
	var b strings.Builder
	used := 0
	for g := uniseg.NewGraphemes(text); g.Next() && used+g.Width() < width; used += g.Width() {
		b.WriteString(g.Str())
	}
	return b.String() + "…"
}
