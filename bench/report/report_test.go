package report_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/taskengine/taskengine/bench/report"
	"github.com/taskengine/taskengine/bench/result"
)

func TestThePageShowsAllThatWasMeasured(t *testing.T) {
	d := write(t, newMaker(1).everything())
	d.mustBeSound(t)
	sections := all(d.Node, "section", "scenario")
	if len(sections) != 3 {
		t.Fatalf("there are %d scenarios, want 3", len(sections))
	}
	drain, sweep := sections[0], sections[2]

	t.Run("what, where and how durable", func(t *testing.T) {
		page := text(d.Node)
		for _, want := range []string{
			"All checks passed in all 66 runs.", "a240a80f3b1c", "Intel(R) Xeon(R) Processor @ 2.60GHz", "25.8 GB", "6.1.0-40-amd64", "go1.26.0", "ext4 on /dev/vda1",
			"appendfsync everysec: the last second may be lost", "batch inserts of 500, 200 workers", "fsync/append/p50 212 µs 205 µs 231 µs",
			"group-commit/pebble/256 312k/s 300k/s 321k/s", "every acknowledged task ended; no task ran twice; order per key", `{"name":"drain-noop","payload":256,"slots":1000}`,
			"How many whole lives of tasks", "taskengine · pebble, offered 130k/s: 0.1 % of the submits were called more than 1 ms late", "offered 130k/s: the node was killed 2 times", "2026-11-20 09:30 UTC",
		} {
			if !strings.Contains(page, want) {
				t.Errorf("the page does not say %q", want)
			}
		}
	})
	t.Run("percentiles of each latency with a line for each subject", func(t *testing.T) {
		for i, latency := range []string{result.InsertAck, result.TriggerToGrab, result.InsertToStart, result.FinishAck, result.EndToEnd} {
			f := byID(t, drain, "s0-lat-"+string(rune('0'+i))+"-0")
			lines := all(f, "g", "line")
			plotted, entries := 0, len(all(f, "button", ""))
			for _, l := range lines {
				if attr(l, "data-key") != "" && len(all(l, "path", "stroke")) == 1 && len(all(l, "path", "band")) == 1 && len(all(l, "g", "dot")) == 5 {
					plotted++
				}
			}
			if plotted != 5 || entries != 5 || !strings.Contains(text(f), latency) {
				t.Errorf("%s: %d lines with bands and five dots, %d entries in the legend; want 5 of each", latency, plotted, entries)
			}
			if rows := all(all(f, "tbody", "")[0], "tr", ""); len(rows) != 5 {
				t.Errorf("%s: the table has %d rows", latency, len(rows))
			}
		}
	})
	t.Run("latency against load with a knee", func(t *testing.T) {
		f := byID(t, sweep, "s2-load-0")
		marks := all(f, "g", "mark")
		if len(marks) != 2 {
			t.Fatalf("%d knees are marked, want one for each subject", len(marks))
		}
		if got := text(marks[0]); !strings.Contains(got, "taskengine · pebble: knee at 95k/s") {
			t.Errorf("the first mark says %q", got)
		}
		if got := text(marks[1]); !strings.Contains(got, "knee at 28k/s") {
			t.Errorf("the second mark says %q", got)
		}
		if n := len(all(f, "g", "hollow")); n != 4 {
			t.Errorf("%d points did not keep up, want the last ones of both, p50 and p99", n)
		}
		if !strings.Contains(text(sweep), "the method Kneedle") {
			t.Error("it is not said what the knee is")
		}
	})
	t.Run("a run over time, with its cost", func(t *testing.T) {
		f := byID(t, drain, "s0-time-0")
		if frames := all(f, "g", "frame"); len(frames) != 4 {
			t.Fatalf("there are %d graphs, want 4", len(frames))
		}
		if lines := all(all(f, "div", "plot")[0], "g", "line"); len(lines) != 6 {
			t.Errorf("there are %d lines, want 6", len(lines))
		}
		if folded := all(all(drain, "details", "more")[0], "figure", ""); len(folded) != 3 {
			t.Errorf("%d of five runs are folded away, want 3", len(folded))
		}
	})
	t.Run("subjects side by side", func(t *testing.T) {
		for _, id := range []string{"s0-rate-0", "s0-start-0"} {
			if bars := all(byID(t, drain, id), "rect", "fill"); len(bars) != 5 {
				t.Errorf("%s has %d bars, want 5", id, len(bars))
			}
		}
		if bars := all(byID(t, sections[1], "s1-start-0"), "rect", "fill"); len(bars) != 3 {
			t.Errorf("at a steady load there are %d bars, want 3", len(bars))
		}
	})
	t.Run("a ratio to the machine's limits", func(t *testing.T) {
		rows := all(all(drain, "tbody", "")[0], "tr", "")
		for i, want := range []string{"× lives/pebble", "× group-commit/bolt/256"} {
			if got := text(rows[i]); !strings.Contains(got, want) {
				t.Errorf("the row %q has no %q", got, want)
			}
		}
		if got := text(rows[2]); strings.Contains(got, "×") {
			t.Errorf("River has a limit of another store: %s", got)
		}
		steady := all(all(sections[1], "tbody", "")[0], "tr", "")
		if got := text(steady[1]); !strings.Contains(got, "× fsync/append/p50") {
			t.Errorf("the row %q has no ratio to a sync", got)
		}
	})
}

func TestTheSameResultsMakeTheSamePage(t *testing.T) {
	if a, b := write(t, newMaker(2).some()), write(t, newMaker(2).some()); a.source != b.source {
		t.Error("they do not")
	}
}

func TestThePageLoadsNothing(t *testing.T) {
	d := write(t, newMaker(1).some())
	for _, forbidden := range []string{"http:", "https:", "//fonts", "url(", "@import", "@font-face", "fetch(", "XMLHttp", "import("} {
		if strings.Contains(d.source, forbidden) {
			t.Errorf("it has %q", forbidden)
		}
	}
	policy := ""
	for _, m := range all(d.Node, "meta", "") {
		if attr(m, "http-equiv") == "Content-Security-Policy" {
			policy = attr(m, "content")
		}
	}
	if !strings.HasPrefix(policy, "default-src 'none';") || strings.Contains(policy, "script-src 'unsafe-inline'") {
		t.Errorf("its policy is %q", policy)
	}
}

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

func TestResultsOfDifferentMachinesAreNotMixedSilently(t *testing.T) {
	results := newMaker(5).drains(2)
	results[1].Machine.Disk = "tmpfs"
	if d := write(t, results); !strings.Contains(text(d.Node), "2 different machines") {
		t.Error("they are")
	}
}

// evil is text that would run, load or break something if it were not escaped.
const evil = `</title></style></script><script>document.title='owned'</script><img src=x onerror=alert(1)>"' onload="alert(1)" javascript:alert(1) <svg/onload=x> ]]> {{.Style}} ` + "\x00\u202e\n"

func TestObjectivesAreDrawnAndJudged(t *testing.T) {
	m := newMaker(8)
	below := result.Objective{Latency: result.InsertToStart, Quantile: 0.99, Below: 5 * time.Millisecond}
	var sweep []*result.Result
	for _, offered := range []float64{1e3, 40e3, 130e3} { // the last is more than it can do
		res := m.result("sweep", "p", ours, 3, offered, 104e3, 170*time.Microsecond)
		res.Objective = below.Outcome(res.Runs)
		sweep = append(sweep, res)
	}
	if !sweep[0].Objective.Met || sweep[2].Objective.Met {
		t.Fatal("the results are not those that are wanted")
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

func TestWhatRunsLookedAtIsSaidOnce(t *testing.T) {
	res := newMaker(9).result("s", "p", ours, 2, 1000, 104e3, 170*time.Microsecond)
	res.Runs[0].Check.Checked = []string{"each of 1000 tasks: ended"}
	res.Runs[1].Check.Checked = []string{"each of 1017 tasks: ended", "order"}
	page := text(write(t, []*result.Result{res}).Node)
	if !strings.Contains(page, "each of 1000 tasks: ended; order") || strings.Contains(page, "1017") {
		t.Error("it is said for each run")
	}
}

func TestTextFromResultsIsOnlyText(t *testing.T) {
	m := newMaker(6)
	var results []*result.Result
	for i, offered := range []float64{1000, 2000, 4000, 8000} {
		r := m.result(evil, evil, result.Subject{Name: evil, Version: evil, Revision: evil, Store: evil, Durability: evil, Settings: evil}, 2, offered, 9000, time.Millisecond)
		r.Machine = result.Machine{OS: evil, Arch: evil, Kernel: evil, CPU: evil, Disk: evil, Go: evil}
		r.Limits = []result.Limit{{Name: evil, Unit: evil, Value: 1}, {Name: "x/" + evil, Unit: "ops/s", Value: 1}}
		r.Config, _ = json.Marshal(map[string]string{evil: evil})
		r.Runs[0].Notes, r.Runs[0].Restart = []string{evil}, time.Second
		r.Runs[0].Check.Notes, r.Runs[0].Check.Checked = []string{evil}, []string{evil}
		r.Runs[0].Latency[evil] = r.Runs[0].Latency[result.InsertAck]
		r.Objective = &result.Outcome{Objective: result.Objective{Latency: evil, Quantile: 0.5, Below: 1}}
		if i == 3 {
			r.Subject.Name = "another " + evil
			r.Runs[0].Check.OK = false
		}
		results = append(results, r)
	}
	d := write(t, results)
	d.mustBeSound(t)
	if !strings.Contains(text(d.Node), "<script>document.title='owned'</script>") {
		t.Error("the text is gone")
	}
	if strings.Contains(text(all(d.Node, "title", "")[0]), "owned") {
		t.Error("the title is taken over")
	}
}

func TestStrangeResultsMakeASoundPage(t *testing.T) {
	m := newMaker(7)
	one := func(change func(*result.Run)) []*result.Result {
		r := m.result("s", "p", ours, 1, 100, 1000, time.Millisecond)
		change(&r.Runs[0])
		return []*result.Result{r, m.result("s", "p", river, 1, 100, 1000, time.Millisecond)}
	}
	for name, results := range map[string][]*result.Result{
		"nothing":           nil,
		"an empty result":   {{}},
		"two empty results": {{}, {}},
		"no latencies":      one(func(r *result.Run) { r.Latency = nil }),
		"nil histograms":    one(func(r *result.Run) { r.Latency = map[string]*result.Histogram{"": nil, result.InsertToStart: nil} }),
		"empty histograms": one(func(r *result.Run) {
			r.Latency = map[string]*result.Histogram{result.InsertToStart: result.NewHistogram()}
		}),
		"one task": one(func(r *result.Run) {
			h := result.NewHistogram()
			h.Record(0)
			r.Latency = map[string]*result.Histogram{result.InsertToStart: h}
		}),
		"rates that are none":      one(func(r *result.Run) { r.Rate = math.NaN() }),
		"an endless rate":          one(func(r *result.Run) { r.Rate = math.Inf(1) }),
		"a negative rate":          one(func(r *result.Run) { r.Rate = -5 }),
		"a load that is none":      one(func(r *result.Run) { r.Offered = math.NaN() }),
		"the greatest numbers":     one(func(r *result.Run) { r.Rate, r.Offered = math.MaxFloat64, math.MaxFloat64 }),
		"the smallest numbers":     one(func(r *result.Run) { r.Rate, r.Offered = math.SmallestNonzeroFloat64, math.SmallestNonzeroFloat64 }),
		"one point":                one(func(r *result.Run) { r.Points = r.Points[:1] }),
		"points without a time":    one(func(r *result.Run) { r.Points = make([]result.Point, 100) }),
		"points that go backwards": one(func(r *result.Run) { r.Points[3].At = -1; r.Points[4].At = 1 }),
		"strange points": one(func(r *result.Run) {
			r.Points[0] = result.Point{At: math.MaxInt64, Submitted: math.MaxInt64, Finished: math.MinInt64, StartP99: math.MinInt64, StartP50: math.MaxInt64, CPU: math.Inf(1), Resident: math.MinInt64}
		}),
		"huge counts": one(func(r *result.Run) { r.Finished, r.Failed = math.MaxInt64, math.MaxInt64; r.Cost.CPU = math.MaxInt64 }),
		"negative costs": one(func(r *result.Run) {
			r.Cost = result.Cost{CPU: -1, Resident: math.MinInt64, Written: -5, Wakeups: math.NaN()}
		}),
		"broken limits": {{Subject: ours, Limits: []result.Limit{
			{Name: "fsync", Unit: "ns", Value: math.NaN()}, {Name: "lives/pebble", Unit: "ops/s", Value: math.Inf(-1), Low: 1e300},
		}}},
		"strange objectives": {
			{Subject: ours, Objective: &result.Outcome{Objective: result.Objective{Latency: result.InsertToStart, Quantile: math.NaN(), Below: -5}}, Runs: make([]result.Run, 2)},
			{Subject: ours, Objective: &result.Outcome{Objective: result.Objective{Latency: evil, Quantile: math.Inf(1), Below: math.MaxInt64}}},
		},
		"a config that is no JSON": {{Config: json.RawMessage("{<b>")}},
	} {
		t.Run(name, func(t *testing.T) { write(t, results).mustBeSound(t) })
	}
	if err := report.Write(&bytes.Buffer{}, []*result.Result{nil}); err == nil {
		t.Error("a nil result is no error")
	}
}

func TestLongRunsAreDrawnWithFewPoints(t *testing.T) {
	m := newMaker(8)
	r := m.result("long", "", ours, 1, 1000, 5000, time.Millisecond)
	last := r.Runs[0].Points[0]
	r.Runs[0].Points = nil
	for i := range 100_000 {
		last.At = time.Duration(i+1) * time.Second
		last.Submitted, last.Finished, last.StartP99 = 1000, 1000, time.Millisecond
		if i == 54_321 {
			last.StartP99 = time.Minute
		}
		r.Runs[0].Points = append(r.Runs[0].Points, last)
	}
	d := write(t, []*result.Result{r})
	d.mustBeSound(t)
	f := byID(t, d.Node, "s0-time-0")
	if n := len(all(f, "circle", "aim")); n > 6*240 {
		t.Errorf("there are %d points", n)
	}
	if got := text(f); !strings.Contains(got, "Every point stands for 417 intervals") || !strings.Contains(got, ": 1 min") || !strings.Contains(got, "1k/s") {
		t.Error("the worst of them, or the rate, is lost")
	}
}

func TestManyLoadsAreThinnedOutButInTheTable(t *testing.T) {
	m := newMaker(9)
	var results []*result.Result
	for i := range 20 {
		results = append(results, m.result("many", "", ours, 1, float64(1000*(i+1)), 25e3, time.Millisecond))
	}
	d := write(t, results)
	d.mustBeSound(t)
	f := byID(t, d.Node, "s0-lat-0-0")
	if lines := len(all(f, "button", "")); lines != 8 || !strings.Contains(text(f), "8 of 20 series are drawn") {
		t.Errorf("%d lines are drawn", lines)
	}
	if rows := len(all(all(f, "tbody", "")[0], "tr", "")); rows != 20 {
		t.Errorf("the table has %d rows", rows)
	}
}

func TestSubjectsAreToldApart(t *testing.T) {
	m := newMaker(10)
	older := ours
	older.Version = "v0.3.0"
	twin := ours
	twin.Revision = ""
	var results []*result.Result
	for _, s := range []result.Subject{ours, older, asynq, asynqD, twin, {}} {
		results = append(results, m.result("s", "", s, 1, 0, 100, time.Millisecond))
	}
	d := write(t, results)
	seen := map[string]bool{}
	var first *html.Node
	for _, table := range all(d.Node, "tbody", "") {
		first = table
		break
	}
	for _, row := range all(first, "tr", "") {
		label := text(all(row, "th", "")[0])
		if seen[label] || label == "" {
			t.Errorf("two subjects are called %q", label)
		}
		seen[label] = true
	}
	for _, want := range []string{"taskengine · pebble · v0.3.0", "asynq · Redis 7 · appendfsync everysec", "unnamed"} {
		if !seen[want] {
			t.Errorf("none is called %q in %v", want, seen)
		}
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

var errFull = errors.New("full")

func TestAFullDiskIsAnError(t *testing.T) {
	if err := report.Write(full{}, nil); !errors.Is(err, errFull) {
		t.Errorf("it is %v", err)
	}
}

func FuzzAnyResultMakesASoundPage(f *testing.F) {
	for _, r := range newMaker(1).drains(2) { // small ones, so that many are tried
		h := result.NewHistogram()
		for i := range 10 {
			h.Record(time.Duration(i) * time.Millisecond)
		}
		r.Runs = r.Runs[:1]
		r.Runs[0].Points = r.Runs[0].Points[:2]
		r.Runs[0].Latency = map[string]*result.Histogram{result.InsertToStart: h}
		var doc bytes.Buffer
		if err := result.Write(&doc, []*result.Result{r}); err != nil {
			f.Fatal(err)
		}
		f.Add(doc.Bytes())
	}
	f.Add([]byte(`[{"schema":1,"runs":[{"rate":-1e308,"offered":1e308,"latency":{"insert_to_start":null},"points":[{"at_ns":1,"cpu":1e308},{"at_ns":-1}]}]}]`))
	f.Add([]byte(`[{"schema":1,"scenario":"<","runs":[{"offered":1},{"offered":2},{"offered":3},{"offered":-4}]},{"schema":1,"scenario":"<","subject":{"name":"\u0000"},"runs":[{}]}]`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		results, err := result.Read(bytes.NewReader(doc))
		if err != nil {
			return
		}
		write(t, results).mustBeSound(t)
	})
}
