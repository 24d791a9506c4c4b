package workflow_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/workflow"
)

// world is a workflow with its row and its children, without an engine.
type world struct {
	t        *testing.T
	r        *rand.Rand
	spec     *workflow.Spec
	row      *task.Task
	children map[string][]*child // by set
	log      []string            // begins and ends, in their order
	now      time.Time
	attempts int
}

type child struct {
	request  task.Request
	state    task.State // 0 while it runs
	reported bool
	result   []byte
}

func newWorld(t *testing.T, r *rand.Rand, d *workflow.Definition, input string) *world {
	t.Helper()
	req, err := workflow.Request(d, []byte(input))
	if err != nil {
		t.Fatal(err)
	}
	spec, err := workflow.ParseSpec(req.Payload)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, r: r, spec: spec, children: make(map[string][]*child), now: time.UnixMicro(1e15).UTC()}
	w.row = &task.Task{ID: task.ID{1, 2, 3}, Type: req.Type, Payload: req.Payload}
	w.row.Create(task.Submitted, w.now, time.Time{})
	return w
}

// ID implements [workflow.Children].
func (w *world) ID(set string, index uint32) task.ID {
	return task.Parent{ID: w.row.ID, Name: set, Index: index}.Child()
}

// Child implements [workflow.Children].
func (w *world) Child(set string, index uint32) (workflow.Child, error) {
	c := w.children[set][index]
	out := workflow.Child{ID: w.ID(set, index), State: c.state, Result: c.result}
	if c.state == task.Failed {
		out.Error = "no answer"
	}
	return out, nil
}

func (w *world) apply(c task.Change) {
	w.t.Helper()
	c.ID, c.At = w.row.ID, w.now
	if c.Ends == nil && c.Signal == nil {
		c.Ref = w.row.Ref()
	}
	if !c.Apply(w.row) {
		w.t.Fatalf("the change to %v does not apply to a task that is %v", c.To, w.row.State)
	}
}

func (w *world) decide() (*workflow.Decision, error) {
	state, err := workflow.ParseState(w.row.Checkpoint())
	if err != nil {
		w.t.Fatal(err)
	}
	return workflow.Next(w.spec, state, workflow.Now{ID: w.row.ID, At: w.now, Children: w.row.Children.Clone(), Wake: w.row.Woken(), Read: w})
}

// attempt runs an attempt of the workflow. A crash before its commit leaves nothing of it.
func (w *world) attempt() {
	w.t.Helper()
	if w.attempts++; w.attempts > 10_000 {
		w.t.Fatal("the workflow does not end")
	}
	w.apply(task.Change{To: task.Processing})
	one, err := w.decide()
	if err != nil {
		w.t.Fatal(err)
	}
	two, err := w.decide()
	a, _ := json.Marshal(one)
	b, _ := json.Marshal(two)
	if err != nil || string(a) != string(b) {
		w.t.Fatalf("the same arguments give two decisions:\n%s\n%s", a, b)
	}
	if w.r.IntN(4) == 0 { // a crash
		w.apply(task.Change{To: task.Submitted, Outcome: task.Crashed})
		return
	}
	for _, s := range one.Stop {
		for i := s.From; i < s.To; i++ {
			if c := w.children[s.Set][i]; c.state == 0 {
				w.finish(s.Set, i, task.Cancelled)
			}
		}
	}
	switch one.End {
	case task.Done:
		w.apply(task.Change{To: task.Done, Outcome: task.Completed, Result: one.Result})
		return
	case task.Failed:
		w.apply(task.Change{To: task.Failed, Outcome: task.Errored, Error: one.Error})
		return
	}
	checkpoint := one.State.Encode()
	c := task.Change{To: task.Waiting, Outcome: task.Completed, Count: task.Reset, Checkpoint: &checkpoint}
	for _, add := range one.Add {
		if len(add.Requests) == 0 {
			w.t.Fatalf("the decision adds no tasks to the set %s", add.Name)
		}
		from := uint32(len(w.children[add.Name]))
		c.Adds = append(c.Adds, task.AddedChildren{Name: add.Name, From: from, Count: uint32(len(add.Requests))})
		for i, req := range add.Requests {
			w.children[add.Name] = append(w.children[add.Name], &child{request: req})
			w.log = append(w.log, fmt.Sprintf("+%s %d", add.Name, from+uint32(i)))
		}
	}
	switch {
	case len(one.Waits) > 0 || len(one.Signals) > 0:
		names := slices.Clone(one.Signals)
		if len(one.Waits) > 0 {
			names = append(names, task.AwaitsChildren)
		}
		c.NextEventAt = one.Until
		c.Await = &task.Await{Names: names, Children: one.Waits}
	case !one.Until.IsZero():
		c.NextEventAt = one.Until
	default:
		c.NextEventAt = w.now
	}
	w.apply(c)
}

// finish ends a child.
func (w *world) finish(set string, index uint32, as task.State) {
	c := w.children[set][index]
	c.state = as
	if as == task.Done {
		c.result = fmt.Appendf(nil, `{"of": %q, "index": %d}`, set, index)
	}
	w.log = append(w.log, fmt.Sprintf("-%s %d %v", set, index, as))
}

// report tells the row of the ends of some children.
func (w *world) report(most int) {
	for _, set := range slices.Sorted(maps.Keys(w.children)) {
		ends := task.ChildEnds{Name: set}
		for i, c := range w.children[set] {
			if c.state != 0 && !c.reported && most > 0 {
				c.reported = true
				most--
				ends.Ends = append(ends.Ends, task.ChildEnd{Index: uint32(i), State: c.state})
			}
		}
		if len(ends.Ends) > 0 && w.row.State != task.Done {
			w.apply(task.Change{Ends: &ends})
		}
	}
}

// live returns the children that run.
func (w *world) live() (all []string) {
	for set, of := range w.children {
		for i, c := range of {
			if c.state == 0 {
				all = append(all, fmt.Sprint(set, " ", i))
			}
		}
	}
	slices.Sort(all)
	return all
}

// run runs the workflow until it has ended. fate says how a child ends.
func (w *world) run(fate func(set string, index uint32) task.State) {
	w.t.Helper()
	for w.row.State.Live() {
		w.now = w.now.Add(time.Second)
		switch at := w.row.NextEventAt; {
		case w.row.State == task.Submitted, w.row.State == task.Waiting && !at.IsZero() && !at.After(w.now):
			w.attempt()
			continue
		}
		if live := w.live(); len(live) > 0 && w.r.IntN(3) > 0 {
			var set string
			var index uint32
			fmt.Sscan(live[w.r.IntN(len(live))], &set, &index)
			w.finish(set, index, fate(set, index))
		} else {
			if w.report(1 + w.r.IntN(3)); len(live) == 0 && w.row.State == task.Waiting && w.row.NextEventAt.IsZero() {
				if w.report(1 << 20); w.row.State == task.Waiting {
					state, _ := json.Marshal(w.row.Signals)
					w.t.Fatalf("the workflow waits for nothing: %s\n%s", state, w.row.Checkpoint())
				}
			}
		}
	}
	w.report(1 << 20)
}

// randomDefinition returns a graph with an output that has the results of all steps.
func randomDefinition(r *rand.Rand, modes ...workflow.OnFailure) *workflow.Definition {
	d := &workflow.Definition{Name: "random", Steps: make(map[string]*workflow.Step)}
	n := 1 + r.IntN(9)
	names := make([]string, n)
	for i, at := range r.Perm(n) { // the order of the names is not that of the steps
		names[i] = fmt.Sprintf("s%d", at)
	}
	output := make(map[string]any)
	for i, name := range names {
		s := &workflow.Step{Type: "work", OnFailure: modes[r.IntN(len(modes))]}
		payload := map[string]any{"input": ref("$input", "a")}
		for _, other := range names[:i] {
			if r.IntN(n) < 2 {
				s.After = append(s.After, other)
				payload[other] = ref("$result", other)
				payload["step-"+other] = ref("$step", other)
			}
		}
		switch r.IntN(4) {
		case 0:
			s.Count = 1 + r.IntN(5)
			s.Need = workflow.Need(r.IntN(s.Count + 1))
			payload["index"] = ref("$index", "")
		case 1:
			s.ForEach, _ = json.Marshal(slices.Repeat([]int{7}, r.IntN(4)))
			payload["item"] = ref("$item", "")
		}
		s.Payload, _ = json.Marshal(payload)
		if r.IntN(2) == 0 {
			undo, _ := json.Marshal(map[string]any{"of": ref("$result", name), "task": ref("$task", name)})
			s.Compensate = &workflow.Action{Type: "undo", Payload: undo}
		}
		d.Steps[name] = s
		output[name] = ref("$result", name)
	}
	d.Output, _ = json.Marshal(output)
	return d
}

func ref(kind, text string) map[string]any { return map[string]any{kind: text} }

// fates returns how children end: always the same for each.
func fates(r *rand.Rand, faults int) func(set string, index uint32) task.State {
	all := make(map[string]task.State)
	return func(set string, index uint32) task.State {
		key := fmt.Sprint(set, " ", index)
		if all[key] == 0 {
			all[key] = task.Done
			switch r.IntN(100) < faults {
			case true:
				all[key] = []task.State{task.Failed, task.Cancelled}[r.IntN(2)]
			}
		}
		return all[key]
	}
}

// If all steps let the others continue, each runs once, after those before it, and sees how these have ended.
func TestStepsRunOnceAndAfterThoseBeforeThem(t *testing.T) {
	for range 300 {
		seed := rand.Uint64()
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			d := randomDefinition(r, workflow.Continue)
			w := newWorld(t, r, d, `{"a": 12345678901234567890}`)
			fate := fates(r, 30)
			w.run(fate)
			if w.row.State != task.Done {
				t.Fatalf("the workflow is %v: %s", w.row.State, w.row.LastError)
			}
			outcome, err := workflow.ParseOutcome(w.row.Result)
			if err != nil {
				t.Fatal(err)
			}
			for name, s := range d.Steps {
				count := 1
				if s.Count > 0 {
					count = s.Count
				} else if len(s.ForEach) > 0 {
					count = strings.Count(string(s.ForEach), "7")
				}
				need, done := count, 0
				for i := range count {
					if fate(name, uint32(i)) == task.Done {
						done++
					}
				}
				if n, err := json.Marshal(s.Need); err == nil && string(n) != `"all"` {
					if need = 1; string(n) != `"any"` {
						fmt.Sscan(string(n), &need)
					}
				}
				want := workflow.Failed
				if done >= need {
					want = workflow.Done
				}
				if got := outcome.Steps[name]; got.Phase != want || len(w.children[name]) != count {
					t.Errorf("step %s with %d of %d tasks done, and %d needed, has added %d, and is %s", name, done, count, need, len(w.children[name]), got.Phase)
				}
				for i, c := range w.children[name] {
					w.checkPayload(name, i, c, s)
				}
			}
			w.checkOrder()
		})
	}
}

// checkOrder checks that the tasks of a step begin when those before it have ended, or enough of them.
func (w *world) checkOrder() {
	for name, s := range w.spec.Definition.Steps {
		begin := slices.Index(w.log, "+"+name+" 0")
		if begin < 0 {
			continue
		}
		for _, other := range s.After {
			if w.spec.Definition.Steps[other].Count > 0 {
				continue // enough of them
			}
			for i := range w.children[other] {
				end := slices.IndexFunc(w.log, func(line string) bool { return strings.HasPrefix(line, fmt.Sprintf("-%s %d ", other, i)) })
				if end < 0 || end > begin {
					w.t.Errorf("step %s begins before task %d of step %s has ended", name, i, other)
				}
			}
		}
	}
}

// checkPayload checks what a task has of the input and the steps before it.
func (w *world) checkPayload(name string, index int, c *child, s *workflow.Step) {
	var got map[string]json.RawMessage
	if err := json.Unmarshal(c.request.Payload, &got); err != nil {
		w.t.Fatal(err)
	}
	if string(got["input"]) != "12345678901234567890" {
		w.t.Errorf("task %d of step %s has the input %s", index, name, got["input"])
	}
	if s.Count > 0 && string(got["index"]) != fmt.Sprint(index) || len(s.ForEach) > 0 && string(got["item"]) != "7" {
		w.t.Errorf("task %d of step %s has the payload %s", index, name, c.request.Payload)
	}
	for _, other := range s.After {
		var state struct{ State string }
		if err := json.Unmarshal(got["step-"+other], &state); err != nil || state.State != "done" && state.State != "failed" {
			w.t.Errorf("step %s begins though step %s is %s", name, other, got["step-"+other])
		}
		before, def := w.children[other], w.spec.Definition.Steps[other]
		if def.Count > 0 || len(def.ForEach) > 0 {
			var all []json.RawMessage
			if err := json.Unmarshal(got[other], &all); len(before) > 0 && string(got[other]) != "null" && (err != nil || len(all) != len(before)) {
				w.t.Errorf("step %s has the results %s of %d tasks of step %s", name, got[other], len(before), other)
			}
			continue
		}
		want := "null"
		if before[0].state == task.Done {
			want = fmt.Sprintf(`{"index":0,"of":%q}`, other)
		}
		if string(got[other]) != want {
			w.t.Errorf("step %s has the result %s of step %s, want %s", name, got[other], other, want)
		}
	}
}

// A workflow with a step that fails begins nothing after it knows that, leaves nothing running, and undoes what is done, the last
// first. Retried, it does the rest.
func TestAWorkflowThatFailsIsUndoneAndRetried(t *testing.T) {
	failed, undone, again := 0, 0, 0
	for range 500 {
		seed := rand.Uint64()
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			mode := []workflow.OnFailure{workflow.Fail, workflow.Compensate}[r.IntN(2)]
			d := randomDefinition(r, mode, mode, workflow.Continue)
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
			w.checkRetry(r)
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
func (w *world) checkRetry(r *rand.Rand) {
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
		isKept := b.Phase == workflow.Done || b.Phase == workflow.Failed && w.spec.Definition.Steps[name].OnFailure == workflow.Continue
		return name == from || !isKept || b.Undo != nil || slices.ContainsFunc(w.spec.Definition.Steps[name].After, runsAnew)
	}
	for name, s := range w.spec.Definition.Steps {
		count := len(w.children[name]) - had[name]
		want := 0
		if runsAnew(name) {
			if want = max(1, s.Count); len(s.ForEach) > 0 {
				want = strings.Count(string(s.ForEach), "7")
			}
		}
		if count != want {
			w.t.Errorf("retried from %q, step %s, which was %q, has %d new tasks, want %d", from, name, before[name].Phase, count, want)
		}
	}
}
