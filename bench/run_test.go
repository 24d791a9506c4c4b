package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/bench/limits"
	"github.com/taskengine/taskengine/bench/result"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/memory"
)

func parsed(t *testing.T, text string, sets ...string) *Scenario {
	t.Helper()
	s, err := Parse("test.yaml", []byte(text), sets...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// on returns the options for a store, which may be that in memory.
func on(t *testing.T, store string) Options {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	o := Options{
		Store: store, Dir: t.TempDir(), OpenStore: func(string) (storage.Store, error) { return memory.New(), nil },
		Plugin: []string{self}, PluginEnv: []string{role + "=plugin", "GOCOVERDIR=" + os.TempDir()},
		Node: []string{self}, NodeEnv: []string{role + "=node", nodeStore + "=" + store, "GORACE=atexit_sleep_ms=0"},
		Limits: []result.Limit{{Name: limits.Fsync, Value: 1, Unit: limits.Nanoseconds}},
	}
	for _, s := range stores {
		if s.name == store {
			o.OpenStore = s.open
		}
	}
	return o
}

// ran runs a scenario and returns its results. Their checks must have passed.
func ran(t *testing.T, s *Scenario, o Options) []*result.Result {
	t.Helper()
	results, err := Run(t.Context(), s, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if len(r.Runs) != s.Runs {
			t.Errorf("%s has %d runs, want %d", r.Scenario, len(r.Runs), s.Runs)
		}
		for _, run := range r.Runs {
			if !run.Check.OK || len(run.Check.Checked) == 0 {
				t.Errorf("%s: the check says %+v", r.Scenario, run.Check)
			}
		}
	}
	return results
}

const small = `
name: small
purpose: Does it work?
warm_up: 100ms
duration: 300ms
runs: 2
slots: 64
load: {shape: poisson, rate: 500/s}
tasks: [{name: noop}]
`

func TestALoadIsMeasuredOnEveryStore(t *testing.T) {
	for _, store := range []string{"memory", "pebble", "bolt"} {
		t.Run(store, func(t *testing.T) {
			r := ran(t, parsed(t, small), on(t, store))[0]
			for _, run := range r.Runs {
				if run.Submitted == 0 || run.Finished != run.Submitted || run.Attempts != run.Submitted || run.Failed != 0 {
					t.Errorf("of %d tasks %d finished and %d failed in %d attempts", run.Submitted, run.Finished, run.Failed, run.Attempts)
				}
				for _, name := range []string{result.InsertAck, result.TriggerToGrab, result.InsertToStart, result.FinishAck, result.EndToEnd} {
					if h := run.Latency[name]; h == nil || h.Count() != run.Submitted {
						t.Errorf("%s is not measured for every task", name)
					}
				}
				if run.Latency[result.Lateness] != nil {
					t.Error("there is a lateness of tasks without a time")
				}
				counted := int64(0)
				for _, p := range run.Points {
					counted += p.Finished
				}
				if counted != run.Finished || run.Offered != 500 || run.Elapsed <= 0 || run.Rate <= 0 {
					t.Errorf("%d of %d tasks are in the points; offered %v, elapsed %v, rate %v", counted, run.Finished, run.Offered, run.Elapsed, run.Rate)
				}
			}
			if r.Subject.Store != store || r.Machine.Cores == 0 || len(r.Limits) != 1 || !json.Valid(r.Config) {
				t.Errorf("the result does not name its subject: %+v", r)
			}
		})
	}
}

func TestTheWarmUpIsVerifiedAndNotCounted(t *testing.T) {
	s := parsed(t, small, "load={shape: constant, rate: 1000/s}", "runs=1")
	run := ran(t, s, on(t, "memory"))[0].Runs[0]
	if run.Submitted != 300 || !strings.Contains(strings.Join(run.Check.Checked, "\n"), "each of 400 tasks") {
		t.Errorf("%d tasks are counted, and verified: %v", run.Submitted, run.Check.Checked)
	}
}

func TestEveryRateHasAResult(t *testing.T) {
	results := ran(t, parsed(t, small, "load.rate=[100/s, 300/s]", "runs=1"), on(t, "memory"))
	if len(results) != 2 || results[0].Runs[0].Offered != 100 || results[1].Runs[0].Offered != 300 {
		t.Errorf("there are %d results", len(results))
	}
}

func TestAFlowThatIsApartHasAResult(t *testing.T) {
	s := parsed(t, small, "runs=1", `tasks=[{name: loud, share: 9}, {name: quiet, share: 1, apart: true}]`)
	results := ran(t, s, on(t, "memory"))
	if len(results) != 2 || results[1].Scenario != "small/quiet" {
		t.Fatalf("there are %d results", len(results))
	}
	all, quiet := results[0].Runs[0], results[1].Runs[0]
	if quiet.Submitted == 0 || quiet.Submitted >= all.Submitted || quiet.Offered != 50 {
		t.Errorf("%d of %d tasks are quiet, %v/s offered", quiet.Submitted, all.Submitted, quiet.Offered)
	}
	if quiet.Cost != (result.Cost{}) || all.Cost.CPU <= 0 {
		t.Errorf("all tasks cost %+v, and the quiet ones %+v", all.Cost, quiet.Cost)
	}
}

func TestEveryKindOfLoadAndTaskIsRun(t *testing.T) {
	for name, sets := range map[string][]string{
		"closed":        {"load={shape: closed, in_flight: 20}"},
		"closed count":  {"load={shape: closed, in_flight: 20, tasks: 300, batch: 7}", "duration=0s", "warm_up=0s"},
		"bursts":        {"load={shape: bursts, burst: 50, every: 100ms}"},
		"batches":       {"load.batch=10"},
		"slow commits":  {"faults={slow_commits: 5ms}"},
		"sleeping":      {"tasks.0.handler={sleep: 2ms}"},
		"computing":     {"tasks.0.handler={spin: 100us}"},
		"exec":          {`tasks.0.handler={exec: ["true"]}`, "load.rate=50/s"},
		"plugin":        {"tasks.0.handler=go", "tasks.0.types=3"},
		"many types":    {"tasks.0.types=200"},
		"no limit":      {"slots=0"},
		"one at a time": {"tasks.0.concurrency=1"},
		"relaxed":       {"tasks.0.relaxed=true"},
		"limits": {
			"limits=[{name: all, max: 9, rate: {count: 500, per: 1s, burst: 5}}, {name: key, of: all, max: 1, per: headers.key}, {name: tenant, max: 5, per: headers.tenant}]",
			"tasks=[{name: a, keys: 20, zipf: 1.2, tenant: x, limits: [key, tenant], handler: {sleep: 1ms}}]", "ordered=true",
		},
	} {
		t.Run(name, func(t *testing.T) {
			store := "memory"
			if strings.HasPrefix(name, "closed") {
				store = "pebble"
			}
			for _, run := range ran(t, parsed(t, small, append(sets, "runs=1")...), on(t, store))[0].Runs {
				if run.Finished == 0 || run.Latency[result.InsertToStart].Count() != run.Submitted {
					t.Errorf("%d tasks finished of %d", run.Finished, run.Submitted)
				}
			}
		})
	}
}

func TestTasksWithATimeHaveALatenessAndNoOtherLatencyFromTheirSubmit(t *testing.T) {
	s := parsed(t, small, "runs=1", "load={shape: closed, in_flight: 200, batch: 50, tasks: 200}", "duration=0s", "warm_up=0s",
		"tasks=[{name: later, after: 300ms, within: 100ms}]")
	run := ran(t, s, on(t, "pebble"))[0].Runs[0]
	if h := run.Latency[result.Lateness]; h == nil || h.Count() != 200 {
		t.Errorf("the lateness is not measured: %v", run.Latency)
	}
	if run.Latency[result.InsertToStart] != nil || run.Latency[result.EndToEnd] != nil {
		t.Error("waiting for the time of a task counts as latency")
	}
}

func TestABacklogIsFilledOnceAndStays(t *testing.T) {
	for _, state := range []string{"submitted", "waiting"} {
		t.Run(state, func(t *testing.T) {
			s := parsed(t, small, "backlog={tasks: 3000, state: "+state+"}")
			for _, run := range ran(t, s, on(t, "pebble"))[0].Runs {
				if run.Restart <= 0 {
					t.Error("it is not said how soon the first task started")
				}
			}
		})
	}
}

func TestABacklogNeedsAStoreThatKeepsIt(t *testing.T) {
	_, err := Run(t.Context(), parsed(t, small, "backlog.tasks=10"), on(t, Memory))
	if err == nil || !strings.Contains(err.Error(), "another store") {
		t.Errorf("the error is %v", err)
	}
}

func TestAnIdleNodeIsMeasured(t *testing.T) {
	s := parsed(t, "name: idle\npurpose: p\nload: {shape: idle}\nwarm_up: 0s\nduration: 200ms\nruns: 1")
	run := ran(t, s, on(t, "pebble"))[0].Runs[0]
	if run.Elapsed != 200*time.Millisecond || run.Submitted != 0 || len(run.Latency) != 0 {
		t.Errorf("it says %+v", run)
	}
}

func TestNothingIsLostWhenAPluginIsKilled(t *testing.T) {
	s := parsed(t, small, "runs=1", "duration=1s", "faults={kill_plugin: 250ms}",
		"tasks=[{name: twice, handler: go}, {name: once, handler: go, delivery: at_most_once}]")
	run := ran(t, s, on(t, "memory"))[0].Runs[0]
	if run.Finished+run.Failed != run.Submitted {
		t.Errorf("of %d tasks %d finished and %d failed", run.Submitted, run.Finished, run.Failed)
	}
}

func TestNothingIsLostWhenTheNodeIsKilled(t *testing.T) {
	for _, s := range stores {
		t.Run(s.name, func(t *testing.T) {
			sc := parsed(t, small, "runs=1", "duration=1500ms", "faults={kill_node: 400ms}",
				"tasks=[{name: twice, handler: {sleep: 5ms}}, {name: once, delivery: at_most_once, handler: {sleep: 5ms}}]")
			o := on(t, s.name)
			run := ran(t, sc, o)[0].Runs[0]
			if counted := tellsWrites(t, o.Dir); counted != (run.Cost.Written > 0) {
				t.Errorf("%d bytes were written, and the system counts them: %v", run.Cost.Written, counted)
			}
			if run.Finished+run.Failed != run.Submitted || run.Restart <= 0 || !slices.Contains(run.Notes, "the node was killed 3 times") {
				t.Errorf("of %d tasks %d finished and %d failed; %v %v", run.Submitted, run.Finished, run.Failed, run.Restart, run.Notes)
			}
		})
	}
}

func TestANodeThatCannotStartIsReportedWithItsOutput(t *testing.T) {
	o := on(t, "pebble")
	o.NodeEnv = append(o.NodeEnv, nodeStore+"=none")
	_, err := Run(t.Context(), parsed(t, small, "runs=1", "faults={kill_node: 20s}"), o)
	if err == nil || !strings.Contains(err.Error(), "the node has failed") || !strings.Contains(err.Error(), "no such store") {
		t.Errorf("the error is %v", err)
	}
}

func TestARunEndsWithItsContext(t *testing.T) {
	for _, load := range []string{"{shape: constant, rate: 100/s}", "{shape: closed, in_flight: 4}", "{shape: idle}"} {
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("enough")
		o := on(t, "memory")
		o.Progress = func(p Progress) {
			if p.Phase == Loading {
				cancel(why)
			}
		}
		sets := []string{"duration=1h", "load=" + load}
		if strings.Contains(load, "idle") {
			sets = append(sets, "tasks=[]")
		}
		if results, err := Run(ctx, parsed(t, small, sets...), o); !errors.Is(err, why) || len(results) != 0 {
			t.Errorf("%s: it returned %d results and %v", load, len(results), err)
		}
		cancel(nil)
	}
}

func TestProgressIsReported(t *testing.T) {
	o := on(t, "memory")
	var seen []Phase
	o.Progress = func(p Progress) {
		if p.Run < 1 || p.Runs != 1 || p.Done < 0 || p.Done > 1 {
			t.Errorf("the progress is %+v", p)
		}
		if !slices.Contains(seen, p.Phase) {
			seen = append(seen, p.Phase)
		}
	}
	ran(t, parsed(t, small, "runs=1"), o)
	for _, want := range []Phase{Loading, Verifying} {
		if !slices.Contains(seen, want) {
			t.Errorf("the phase %q was not reported, only %q", want, seen)
		}
	}
}

func TestAResultSurvivesItsDocument(t *testing.T) {
	results := ran(t, parsed(t, small, "runs=1"), on(t, "memory"))
	var doc bytes.Buffer
	if err := result.Write(&doc, results); err != nil {
		t.Fatal(err)
	}
	again, err := result.Read(&doc)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := again[0].Runs[0], results[0].Runs[0]; got.Finished != want.Finished || got.Latency[result.EndToEnd].Max() != want.Latency[result.EndToEnd].Max() {
		t.Errorf("it says %+v, want %+v", got, want)
	}
}
