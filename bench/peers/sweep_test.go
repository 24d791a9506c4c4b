package main

import (
	"context"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestTheBestOfTrialsIsChosenForEachQuestion(t *testing.T) {
	for name, c := range map[string]struct {
		trials          []trial
		fastest, sooner int
	}{
		"none": {nil, -1, -1},
		"one for throughput, another for latency": {[]trial{{Drain: 100, Start: 9}, {Drain: 300, Start: 7}, {Drain: 200, Start: 3}}, 1, 2},
		"the first of equals":                     {[]trial{{Drain: 100, Start: 5}, {Drain: 100, Start: 5}}, 0, 0},
		"one that failed is not the soonest":      {[]trial{{Drain: 100, Failed: "stuck"}, {Drain: 50, Start: 5}}, 0, 1},
		"all failed":                              {[]trial{{Failed: "stuck"}}, -1, -1},
	} {
		if f, s := fastest(c.trials), soonest(c.trials); f != c.fastest || s != c.sooner {
			t.Errorf("%s: %d is the fastest and %d the soonest, want %d and %d", name, f, s, c.fastest, c.sooner)
		}
	}
}

func TestASubjectIsMeasuredInItsBestVariant(t *testing.T) {
	kinds := map[string]func(*fake){
		"loses": func(f *fake) { f.loseEvery = 3 },
		"slow":  func(f *fake) { f.slow = 2 * time.Millisecond },
		"good":  func(*fake) {},
	}
	opened := make(map[string]int)
	sub := fakeSubject(nil)
	sub.variants = nil
	for _, name := range []string{"loses", "good", "slow"} {
		sub.variants = append(sub.variants, variant{name, func(context.Context, env) (peer, error) {
			opened[name]++
			f := newFake()
			kinds[name](f)
			return f, nil
		}})
	}
	s := fakeComparison(t)
	results, err := s.measure(t.Context(), []subject{sub}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if opened["loses"] != 1 || opened["slow"] != 1 || opened["good"] < 1+len(measurements()) {
		t.Errorf("opened %v, want the others once, and the good one for each measurement", opened)
	}
	for _, r := range results {
		if c := string(r.Config); !strings.Contains(c, `"drains":"good","starts":"good"`) || !strings.Contains(c, `"says":"loses","drain_per_s":0,"start_p90_ns":0,"failed":"drain: `) {
			t.Errorf("%s does not name the tried and the chosen settings: %s", r.Scenario, c)
		}
	}
}

func TestASubjectNoneOfWhoseVariantsWorksFails(t *testing.T) {
	sub := fakeSubject(nil)
	sub.variants = counts("jobs lost", func(_ context.Context, _ env, n int) (peer, error) {
		f := newFake()
		f.loseEvery = n
		return f, nil
	}, 2, 3)
	if _, err := fakeComparison(t).tune(t.Context(), sub); err == nil || !strings.Contains(err.Error(), "3 jobs lost") {
		t.Errorf("the error is %v", err)
	}
}

func TestEveryQueueOfARoundHasTheSamePoissonArrivals(t *testing.T) {
	const n, rate = 100_000, 1000
	times := arrivals(7, n, rate)
	if !slices.Equal(times, arrivals(7, n, rate)) {
		t.Error("the same seed gives other times")
	}
	if slices.Equal(times, arrivals(8, n, rate)) {
		t.Error("another seed gives the same times")
	}
	if !slices.IsSorted(times) || len(times) != n {
		t.Fatalf("%d times, sorted: %v", len(times), slices.IsSorted(times))
	}
	// Of intervals that are independent of each other, the deviation is the mean.
	var sum, squares float64
	last := time.Duration(0)
	for _, at := range times {
		x := (at - last).Seconds() * rate
		sum, squares, last = sum+x, squares+x*x, at
	}
	mean := sum / n
	if deviation := math.Sqrt(squares/n - mean*mean); math.Abs(mean-1) > 0.02 || math.Abs(deviation-1) > 0.02 {
		t.Errorf("intervals have a mean of %.3f and a deviation of %.3f, in units of 1/rate; want 1 and 1", mean, deviation)
	}
}

func TestAMeasurementWaitsForTheDiskButNotForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left := int64(10)
		falls := func() int64 { left--; return left << 20 }
		if note := awaitQuiet(t.Context(), falls, 4<<20, time.Minute); note != "" || left != 4 {
			t.Errorf("ended with %d MiB: %q", left, note)
		}
		began := time.Now()
		note := awaitQuiet(t.Context(), func() int64 { return 9 << 20 }, 4<<20, time.Minute)
		if !strings.Contains(note, "9 MiB") || time.Since(began) > 2*time.Minute {
			t.Errorf("a disk that is never quiet gives %q after %v", note, time.Since(began))
		}
	})
}

func TestTaskengineHasTheSlotsThatItComesWith(t *testing.T) {
	docs, err := os.ReadFile("../../docs/config.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := "| `slots` | a number | `100` | How many tasks may run at once"; defaultSlots != 100 || !strings.Contains(string(docs), want) {
		t.Errorf("%d slots are measured, and docs/config.md has no %q", defaultSlots, want)
	}
}
