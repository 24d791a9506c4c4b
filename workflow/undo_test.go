//go:build !race

package workflow_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/workflow"
)

// A workflow with a step that fails begins nothing after it knows that, leaves nothing running, and undoes what is done, the last
// first. Retried, it does the rest.
func TestAWorkflowThatFailsIsUndoneAndRetried(t *testing.T) {
	failed, undone, again := 0, 0, 0
	for range 500 {
		seed := rand.Uint64()
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			mode := []workflow.OnFailure{workflow.Fail, workflow.Compensate}[r.IntN(2)]
			d, when := randomDefinition(r, mode, mode, workflow.Continue)
			w := newWorld(t, r, d, `{"a": 1}`)
			w.run(fates(r, 20))
			if w.row.State == task.Done {
				return
			}
			failed++
			if w.row.State != task.Failed || !strings.Contains(w.row.LastError, "has failed: ") {
				t.Fatalf("the workflow is %v: %s", w.row.State, w.row.LastError)
			}
			if live := w.live(); len(live) > 0 {
				t.Errorf("%v run on", live)
			}
			undone += w.checkUndone(mode)
			if r.IntN(2) == 0 {
				again += w.checkFailureAfterRetry(r, mode)
				return
			}
			w.checkRetry(r, when)
		})
	}
	if failed < 50 || undone < 50 || again < 10 {
		t.Errorf("%d workflows failed, %d steps were undone, and %d retries failed: the test tests little", failed, undone, again)
	}
}

// checkFailureAfterRetry retries the workflow up to twice, with tasks that fail at random, and checks after each failure that every
// task that is done was undone once. It returns how many retries failed.
func (w *world) checkFailureAfterRetry(r *rand.Rand, mode workflow.OnFailure) (failed int) {
	for range 2 {
		state, err := workflow.ParseState(w.row.Checkpoint())
		if err != nil {
			w.t.Fatal(err)
		}
		from := ""
		if all := slices.Sorted(maps.Keys(state.Steps)); r.IntN(2) == 0 {
			from = all[r.IntN(len(all))]
		}
		after, err := workflow.Retry(w.spec, state, workflow.Now{ID: w.row.ID, At: w.now, Children: w.row.Children, Read: w}, from)
		if err != nil {
			w.t.Fatal(err)
		}
		checkpoint := after.Encode()
		w.apply(task.Change{To: task.Submitted, Count: task.Reset, Checkpoint: &checkpoint})
		w.run(fates(r, 20))
		if w.row.State == task.Done {
			return failed
		}
		failed++
		w.checkUndoneAfterRetry(mode)
	}
	return failed
}

// checkUndoneAfterRetry checks that a task that is done and was counted by its step at the end was undone, and no task twice.
func (w *world) checkUndoneAfterRetry(mode workflow.OnFailure) {
	state, err := workflow.ParseState(w.row.Checkpoint())
	if err != nil {
		w.t.Fatal(err)
	}
	for name, s := range w.spec.Definition.Steps {
		undone := make(map[string]bool)
		for _, c := range w.children[workflow.UndoSet(name)] {
			var got struct{ Task string }
			if err := json.Unmarshal(c.request.Payload, &got); err != nil || undone[got.Task] {
				w.t.Errorf("step %s is undone with %s (%v)", name, c.request.Payload, err)
			}
			undone[got.Task] = true
		}
		now := state.Steps[name]
		for i, c := range w.children[name][now.From:min(int(now.From+now.Count), len(w.children[name]))] {
			id := w.ID(name, now.From+uint32(i)).String()
			if want := c.state == task.Done && s.Compensate != nil && mode == workflow.Compensate; undone[id] != want {
				w.t.Errorf("task %d of step %s, which is %v: undone %v, want %v", i, name, c.state, undone[id], want)
			}
		}
	}
}

// checkUndone checks the compensation, and returns how many steps were compensated.
func (w *world) checkUndone(mode workflow.OnFailure) (undone int) {
	state, err := workflow.ParseState(w.row.Checkpoint())
	if err != nil {
		w.t.Fatal(err)
	}
	last := 1 << 30
	for _, line := range w.log { // a step is undone before those that ended before it
		if name, isUndo := strings.CutSuffix(strings.TrimPrefix(line, "+"), "/compensate 0"); isUndo && line[0] == '+' {
			if at := state.Steps[name].Order; at >= last {
				w.t.Errorf("step %s is undone too late: %v", name, w.log)
			} else {
				last = at
			}
		}
	}
	for name, s := range w.spec.Definition.Steps {
		want := 0
		for _, c := range w.children[name] {
			if c.state == task.Done && s.Compensate != nil && mode == workflow.Compensate {
				want++
			}
		}
		undo := w.children[workflow.UndoSet(name)]
		if len(undo) != want {
			w.t.Errorf("%d tasks of step %s were undone, want %d: %v", len(undo), name, want, w.log)
		}
		if want > 0 {
			undone++
		}
		seen := make(map[string]bool)
		for _, c := range undo {
			var got struct {
				Of   struct{ Index uint32 }
				Task string
			}
			if err := json.Unmarshal(c.request.Payload, &got); err != nil || got.Task != w.ID(name, got.Of.Index).String() || seen[got.Task] {
				w.t.Errorf("step %s is undone with %s (%v)", name, c.request.Payload, err)
			}
			seen[got.Task] = true
		}
	}
	return undone
}

// checkRetry retries the workflow, with tasks that all succeed.
func (w *world) checkRetry(r *rand.Rand, when conditions) {
	state, err := workflow.ParseState(w.row.Checkpoint())
	if err != nil {
		w.t.Fatal(err)
	}
	before := make(map[string]workflow.StepState)
	for name, s := range state.Steps {
		before[name] = *s
	}
	had := make(map[string]int)
	for set, all := range w.children {
		had[set] = len(all)
	}
	from := ""
	if all := slices.Sorted(maps.Keys(before)); r.IntN(2) == 0 {
		from = all[r.IntN(len(all))]
	}
	after, err := workflow.Retry(w.spec, state, workflow.Now{ID: w.row.ID, At: w.now, Children: w.row.Children, Read: w}, from)
	if err != nil {
		w.t.Fatal(err)
	}
	checkpoint := after.Encode()
	w.apply(task.Change{To: task.Submitted, Count: task.Reset, Checkpoint: &checkpoint})
	w.log = nil
	w.run(func(string, uint32) task.State { return task.Done })
	if w.row.State != task.Done {
		w.t.Fatalf("retried from %q, the workflow is %v: %s", from, w.row.State, w.row.LastError)
	}
	var runsAnew func(name string) bool
	runsAnew = func(name string) bool {
		b := before[name]
		isKept := b.Phase == workflow.Done || b.Phase == workflow.Skipped || b.Phase == workflow.Failed && w.spec.Definition.Steps[name].OnFailure == workflow.Continue
		return name == from || !isKept || b.Undo != nil || slices.ContainsFunc(w.spec.Definition.Steps[name].After, runsAnew)
	}
	expected := when.phases(w.spec.Definition, func(name string) workflow.Phase {
		if !runsAnew(name) {
			return before[name].Phase
		}
		return workflow.Done
	})
	for name, s := range w.spec.Definition.Steps {
		count := len(w.children[name]) - had[name]
		want := 0
		if runsAnew(name) && expected[name] != workflow.Skipped {
			if want = max(1, s.Count); len(s.ForEach) > 0 {
				want = strings.Count(string(s.ForEach), "7")
			}
		}
		if count != want {
			w.t.Errorf("retried from %q, step %s, which was %q, has %d new tasks, want %d", from, name, before[name].Phase, count, want)
		}
	}
}
