//go:build !race

package report_test

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/taskengine/taskengine/bench/result"
)

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

func TestSubjectsAreDistinguished(t *testing.T) {
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
