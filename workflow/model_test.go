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

// conditions are the conditions of the steps that have one, by the phases of steps.
type conditions map[string]func(phase func(string) workflow.Phase) bool

// randomCondition returns a condition on the step other, which has several tasks if fans is true.
func randomCondition(r *rand.Rand, other string, fans bool) (text string, holds func(phase func(string) workflow.Phase) bool) {
	switch r.IntN(6) {
	case 0:
		return "$input.a >= 1", func(func(string) workflow.Phase) bool { return true }
	case 1:
		return "$input.missing or $input.a < 1", func(func(string) workflow.Phase) bool { return false }
	case 2:
		return fmt.Sprintf("$result.%s.of == '%s'", other, other), func(phase func(string) workflow.Phase) bool { return !fans && phase(other) == workflow.Done }
	case 3:
		text, not := randomCondition(r, other, fans)
		return "not (" + text + ")", func(phase func(string) workflow.Phase) bool { return !not(phase) }
	}
	is := []workflow.Phase{workflow.Done, workflow.Done, workflow.Failed, workflow.Skipped}[r.IntN(4)]
	return fmt.Sprintf("$step.%s.state == '%s'", other, is), func(phase func(string) workflow.Phase) bool { return phase(other) == is }
}

// phases returns the phases of the steps by the rules of skipping. ran is that of a step that is not skipped.
func (c conditions) phases(d *workflow.Definition, ran func(name string) workflow.Phase) map[string]workflow.Phase {
	all := make(map[string]workflow.Phase)
	var phase func(name string) workflow.Phase
	phase = func(name string) workflow.Phase {
		if p, has := all[name]; has {
			return p
		}
		s, skipped := d.Steps[name], 0
		for _, other := range s.After {
			if phase(other) == workflow.Skipped {
				skipped++
			}
		}
		isSkipped := skipped > 0
		switch s.SkipWith {
		case workflow.SkipWithAll:
			isSkipped = skipped > 0 && skipped == len(s.After)
		case workflow.SkipWithNone:
			isSkipped = false
		}
		if isSkipped || c[name] != nil && !c[name](phase) {
			all[name] = workflow.Skipped
		} else {
			all[name] = ran(name)
		}
		return all[name]
	}
	for name := range d.Steps {
		phase(name)
	}
	return all
}

// randomDefinition returns a graph with an output that has the results of all steps, and the conditions of its steps.
func randomDefinition(r *rand.Rand, modes ...workflow.OnFailure) (*workflow.Definition, conditions) {
	when := make(conditions)
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
			s.OrderingKey, _ = json.Marshal(ref("$input", "a"))
		}
		if r.IntN(2) == 0 {
			undo, _ := json.Marshal(map[string]any{"of": ref("$result", name), "task": ref("$task", name)})
			s.Compensate = &workflow.Action{Type: "undo", Payload: undo}
		}
		if len(s.After) > 0 {
			s.SkipWith = []workflow.SkipWith{"", workflow.SkipWithAny, workflow.SkipWithAll, workflow.SkipWithNone}[r.IntN(4)]
			if other := s.After[r.IntN(len(s.After))]; r.IntN(3) == 0 {
				s.If, when[name] = randomCondition(r, other, d.Steps[other].Count > 0 || len(d.Steps[other].ForEach) > 0)
			}
		}
		d.Steps[name] = s
		output[name] = ref("$result", name)
	}
	d.Output, _ = json.Marshal(output)
	return d, when
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
	seen := make(map[workflow.Phase]int)
	for range 300 {
		seed := rand.Uint64()
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			d, when := randomDefinition(r, workflow.Continue)
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
			ran := func(name string) workflow.Phase {
				s, count := d.Steps[name], 1
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
				if len(w.children[name]) != count {
					t.Errorf("step %s has added %d tasks, want %d", name, len(w.children[name]), count)
				}
				if done >= need {
					return workflow.Done
				}
				return workflow.Failed
			}
			for name, want := range when.phases(d, ran) {
				s := d.Steps[name]
				got := outcome.Steps[name]
				if got.Phase != want || want == workflow.Skipped && (len(w.children[name]) > 0 || got.Error == "" || !got.Began.IsZero()) {
					t.Errorf("step %s is %s (%s), want %s, and has added %d tasks", name, got.Phase, got.Error, want, len(w.children[name]))
				}
				seen[want]++
				for i, c := range w.children[name] {
					w.checkPayload(name, i, c, s)
				}
			}
			w.checkOrder()
		})
	}
	if seen[workflow.Done] < 100 || seen[workflow.Failed] < 100 || seen[workflow.Skipped] < 100 {
		t.Errorf("the steps have ended as %v: the test tests little", seen)
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
	if want := strings.Repeat("12345678901234567890", min(len(s.OrderingKey), 1)); c.request.OrderingKey != want {
		w.t.Errorf("task %d of step %s has the ordering key %q, want %q", index, name, c.request.OrderingKey, want)
	}
	for _, other := range s.After {
		var state struct{ State string }
		if err := json.Unmarshal(got["step-"+other], &state); err != nil || state.State != "done" && state.State != "failed" && state.State != "skipped" {
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
		if len(before) > 0 && before[0].state == task.Done {
			want = fmt.Sprintf(`{"index":0,"of":%q}`, other)
		}
		if string(got[other]) != want {
			w.t.Errorf("step %s has the result %s of step %s, want %s", name, got[other], other, want)
		}
	}
}
