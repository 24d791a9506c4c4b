//go:build !race

package report_test

import (
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/bench/result"
)

func TestAFailedCheckScreams(t *testing.T) {
	for name, c := range map[string]result.Check{
		"that says so":       {Notes: []string{"task 7 never ended"}, Checked: []string{"ends"}, Lost: 3},
		"without a reason":   {Checked: []string{"ends"}},
		"that says it is ok": {OK: true, Checked: []string{"ends"}, Doubled: 1},
		"by its order":       {OK: true, Checked: []string{"ends"}, Disorder: 2},
		"by a limit":         {OK: true, Checked: []string{"ends"}, Exceeded: 9},
		"by less than none":  {OK: true, Checked: []string{"ends"}, Lost: -1},
	} {
		t.Run(name, func(t *testing.T) {
			results := newMaker(3).drains(3)
			results[1].Runs[2].Check = c
			d := write(t, results)
			d.mustBeSound(t)
			banner := all(d.Node, "div", "verdict")[0]
			if got := text(banner); !strings.Contains(attr(banner, "class"), "failed") || !strings.Contains(got, "Checks failed") || !strings.Contains(got, "taskengine · bolt, offered closed loop: FAILED in 1 of 3 runs") {
				t.Errorf("the banner says %q", got)
			}
			if got := text(all(d.Node, "title", "")[0]); !strings.HasPrefix(got, "CHECKS FAILED") {
				t.Errorf("the title is %q", got)
			}
			if rows := all(d.Node, "tr", "failed"); len(rows) < 3 || !strings.Contains(text(rows[0]), "taskengine · bolt") {
				t.Errorf("%d rows are red", len(rows))
			}
			if len(all(d.Node, "text", "failed")) < 2 || !strings.Contains(text(d.Node), "✗ check failed: taskengine · bolt") {
				t.Error("its bars look like any other")
			}
			for _, note := range c.Notes {
				if !strings.Contains(text(d.Node), note) {
					t.Errorf("the page does not say %q", note)
				}
			}
		})
	}
	huge := newMaker(3).drains(1)
	for i := range huge[0].Runs {
		huge[0].Runs[i].Check = result.Check{Lost: math.MaxInt64}
	}
	if got := text(all(write(t, huge).Node, "div", "verdict")[0]); !strings.Contains(got, "9 223 372 036 854 775 807 lost") {
		t.Errorf("with huge losses it says %q", got)
	}
}

func TestWhatWasNotCheckedIsSaid(t *testing.T) {
	results := newMaker(4).drains(2)
	results[0].Runs[1].Check.Checked = nil
	results[1].Runs = nil
	d := write(t, results)
	page := text(d.Node)
	for _, want := range []string{"not every run was checked", "taskengine · pebble, offered closed loop: nothing checked.", "taskengine · bolt, offered –: no runs."} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if len(all(d.Node, "div", "ok")) > 0 {
		t.Error("it is green")
	}
}

func TestWhatRunsLookedAtIsSaidOnce(t *testing.T) {
	res := newMaker(9).result("s", "p", ours, 2, 1000, 104e3, 170*time.Microsecond)
	res.Runs[0].Check.Checked = []string{"each of 1000 tasks: ended"}
	res.Runs[1].Check.Checked = []string{"each of 1017 tasks: ended", "order"}
	page := text(write(t, []*result.Result{res}).Node)
	if !strings.Contains(page, "each of 1000 tasks: ended; order") || strings.Contains(page, "1017") {
		t.Error("it is said for each run")
	}
}

func TestOfOneRunItIsSaidInTheSingular(t *testing.T) {
	tooSoon := result.Objective{Latency: result.InsertToStart, Quantile: 0.99, Below: 1}
	plural := regexp.MustCompile(`\b1 (runs|times|subjects|loads)\b`)
	for name, c := range map[string]struct {
		change func(*result.Result)
		says   string
	}{
		"that passed":               {func(*result.Result) {}, "All checks passed in the only run."},
		"that failed":               {func(r *result.Result) { r.Runs[0].Check.OK = false }, "FAILED in 1 of 1 run"},
		"that others disturbed":     {func(r *result.Result) { r.Runs[0].Others = 0.5 }, "cores of the machine in 1 of 1 run,"},
		"that missed its objective": {func(r *result.Result) { r.Objective = tooSoon.Evaluate(r.Runs) }, "MISSED in 1 of 1 run"},
	} {
		t.Run(name, func(t *testing.T) {
			res := newMaker(9).result("s", "p", ours, 1, 1000, 104e3, 170*time.Microsecond)
			c.change(res)
			d := write(t, []*result.Result{res})
			if page := text(d.Node); !strings.Contains(page, c.says) {
				t.Errorf("the page does not say %q", c.says)
			}
			if wrong := plural.FindString(text(d.Node)); wrong != "" {
				t.Errorf("the page says %q", wrong)
			}
		})
	}
}

func TestResultsOfDifferentMachinesAreNotMixedSilently(t *testing.T) {
	results := newMaker(5).drains(2)
	results[1].Machine.Disk = "tmpfs"
	if d := write(t, results); !strings.Contains(text(d.Node), "2 different machines") {
		t.Error("they are")
	}
}

func TestOthersOnTheMachineAreWarnedOf(t *testing.T) {
	res := newMaker(9).result("s", "p", ours, 3, 1000, 104e3, 170*time.Microsecond)
	res.Runs[0].Others = 0.09
	const warning = "s: others used up to 0.5 cores of the machine in 1 of 3 runs"
	if page := text(write(t, []*result.Result{res}).Node); strings.Contains(page, "others used") {
		t.Error("it warns of next to nothing")
	}
	res.Runs[1].Others = 0.5
	if page := text(write(t, []*result.Result{res}).Node); !strings.Contains(page, warning) || !strings.Contains(page, "cores of others") {
		t.Errorf("it does not say %q", warning)
	}
}

func TestObjectivesAreDrawnAndJudged(t *testing.T) {
	m := newMaker(8)
	below := result.Objective{Latency: result.InsertToStart, Quantile: 0.99, Below: 5 * time.Millisecond}
	var sweep []*result.Result
	for _, offered := range []float64{1e3, 40e3, 130e3} { // the last is more than it can do
		res := m.result("sweep", "p", ours, 3, offered, 104e3, 170*time.Microsecond)
		res.Objective = below.Evaluate(res.Runs)
		sweep = append(sweep, res)
	}
	if !sweep[0].Objective.Met || sweep[2].Objective.Met {
		t.Fatal("the results are not the wanted ones")
	}
	d := write(t, sweep)
	d.mustBeSound(t)
	section := all(d.Node, "section", "scenario")[0]
	if got := text(all(section, "table", "")[0]); !strings.Contains(got, "objective") || strings.Count(got, " met") != 2 || !strings.Contains(got, "MISSED in 3 of 3 runs") {
		t.Errorf("the table says %q", got)
	}
	for id, frames := range map[string]int{"s0-load-0": 1, "s0-lat-2-0": 1, "s0-time-0": 1, "s0-lat-0-0": 0} {
		goals := all(byID(t, section, id), "g", "goals")
		if len(goals) != frames {
			t.Fatalf("%s has %d frames with an objective, want %d", id, len(goals), frames)
		}
		if frames > 0 && (len(all(goals[0], "line", "")) != 1 || text(goals[0]) != "objective: p99 < 5 ms") {
			t.Errorf("the objective in %s is %q", id, text(goals[0]))
		}
	}
	const missed = "sweep: the objective was missed: p99 start < 5ms."
	if page := text(d.Node); strings.Contains(page, missed) {
		t.Error("a load has met the objective, and the page warns of it")
	}
	if page := text(write(t, sweep[2:]).Node); !strings.Contains(page, missed) {
		t.Error("no load has met the objective, and the page does not say so")
	}
}
