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

func fakeSubject(open func() (peer, error)) subject {
	return subject{
		Subject: result.Subject{Name: "fake"}, short: "fake", batch: 10, loaders: 2, singles: 8,
		variants: only(func(context.Context, env) (peer, error) { return open() }),
	}
}

func fakeTuned(jobs int) *tuned { return &tuned{subject: fakeSubject(nil), jobs: jobs} }

// fakeComparison measures in a folder of its own.
func fakeComparison(t *testing.T) *comparison {
	return &comparison{base: t.TempDir(), plan: shortPlan, usual: shortPlan, log: io.Discard, others: make(map[string][]float64)}
}

func TestADrainWorksOffAllThatWasInserted(t *testing.T) {
	f := newFake()
	defer f.close()
	runs, err := drained(t.Context(), fakeTuned(1234), f, shortPlan, 0)
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
			runs, err := drained(t.Context(), fakeTuned(100), f, pl, 0)
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
	runs, err := lives(t.Context(), fakeTuned(0), f, shortPlan, 0)
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
	runs, err := openLoop(t.Context(), fakeTuned(0), f, shortPlan, 0)
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
	if times := arrivals(1, 100, 1000); r.Elapsed < times[99] {
		t.Errorf("jobs whose last was to be inserted after %v took %v", times[99], r.Elapsed)
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

func TestEachMeasurementTakesTurnsAndAnotherIsFirstInEachRound(t *testing.T) {
	var order []string
	var chosen []subject
	running := 0
	for _, name := range []string{"a", "b", "c"} {
		s := fakeSubject(func() (peer, error) {
			order = append(order, name)
			if running++; running > 1 {
				t.Errorf("%d instances run at once", running)
			}
			return &counted{newFake(), &running}, nil
		})
		s.short = name
		chosen = append(chosen, s)
	}
	s := fakeComparison(t)
	results, err := s.measure(t.Context(), chosen, 2)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(order, "")
	if want := strings.Repeat("abc", len(measurements())) + strings.Repeat("bca", len(measurements())); !strings.HasSuffix(got, want) {
		t.Errorf("measured in the order %s, want %s at the end", got, want)
	}
	if len(results) != 18 {
		t.Fatalf("%d results, want 6 scenarios of 3 subjects", len(results))
	}
	for _, r := range results {
		if len(r.Runs) != 2 || r.Purpose == "" || r.Schema != result.Schema || r.Subject.Version != "v1.2.3" || r.Subject.Store != "memory 4" {
			t.Errorf("%s: %d runs, purpose %q, schema %d, %+v", r.Scenario, len(r.Runs), r.Purpose, r.Schema, r.Subject)
		}
	}
}

// counted is a peer that counts itself out when it is closed.
type counted struct {
	*fake
	running *int
}

func (c *counted) close() error {
	*c.running--
	return c.fake.close()
}

func TestASubjectThatFailsDoesNotHideTheOthers(t *testing.T) {
	bad := fakeSubject(func() (peer, error) { return nil, errFake })
	bad.short, bad.main = "bad", true
	slow := bad // with the settings it comes with
	slow.short, slow.main = "slow", false
	good := fakeSubject(func() (peer, error) { return newFake(), nil })
	c, said := fakeComparison(t), new(strings.Builder)
	c.log = said
	results, err := c.measure(t.Context(), []subject{bad, slow, good}, 1)
	if err == nil || !strings.Contains(err.Error(), "bad: ") || strings.Contains(err.Error(), "slow") {
		t.Errorf("the error is %v", err)
	}
	if !strings.Contains(said.String(), "slow failed: ") {
		t.Errorf("the output is %q", said)
	}
	if len(results) != 6 {
		t.Errorf("%d results, want the 6 of the other subject", len(results))
	}
}

func TestTablesShowMedianAndSpread(t *testing.T) {
	config := []byte(`{"subject":"fake-best","main":true,"durable":true,"latency_rate":1000,
		"drains":"64 workers","starts":"4 workers","trials":[{"says":"64 workers","drain_per_s":9000,"start_p90_ns":2500000},{"says":"4 workers","failed":"stuck"}]}`)
	about := result.Subject{Name: "fake", Version: "v1", Store: "memory", Durability: "none"}
	run := func(p50, p99 time.Duration) result.Run {
		h := result.NewHistogram()
		for range 9 {
			h.Record(p50)
		}
		h.Record(p99)
		return result.Run{Submitted: 200, Late: 3, Latency: map[string]*result.Histogram{result.InsertAck: h, result.InsertToStart: h}, Check: result.Check{OK: true}}
	}
	var out strings.Builder
	err := writeTables(&out, []*result.Result{
		{
			Schema: 1, Scenario: drain, Subject: about, Config: config,
			Runs: []result.Run{{Rate: 300, Notes: []string{"a busy disk"}}, {Rate: 100}, {Rate: 200, Check: result.Check{Lost: 7, Notes: []string{"seven"}}}},
		},
		{
			Schema: 1, Scenario: latency, Subject: about, Config: config,
			Runs: []result.Run{run(5*time.Millisecond, 30*time.Millisecond), run(time.Millisecond, 90*time.Millisecond), run(3*time.Millisecond, 10*time.Millisecond)},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| fake-best | 1, memory | yes | - | - | 200 (100–300) | - | - | 0 | 7 |",
		"| fake-best | yes | 3 (1–5) | 30 (10–90) | 3 (1–5) | 30 (10–90) | 30 (10–90) | 30 (10–90) | 1.5 % (1.5 %–1.5 %) |",
		"- **fake-best**: fake v1, memory.",
		"Throughput with 64 workers, latency with 4 workers. Tried before (drain, start p90): 64 workers: 9000/s, 2.5 ms; 4 workers: stuck.",
		"- **fake-best**, peers/drain: a busy disk",
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
		if s.Durability == "" || s.Settings == "" || s.Store == "" {
			t.Errorf("%s has no description: %+v", s.short, s.Subject)
		}
		said := make(map[string]bool)
		for _, v := range s.variants {
			if said[v.says] || v.says == "" && len(s.variants) > 1 {
				t.Errorf("%s has two variants %q", s.short, v.says)
			}
			said[v.says] = true
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
		t.Error("an error is not reported")
	}
}
