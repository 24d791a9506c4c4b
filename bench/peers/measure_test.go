package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/bench/result"
)

func fakeSubject(f *fake) subject {
	return subject{
		Subject: result.Subject{Name: "fake"}, short: "fake", batch: 10, loaders: 2, singles: 8,
		open: func(context.Context, env) (peer, error) { return f, nil },
	}
}

func TestADrainWorksOffAllThatWasInserted(t *testing.T) {
	f := newFake()
	defer f.close()
	runs, err := drained(t.Context(), fakeSubject(f), f, shortPlan, 1234)
	if err != nil {
		t.Fatal(err)
	}
	r := runs[drain]
	if !r.Check.OK || r.Submitted != 1234 || r.Finished != 1234 || r.Attempts != 1234 || r.Rate <= 0 {
		t.Errorf("%+v", r)
	}
	if !slices.Contains(f.batches, 10) || slices.Max(f.batches) > 10 {
		t.Errorf("inserted in batches of %v, want 10", f.batches)
	}
}

func TestWhatGoesWrongIsFound(t *testing.T) {
	for name, c := range map[string]struct {
		harm  func(*fake)
		lost  int64
		twice int64
		ok    bool
	}{
		"a lost job":                   {func(f *fake) { f.loseEvery = 50 }, 2, 0, false},
		"a job that runs twice":        {func(f *fake) { f.doubleEvery = 50 }, 0, 2, true}, // which all of them may
		"a queue that is never idle":   {func(f *fake) { f.stuck = true }, 0, 0, false},
		"a queue that refuses inserts": {func(f *fake) { f.refuse = errFake }, 0, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake()
			defer f.close()
			c.harm(f)
			pl := shortPlan
			if !c.ok {
				pl = impatientPlan
			}
			runs, err := drained(t.Context(), fakeSubject(f), f, pl, 100)
			if err != nil {
				t.Fatal(err)
			}
			r := runs[drain]
			if r.Check.OK != c.ok || r.Check.Lost != c.lost || r.Attempts-r.Finished != c.twice {
				t.Errorf("ok %v, %d lost, %d ran twice; want %v, %d, %d (%v)", r.Check.OK, r.Check.Lost, r.Attempts-r.Finished, c.ok, c.lost, c.twice, r.Check.Notes)
			}
			if len(r.Check.Notes) == 0 {
				t.Error("nothing is said about it")
			}
		})
	}
}

func TestLivesKeepNoMoreInFlightThanTheyMay(t *testing.T) {
	f := newFake()
	defer f.close()
	runs, err := lives(t.Context(), fakeSubject(f), f, shortPlan)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{lifeOne, lifeMany} {
		if r := runs[name]; !r.Check.OK || r.Finished == 0 || r.Finished != r.Submitted {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if limit := 2 * 2 * 10; f.most > limit { // twice as many loaders, each with a batch
		t.Errorf("%d jobs in flight, want at most %d", f.most, limit)
	}
}

func TestAnOpenLoopSubmitsAllAtItsRate(t *testing.T) {
	f := newFake()
	defer f.close()
	runs, err := openLoop(t.Context(), fakeSubject(f), f, shortPlan)
	if err != nil {
		t.Fatal(err)
	}
	r := runs[latency]
	if !r.Check.OK || r.Submitted != 100 || r.Offered != 1000 {
		t.Errorf("%+v", r)
	}
	for _, name := range []string{result.InsertAck, result.InsertToStart} {
		if n := r.Latency[name].Count(); n != 100 {
			t.Errorf("%s of %d jobs, want 100", name, n)
		}
	}
	if r.Elapsed < 99*time.Millisecond {
		t.Errorf("100 jobs at 1000/s took %v", r.Elapsed)
	}
}

func TestLatencyCountsFromWhenAJobWasDue(t *testing.T) {
	w := newWatch(1)
	w.began = time.Now().Add(-time.Second) // everything is a second late
	w.jobs[0].due = 1
	w.ack(0, 1, nil)
	w.handle(payload(0))
	for name, h := range w.latency() {
		if h.Max() < 990*time.Millisecond {
			t.Errorf("%s is %v, want a second and more", name, h.Max())
		}
	}
}

func TestSubjectsTakeTurns(t *testing.T) {
	var order []string
	var chosen []subject
	for _, name := range []string{"a", "b"} {
		s := fakeSubject(nil)
		s.short = name
		s.open = func(context.Context, env) (peer, error) {
			order = append(order, name)
			return newFake(), nil
		}
		chosen = append(chosen, s)
	}
	s := &session{base: t.TempDir(), plan: shortPlan, usual: shortPlan, log: io.Discard}
	results, err := s.measure(t.Context(), chosen, 2)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(slices.Compact(order), ""); got != "abab" {
		t.Errorf("measured in the order %s, want abab", got)
	}
	if len(results) != 12 {
		t.Fatalf("%d results, want 6 scenarios of 2 subjects", len(results))
	}
	for _, r := range results {
		if len(r.Runs) != 2 || r.Purpose == "" || r.Schema != result.Schema {
			t.Errorf("%s: %d runs, purpose %q, schema %d", r.Scenario, len(r.Runs), r.Purpose, r.Schema)
		}
	}
}

func TestASubjectThatFailsDoesNotHideTheOthers(t *testing.T) {
	bad := fakeSubject(nil)
	bad.short = "bad"
	bad.open = func(context.Context, env) (peer, error) { return nil, errFake }
	s := &session{base: t.TempDir(), plan: shortPlan, usual: shortPlan, log: io.Discard}
	good := fakeSubject(nil)
	good.open = func(context.Context, env) (peer, error) { return newFake(), nil }
	results, err := s.measure(t.Context(), []subject{bad, good}, 1)
	if err == nil || !strings.Contains(err.Error(), "bad: ") {
		t.Errorf("the error is %v", err)
	}
	if len(results) != 6 {
		t.Errorf("%d results, want the 6 of the other subject", len(results))
	}
}

func TestTablesShowMedianAndSpread(t *testing.T) {
	config := []byte(`{"subject":"fake-best","best_settings":true,"durable":true,"latency_rate":1000}`)
	h := result.NewHistogram()
	h.Record(time.Millisecond)
	var out strings.Builder
	err := writeTables(&out, []*result.Result{
		{
			Schema: 1, Scenario: drain, Subject: result.Subject{Name: "fake", Version: "v1", Store: "memory", Durability: "none"}, Config: config,
			Runs: []result.Run{{Rate: 300}, {Rate: 100}, {Rate: 200, Check: result.Check{Lost: 7, Notes: []string{"seven"}}}},
		},
		{
			Schema: 1, Scenario: latency, Subject: result.Subject{Name: "fake"}, Config: config,
			Runs: []result.Run{{Latency: map[string]*result.Histogram{result.InsertAck: h, result.InsertToStart: h}}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| fake-best | yes | - | - | 200 (100–300) | - | - | 0 | 7 |",
		"| fake-best | yes | 1 | 1 | 1 | 1 | 1 | 1 |",
		"- **fake-best**: fake v1, memory.",
		"- **fake-best**, peers/drain: seven",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("there is no %q in\n%s", want, out.String())
		}
	}
}

func TestAPayloadSaysWhoseItIs(t *testing.T) {
	for _, n := range []int{0, 1, most} {
		if got, err := number(payload(n)); err != nil || got != n {
			t.Errorf("number of the payload of %d: %d, %v", n, got, err)
		}
	}
	for _, bad := range []string{"", strings.Repeat("x", payloadSize), "0"} {
		if n, err := number([]byte(bad)); err == nil {
			t.Errorf("%.20q is the payload of %d", bad, n)
		}
	}
}

func TestNamesOfSubjectsAreUnique(t *testing.T) {
	seen := make(map[string]bool)
	for _, s := range subjects() {
		if seen[s.short] || s.short == "" {
			t.Errorf("the name %q is there twice", s.short)
		}
		seen[s.short] = true
		if s.Durability == "" || s.Settings == "" || s.Version == "" || s.Version == "unknown" || s.Store == "" {
			t.Errorf("%s does not say what it is: %+v", s.short, s.Subject)
		}
	}
}

func TestEachCallsForAll(t *testing.T) {
	payloads := make([][]byte, 10)
	for _, n := range []int{1, 3, 10, 99} {
		calls := make(chan struct{}, len(payloads))
		err := each(n, payloads, func([]byte) error {
			calls <- struct{}{}
			return nil
		})
		if err != nil || len(calls) != len(payloads) {
			t.Errorf("%d at once: %d calls, %v", n, len(calls), err)
		}
	}
	if err := each(2, payloads, func([]byte) error { return fmt.Errorf("put: %w", errFake) }); err == nil {
		t.Error("an error is not told")
	}
}
