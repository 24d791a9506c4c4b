package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/taskengine/taskengine/bench/limits"
	benchresult "github.com/taskengine/taskengine/bench/result"
	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/internal/units"
)

// shownQuantiles are the columns of a latency; 1 is the longest.
var shownQuantiles = []float64{0.5, 0.9, 0.99, 0.999, 0.9999, 1}

// showBench shows a result: each figure is the median of the runs, and the spread is
// from the smallest to the largest.
func (a *app) showBench(r *benchresult.Result) error {
	load := "as many as go"
	if len(r.Runs) > 0 && r.Runs[0].Offered > 0 {
		load = grouped(r.Runs[0].Offered) + " tasks/s offered"
	}
	fmt.Fprintf(a.stdout, "%s: %s\n%s %s on %s, %s, %s\n\n", r.Scenario, r.Purpose,
		r.Subject.Name, r.Subject.Version, r.Subject.Store, load, benchresult.Counted(len(r.Runs), "run"))
	if err := a.printTable([]string{"FIGURE", "MEDIAN", "SPREAD"}, figureRows(r)); err != nil {
		return err
	}
	if rows := latencyRows(r); len(rows) > 0 {
		head := []string{"LATENCY", "P50", "P90", "P99", "P99.9", "P99.99", "MAX", "SPREAD OF P50", "SPREAD OF P99"}
		if fsyncOf(r) > 0 {
			head = append(head, "P50/FSYNC")
		}
		if r.Objective != nil {
			head = append(head, "OBJECTIVE")
		}
		fmt.Fprintln(a.stdout)
		if err := a.printTable(head, rows); err != nil {
			return err
		}
	}
	fmt.Fprintln(a.stdout)
	a.showObjective(r)
	a.showLate(r)
	a.showOthers(r)
	a.showChecks(r)
	_, err := fmt.Fprintln(a.stdout)
	return err
}

// spread are the figures of the runs, sorted.
type spread []float64

func spreadOf(r *benchresult.Result, of func(*benchresult.Run) float64) spread {
	var s spread
	for i := range r.Runs {
		s = append(s, of(&r.Runs[i]))
	}
	slices.Sort(s)
	return s
}

func (s spread) median() float64 {
	if len(s) == 0 {
		return 0
	}
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// text writes the spread with a unit.
func (s spread) text(write func(float64) string) string {
	if len(s) == 0 {
		return ""
	}
	low, high := write(s[0]), write(s[len(s)-1])
	if low == high {
		return low
	}
	return low + " to " + high
}

func figureRows(r *benchresult.Result) [][]string {
	var rows [][]string
	add := func(name string, write func(float64) string, of func(*benchresult.Run) float64) {
		if s := spreadOf(r, of); len(s) > 0 && s[len(s)-1] != 0 {
			rows = append(rows, []string{name, write(s.median()), s.text(write)})
		}
	}
	perTask := func(of func(*benchresult.Run) float64) func(*benchresult.Run) float64 {
		return func(run *benchresult.Run) float64 { return of(run) / float64(max(1, run.Finished+run.Failed)) }
	}
	add("rate, tasks/s", grouped, func(run *benchresult.Run) float64 { return run.Rate })
	if limit := ownLimit(r); limit > 0 {
		add("rate/store's own", units.Digits, func(run *benchresult.Run) float64 { return run.Rate / limit })
	}
	add("tasks", grouped, func(run *benchresult.Run) float64 { return float64(run.Finished + run.Failed) })
	if busy := spreadOf(r, func(run *benchresult.Run) float64 { return float64(run.Finished) }); busy.median() > 0 {
		add("CPU a task", nanoseconds, perTask(func(run *benchresult.Run) float64 { return float64(run.Cost.CPU) }))
		add("written a task", units.Bytes, perTask(func(run *benchresult.Run) float64 { return float64(run.Cost.Written) }))
		add("allocated a task", units.Bytes, perTask(func(run *benchresult.Run) float64 { return float64(run.Cost.Allocated) }))
	} else {
		add("CPU of one core", func(v float64) string { return units.Digits(100*v) + " %" }, func(run *benchresult.Run) float64 {
			return float64(run.Cost.CPU) / float64(max(1, run.Elapsed))
		})
		add("written a second", units.Bytes, func(run *benchresult.Run) float64 {
			return float64(run.Cost.Written) / run.Elapsed.Seconds()
		})
	}
	add("wake-ups/s", grouped, func(run *benchresult.Run) float64 { return run.Cost.Wakeups })
	add("memory", units.Bytes, func(run *benchresult.Run) float64 { return float64(run.Cost.Resident) })
	add("store", units.Bytes, func(run *benchresult.Run) float64 { return float64(run.Cost.StoreSize) })
	add("cores of others", units.Digits, func(run *benchresult.Run) float64 { return run.Others })
	add("first start", nanoseconds, func(run *benchresult.Run) float64 { return float64(run.Restart) })
	return rows
}

func latencyRows(r *benchresult.Result) [][]string {
	var rows [][]string
	for _, name := range benchresult.Latencies() {
		if len(r.Runs) == 0 || r.Runs[0].Latency[name] == nil {
			continue
		}
		row := []string{name}
		for _, q := range shownQuantiles {
			shown := "-" // none is so slow that one of so few would be
			if float64(r.Runs[0].Latency[name].Count())*(1-q) >= 1-1e-9 || q == 1 {
				shown = nanoseconds(quantileOf(r, name, q).median())
			}
			row = append(row, shown)
		}
		row = append(row, quantileOf(r, name, 0.5).text(nanoseconds), quantileOf(r, name, 0.99).text(nanoseconds))
		if s := fsyncOf(r); s > 0 {
			row = append(row, units.Digits(quantileOf(r, name, 0.5).median()/s))
		}
		if o := r.Objective; o != nil {
			came := "-"
			if o.Latency == name {
				came = metOrMissed(o.Met)
			}
			row = append(row, came)
		}
		rows = append(rows, row)
	}
	return rows
}

func quantileOf(r *benchresult.Result, name string, q float64) spread {
	return spreadOf(r, func(run *benchresult.Run) float64 {
		h := run.Latency[name]
		switch {
		case h == nil:
			return 0
		case q == 1:
			return float64(h.Max())
		}
		return float64(h.Quantile(q))
	})
}

// fsyncOf is how long a sync of the disk takes, in nanoseconds; 0 if the store does none.
func fsyncOf(r *benchresult.Result) float64 {
	if r.Subject.Store == config.Memory.String() {
		return 0
	}
	return limitOf(r, limits.Fsync)
}

// ownLimit is how many tasks a second the store takes without an engine; 0 if unknown.
func ownLimit(r *benchresult.Result) float64 {
	return limitOf(r, limits.Lives(r.Subject.Store))
}

func limitOf(r *benchresult.Result, name string) float64 {
	for _, l := range r.Limits {
		if l.Name == name {
			return l.Value
		}
	}
	return 0
}

func metOrMissed(met bool) string {
	if met {
		return "met"
	}
	return "MISSED"
}

func (a *app) showObjective(r *benchresult.Result) {
	o := r.Objective
	if o == nil {
		return
	}
	in := 0
	for i := range r.Runs {
		if o.MetIn(&r.Runs[i]) {
			in++
		}
	}
	fmt.Fprintf(a.stdout, "objective: %s: %s, in %d of %s (%s)\n", o, metOrMissed(o.Met), in, benchresult.Counted(len(r.Runs), "run"),
		quantileOf(r, o.Latency, o.Quantile).text(nanoseconds))
}

// showLate shows the submits that the machine was too busy to make when they were due.
func (a *app) showLate(r *benchresult.Result) {
	late := spreadOf(r, func(run *benchresult.Run) float64 { return 100 * float64(run.Late) / float64(max(1, run.Submitted)) })
	if len(late) > 0 && late[len(late)-1] > 0 {
		fmt.Fprintf(a.stdout, "pacing: %s %% of the submits were called more than 1 ms late; their latencies count from the intended time\n", late.text(units.Digits))
	}
}

// showOthers warns if other processes used the machine during the runs.
func (a *app) showOthers(r *benchresult.Result) {
	busy := spreadOf(r, func(run *benchresult.Run) float64 { return run.Others })
	if len(busy) == 0 || busy[len(busy)-1] <= benchresult.Disturbed {
		return
	}
	fmt.Fprintf(a.stdout, "WARNING: others used up to %s cores during the runs; measure again when the machine has nothing else to do\n", units.Digits(busy[len(busy)-1]))
}

// showChecks shows the checks of each run and their failures.
func (a *app) showChecks(r *benchresult.Result) {
	for i := range r.Runs {
		run := &r.Runs[i]
		for _, n := range run.Notes {
			fmt.Fprintf(a.stdout, "run %d: %s\n", i+1, clean(n))
		}
		if c := run.Check; !c.OK {
			fmt.Fprintf(a.stdout, "run %d FAILED: %d lost, %d doubled, %d out of order, %s over a limit\n", i+1, c.Lost, c.Doubled, c.Disorder, benchresult.Counted(c.Exceeded, "time"))
			for _, n := range c.Notes {
				fmt.Fprintln(a.stdout, "  "+clean(n))
			}
		}
	}
	if n := len(r.Runs); n > 0 && !slices.ContainsFunc(r.Runs, func(run benchresult.Run) bool { return !run.Check.OK }) {
		fmt.Fprintf(a.stdout, "checked: nothing lost, doubled, out of order or over a limit\n  %s\n", strings.Join(r.Runs[n-1].Check.Checked, "\n  "))
	}
}

func nanoseconds(v float64) string { return humanLimit(v, limits.Nanoseconds) }
