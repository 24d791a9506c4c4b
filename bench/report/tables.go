package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/taskengine/taskengine/bench/result"
	"github.com/taskengine/taskengine/internal/machine"
)

// speeds returns the table of rates and latencies of a scenario.
func (s *scenario) speeds() grid {
	g := grid{Head: []string{"Subject", "offered", "runs", "rate", "start p50", "start p99", "start p99.9", "to the machine's limits", "checks"}}
	wanted := slices.ContainsFunc(s.series, func(x *series) bool { return x.objective() != "" })
	if wanted {
		g.Head = append(g.Head, "objective")
	}
	for _, x := range s.series {
		c := x.checks()
		cells := []string{x.subject.label, offeredOf(x), fmt.Sprint(len(x.runs)), x.rate().cell(formatRate)}
		for _, q := range []float64{0.5, 0.99, 0.999} {
			cells = append(cells, x.quantile(result.InsertToStart, q).cell(formatTime))
		}
		var portions []string
		for _, p := range x.portions() {
			portions = append(portions, p.text())
		}
		cells = append(cells, orNone(strings.Join(portions, "\n")), c.text())
		if wanted {
			cells = append(cells, orNone(x.objective()))
		}
		g.Rows = append(g.Rows, row{c.state, cells})
	}
	return g
}

// costs returns the table of the resource usage of a scenario.
func (s *scenario) costs() grid {
	g := grid{Head: []string{"Subject", "offered", "CPU per task", "written per task", "stored per task", "allocated per task", "memory", "wake-ups", "cores of others"}}
	for _, x := range s.series {
		g.Rows = append(g.Rows, row{Cells: []string{
			x.subject.label, offeredOf(x),
			x.perTask(func(c *result.Cost) int64 { return int64(c.CPU) }).cell(formatTime),
			x.perTask(func(c *result.Cost) int64 { return c.Written }).cell(formatBytes),
			x.perTask(func(c *result.Cost) int64 { return c.StoreSize }).cell(formatBytes),
			x.perTask(func(c *result.Cost) int64 { return c.Allocated }).cell(formatBytes),
			x.cost(func(c *result.Cost) float64 { return float64(c.Resident) }).cell(formatBytes),
			x.cost(func(c *result.Cost) float64 { return c.Wakeups }).cell(formatRate),
			x.over(func(r *result.Run) (float64, bool) { return r.Others, r.Others > 0 }).cell(formatCores),
		}})
	}
	return g
}

// verdicts returns the table of the checks of the runs.
func (s *scenario) verdicts() grid {
	g := grid{Head: []string{"Subject", "offered", "checks", "lost", "doubled", "out of order", "beyond a limit", "what was looked at", "what was found"}}
	const notes = 10
	for _, x := range s.series {
		c := x.checks()
		found := c.notes
		if len(found) > notes {
			found = append(found[:notes:notes], fmt.Sprintf("and %d more", len(c.notes)-notes))
		}
		g.Rows = append(g.Rows, row{c.state, []string{
			x.subject.label, offeredOf(x), c.text(), formatWhole(c.lost), formatWhole(c.doubled), formatWhole(c.disorder),
			formatWhole(c.exceeded), orNone(strings.Join(c.checked, "; ")), orNone(strings.Join(found, "; ")),
		}})
	}
	return g
}

// remarks returns the notes of the runs of a scenario, each once.
func (s *scenario) remarks() (out []string) {
	const most = 30
	add := func(x *series, text string) {
		if text = x.subject.label + ", offered " + offeredOf(x) + ": " + text; len(out) < most && !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	for _, x := range s.series {
		restart := x.over(func(r *result.Run) (float64, bool) { return float64(r.Restart), r.Restart > 0 })
		if restart.ok() {
			add(x, "from the opening of its store, or a kill of its node, to the first start of a task: "+restart.text(formatTime))
		}
		late := x.over(func(r *result.Run) (float64, bool) {
			return float64(r.Late) / float64(r.Submitted), r.Late > 0 && r.Submitted > 0
		})
		if late.ok() {
			add(x, late.text(formatPart)+" of the submits were called more than 1 ms late; their latencies count from the intended time")
		}
		for _, r := range x.runs {
			for _, n := range r.Notes {
				add(x, n)
			}
		}
	}
	return out
}

func offeredOf(s *series) string {
	if len(s.runs) == 0 {
		return none
	}
	return formatOffered(s.offered)
}

func orNone(s string) string {
	if s == "" {
		return none
	}
	return s
}

// described returns the table of subjects.
func described(subjects []*subject) grid {
	g := grid{Head: []string{"Subject", "version", "revision", "store", "on disk when an insert is acknowledged", "settings"}}
	for _, s := range subjects {
		g.Rows = append(g.Rows, row{Cells: []string{s.label, orNone(s.Version), orNone(short(s.Revision, 16)), orNone(s.Store), orNone(s.Durability), orNone(s.Settings)}})
	}
	return g
}

// setup is a machine that results come from, with its limits.
type setup struct {
	Facts  [][2]string
	Limits grid
}

// machines returns the machines of results, each with all of its limits.
func machines(results []*result.Result) []setup {
	var order []machine.Info
	limits := map[machine.Info][]result.Limit{}
	for _, res := range results {
		if _, known := limits[res.Machine]; !known {
			order = append(order, res.Machine)
		}
		limits[res.Machine] = append(limits[res.Machine], res.Limits...)
	}
	var out []setup
	for _, m := range order {
		out = append(out, setup{factsOf(m), limitsOf(merged(limits[m]))})
	}
	return out
}

// merged merges limits with the same name and unit, which were measured for each result, into one: the
// median with the lowest and highest value.
func merged(all []result.Limit) (out []result.Limit) {
	type name struct{ name, unit string }
	values := map[name][]float64{}
	at := map[name]int{}
	for _, l := range all {
		n := name{l.Name, l.Unit}
		values[n] = append(values[n], l.Value)
		i, known := at[n]
		if !known {
			at[n] = len(out)
			out = append(out, l)
			continue
		}
		slices.Sort(values[n])
		out[i].Value = values[n][(len(values[n])-1)/2]
		out[i].Low, out[i].High = min(out[i].Low, l.Low), max(out[i].High, l.High)
	}
	return out
}

func factsOf(m machine.Info) (facts [][2]string) {
	add := func(name, value string) {
		if value != "" {
			facts = append(facts, [2]string{name, value})
		}
	}
	add("processor", m.CPU)
	add("cores", fmt.Sprint(m.Cores))
	if m.Memory > 0 {
		add("memory", formatBytes(float64(m.Memory)))
	}
	add("disk", m.Disk)
	add("system", strings.TrimSpace(m.OS+"/"+m.Arch+" "+m.Kernel))
	add("Go", m.Go)
	return facts
}

func limitsOf(all []result.Limit) grid {
	g := grid{Head: []string{"Limit", "median", "lowest", "highest"}}
	for _, l := range all {
		g.Rows = append(g.Rows, row{Cells: []string{l.Name, formatUnit(l.Value, l.Unit), formatUnit(l.Low, l.Unit), formatUnit(l.High, l.Unit)}})
	}
	return g
}
