//go:build !race

package report_test

import (
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/taskengine/taskengine/bench/result"
)

func TestThePageShowsAllThatWasMeasured(t *testing.T) {
	d := write(t, newMaker(1).everything())
	d.mustBeSound(t)
	sections := all(d.Node, "section", "scenario")
	if len(sections) != 3 {
		t.Fatalf("there are %d scenarios, want 3", len(sections))
	}
	drain, steady, sweep := sections[0], sections[1], sections[2]
	t.Run("what, where and how durable", func(t *testing.T) { checkOrigins(t, d.Node) })
	t.Run("percentiles of each latency with a line for each subject", func(t *testing.T) { checkPercentiles(t, drain) })
	t.Run("latency against load with a knee", func(t *testing.T) { checkKnees(t, sweep) })
	t.Run("a run over time, with its cost", func(t *testing.T) { checkOverTime(t, drain) })
	t.Run("subjects side by side", func(t *testing.T) { checkBars(t, drain, steady) })
	t.Run("a ratio to the machine's limits", func(t *testing.T) { checkRatios(t, drain, steady) })
}

// checkOrigins looks for the subject of the measurement, its machine, and its durability.
func checkOrigins(t *testing.T, page *html.Node) {
	said := text(page)
	for _, want := range []string{
		"All checks passed in all 66 runs.", "a240a80f3b1c", "Intel(R) Xeon(R) Processor @ 2.60GHz", "25.8 GB", "6.1.0-40-amd64", "go1.26.0", "ext4 on /dev/vda1",
		"appendfsync everysec: the last second may be lost", "batch inserts of 500, 200 workers", "fsync/append/p50 212 µs 205 µs 231 µs",
		"group-commit/pebble/256 312k/s 300k/s 321k/s", "every acknowledged task ended; no task ran twice; order per key", `{"name":"drain-noop","payload":256,"slots":1000}`,
		"How many whole lives of tasks", "taskengine · pebble, offered 130k/s: 0.1 % of the submits were called more than 1 ms late", "offered 130k/s: the node was killed 2 times", "2026-11-20 09:30 UTC",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
}

// checkPercentiles looks at the lines of each latency of a drain, and its table.
func checkPercentiles(t *testing.T, drain *html.Node) {
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
}

// checkKnees looks at latency against load.
func checkKnees(t *testing.T, sweep *html.Node) {
	f := byID(t, sweep, "s2-load-0")
	marks := all(f, "g", "mark")
	if len(marks) != 2 {
		t.Fatalf("%d knees are marked, want one for each subject", len(marks))
	}
	if got := text(marks[0]); !strings.Contains(got, "taskengine · pebble: knee at 80k/s") {
		t.Errorf("the first mark says %q", got)
	}
	if got := text(marks[1]); !strings.Contains(got, "knee at 28k/s") {
		t.Errorf("the second mark says %q", got)
	}
	if n := len(all(f, "g", "hollow")); n != 4 {
		t.Errorf("%d points did not keep up, want the last ones of both, p50 and p99", n)
	}
	if !strings.Contains(text(sweep), "the method Kneedle") {
		t.Error("the knee is not explained")
	}
}

// checkOverTime looks at how a run went, and that only some are open.
func checkOverTime(t *testing.T, drain *html.Node) {
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
}

// checkBars examines the bars that compare subjects.
func checkBars(t *testing.T, drain, steady *html.Node) {
	for _, id := range []string{"s0-rate-0", "s0-start-0"} {
		if bars := all(byID(t, drain, id), "rect", "fill"); len(bars) != 5 {
			t.Errorf("%s has %d bars, want 5", id, len(bars))
		}
	}
	if bars := all(byID(t, steady, "s1-start-0"), "rect", "fill"); len(bars) != 3 {
		t.Errorf("at a steady load there are %d bars, want 3", len(bars))
	}
}

// checkRatios examines figures beside the limits of the machine, where they are known.
func checkRatios(t *testing.T, drain, steady *html.Node) {
	rows := all(all(drain, "tbody", "")[0], "tr", "")
	for i, want := range []string{"× lives/pebble", "× group-commit/bolt/256"} {
		if got := text(rows[i]); !strings.Contains(got, want) {
			t.Errorf("the row %q has no %q", got, want)
		}
	}
	if got := text(rows[2]); strings.Contains(got, "×") {
		t.Errorf("River has a limit of another store: %s", got)
	}
	rows = all(all(steady, "tbody", "")[0], "tr", "")
	if got := text(rows[1]); !strings.Contains(got, "× fsync/append/p50") {
		t.Errorf("the row %q has no ratio to a sync", got)
	}
}
