package conform_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/taskengine/taskengine/plugins/conform"
	"github.com/taskengine/taskengine/plugins/internal/wire"
	"github.com/taskengine/taskengine/task"
)

// The faults of programs that spawn tasks to run after others.
const (
	forgetsAfter = "forgets the tasks before"
	forgetsAny   = "forgets that any end will do"
	alwaysAfter  = "spawns tasks after others for each host"
)

func TestEachFaultOfTasksAfterOthersFailsItsChecks(t *testing.T) {
	const (
		spawns = "a task spawns others that run after tasks"
		never  = "without the feature a task after others fails the one that spawns it for good"
		runs   = "a node runs a task that was spawned to run after another when that is done"
	)
	eachFault(t, []string{spawns, never, runs}, map[string][]string{
		forgetsAfter: {spawns, runs},
		forgetsAny:   {spawns},
		alwaysAfter:  {never},
	})
}

// eachFault examines a program with each fault: of some checks, those of the fault fail, and the others pass.
func eachFault(t *testing.T, checks []string, faults map[string][]string) {
	for fault, fails := range faults {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			o := self(t, fault, transport+"=grpc")
			r := examineFaulty(t, o, func(r conform.Report) bool {
				return !slices.ContainsFunc(checks, func(name string) bool {
					return outcome(t, r, name).Outcome != conform.Passed && !slices.Contains(fails, name)
				})
			})
			for _, name := range checks {
				want := conform.Passed
				if slices.Contains(fails, name) {
					want = conform.Failed
				}
				if c := outcome(t, r, name); c.Outcome != want {
					t.Errorf("%s: %v, want %v: %s", name, c.Outcome, want, c.Seen)
				}
			}
		})
	}
}

// examineFaulty examines a program that does not do what some checks wait for. The patience is short, so that these fail soon. If
// others have failed, too, the machine may be too slow for that patience: then the examination has more.
func examineFaulty(t *testing.T, o conform.Options, isAsExpected func(conform.Report) bool) conform.Report {
	var r conform.Report
	for _, o.Patience = range []time.Duration{5 * time.Second, time.Minute} {
		var err error
		if r, err = conform.Run(t.Context(), o); err != nil {
			t.Error(err)
			break
		}
		if isAsExpected(r) {
			break
		}
	}
	return r
}

// after ends a task of the type after.
func (f faulty) after(r *wire.Run) *wire.FromHandler {
	var in struct {
		Type, Payload string
		After         []string
		Any           bool
	}
	if err := json.Unmarshal(r.GetPayload(), &in); err != nil {
		panic(err)
	}
	c := &wire.Child{Type: in.Type, Payload: []byte(in.Payload), AfterAny: in.Any && f.fault != forgetsAny}
	for _, text := range in.After {
		id, err := task.ParseID(text)
		if err != nil {
			panic(err)
		}
		c.After = append(c.After, id[:])
	}
	if f.fault == forgetsAfter {
		c.After, c.AfterAny = nil, false
	}
	fin := &wire.Finish{RunId: r.GetRunId(), Outcome: &wire.Finish_Result{Result: []byte("spawned")}, Children: []*wire.Child{c}}
	if !slices.Contains(f.seen.features, "after") && f.fault != alwaysAfter {
		e := &wire.Error{Message: "the host runs no tasks after others", Class: "unsupported", Permanent: true}
		fin = &wire.Finish{RunId: r.GetRunId(), Outcome: &wire.Finish_Error{Error: e}}
	}
	return &wire.FromHandler{Credits: 1, Finishes: []*wire.Finish{fin}}
}
