package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/taskenginetest"
	"github.com/taskengine/taskengine/workflow"
	"github.com/taskengine/taskengine/workflow/runner"
)

// config has the types of the tests: echo returns its payload, and the others do what their names say.
func config() engine.Config {
	c := engine.Config{
		Policies: policy.Set{Slots: 10, Types: map[string]policy.Type{workflow.Type: runner.TypePolicy()}},
		Handlers: map[string]task.Handler{workflow.Type: runner.Handler},
	}
	add := func(typ string, h task.HandlerFunc) { c.Policies.Types[typ], c.Handlers[typ] = policy.DefaultType(), h }
	add("echo", func(_ context.Context, t *task.Task) ([]byte, error) { return t.Payload, nil })
	add("undo", func(_ context.Context, t *task.Task) ([]byte, error) { return nil, nil })
	add("fail", func(context.Context, *task.Task) ([]byte, error) {
		return nil, task.EndAs(task.Failed, errors.New("the card was refused"))
	})
	add("stuck", func(context.Context, *task.Task) ([]byte, error) {
		return nil, task.Permanent(errors.New("the disk is full"))
	})
	add("slow", func(_ context.Context, t *task.Task) ([]byte, error) {
		if t.Woken().By == task.NotWoken {
			return nil, task.WaitFor([]string{"go"}, time.Time{})
		}
		return []byte(`"slow"`), nil
	})
	return c
}

// submit adds a workflow.
func submit(t *testing.T, e *taskenginetest.Engine, definition, input string) task.ID {
	t.Helper()
	d, err := workflow.Parse([]byte(definition))
	if err != nil {
		t.Fatal(err)
	}
	r, err := workflow.Request(d, []byte(input))
	if err != nil {
		t.Fatal(err)
	}
	receipts, err := e.Submit(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return receipts[0].ID
}

// ended waits until a workflow has ended, and checks how.
func ended(t *testing.T, e *taskenginetest.Engine, id task.ID, want task.State, text string) *runner.Workflow {
	t.Helper()
	e.Wait(id)
	w := show(t, e, id)
	if said := string(w.Output) + w.Task.LastError; w.Task.State != want || !strings.Contains(said, text) {
		t.Fatalf("the workflow is %v: %s\nwant %v: %s", w.Task.State, said, want, text)
	}
	return w
}

func show(t *testing.T, e *taskenginetest.Engine, id task.ID) *runner.Workflow {
	t.Helper()
	w, err := runner.Of(e.Engine).Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func step(w *runner.Workflow, name string) *runner.Step {
	return &w.Steps[slices.IndexFunc(w.Steps, func(s runner.Step) bool { return s.Name == name })]
}

// phases writes the phases of the steps of a workflow.
func phases(w *runner.Workflow) string {
	var all []string
	for _, s := range w.Steps {
		text := fmt.Sprintf("%s=%s", s.Name, s.State.Phase)
		if u := s.State.Undo; u != nil {
			text += "/" + string(u.Phase)
		}
		all = append(all, text)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func checkPhases(t *testing.T, w *runner.Workflow, want string) {
	t.Helper()
	if got := phases(w); got != want {
		t.Errorf("the steps are %s\nwant %s", got, want)
	}
}

func TestAGraphRunsWithResultsAndFanOut(t *testing.T) {
	taskenginetest.Run(t, config(), func(t *testing.T, e *taskenginetest.Engine) {
		id := submit(t, e, `{"name": "order", "steps": {
			"charge":  {"type": "echo", "payload": {"id": 4711, "of": {"$input": "order"}}},
			"items":   {"type": "echo", "for_each": {"$input": "items"}, "payload": [{"$item": "sku"}, {"$index": ""}]},
			"none":    {"type": "echo", "for_each": []},
			"text":    {"type": "echo", "after": ["charge"], "payload": {"$literal": {"$result": "x"}}},
			"ship":    {"type": "echo", "after": ["charge", "items", "none"], "payload": {"charge": {"$result": "charge.id"}, "items": {"$result": "items"}, "first": {"$result": "items.0.0"}, "how": {"$step": "items"}}}
		}, "output": {"ship": {"$result": "ship"}, "none": {"$result": "none"}, "text": {"$result": "text"}}}`, `{"order": "o-1", "items": [{"sku": "a"}, {"sku": "b"}]}`)
		w := ended(t, e, id, task.Done, "")
		const want = `{"none":[],"ship":{"charge":4711,"first":"a","how":{"cancelled":0,"count":2,"done":2,"error":"","failed":0,"state":"done"},"items":[["a",0],["b",1]]},"text":{"$result":"x"}}`
		if string(w.Output) != want {
			t.Errorf("the output is\n%s, want\n%s", w.Output, want)
		}
		checkPhases(t, w, "charge=done items=done none=done ship=done text=done")
		for _, s := range w.Steps {
			for i, id := range s.Tasks {
				if got, err := e.Get(t.Context(), id); err != nil || got.State != task.Done || got.Parent.Name != s.Name || got.Parent.Index != uint32(i) {
					t.Errorf("task %d of step %s is %v, %v", i, s.Name, got, err)
				}
			}
		}
		if name := w.Task.Headers[workflow.HeaderName]; name != "order" {
			t.Errorf("the name of the workflow is %q", name)
		}
	})
}

func TestAStepIsDoneWithAsManyTasksAsItNeeds(t *testing.T) {
	taskenginetest.Run(t, config(), func(t *testing.T, e *taskenginetest.Engine) {
		id := submit(t, e, `{"steps": {
			"ask": {"type": "slow", "count": 5, "need": 2},
			"any": {"type": "slow", "count": 3, "need": "any"},
			"use": {"type": "echo", "after": ["ask", "any"], "payload": [{"$result": "ask"}, {"$result": "any"}]}
		}, "output": {"$result": "use"}}`, "")
		e.Advance(time.Second)
		w := show(t, e, id)
		checkPhases(t, w, "any=running ask=running use=")
		for _, s := range w.Steps {
			for i, task := range s.Tasks {
				if s.Name == "ask" && (i == 0 || i == 3) || s.Name == "any" && i == 1 {
					signal(t, e, task, "go", "")
				}
			}
		}
		ended(t, e, id, task.Done, `[["slow",null,null,"slow",null],[null,"slow",null]]`)
		if live := len(e.Tasks("slow")); live != 8 {
			t.Errorf("there are %d tasks", live)
		}
	})
}

func signal(t *testing.T, e *taskenginetest.Engine, to task.ID, name, data string) {
	t.Helper()
	if _, _, err := e.Signal(t.Context(), engine.Signal{To: to, Name: name, Data: []byte(data), Keep: true}); err != nil {
		t.Fatal(err)
	}
}

func TestAWorkflowWaitsForSignalsAndTimesBesideItsTasks(t *testing.T) {
	const definition = `{"steps": {
		"work":    {"type": "slow"},
		"sleep":   {"wait": {"for": "1h"}},
		"approve": {"wait": {"signal": "approved", "timeout": "2d"}, "on_failure": "continue"},
		"late":    {"wait": {"signal": "late"}, "after": ["approve"]},
		"use":     {"type": "echo", "after": ["approve", "sleep", "late"], "payload": [{"$result": "approve"}, {"$step": "approve"}, {"$result": "late"}, {"$workflow": "id"}]}
	}, "output": {"$result": "use"}}`
	taskenginetest.Run(t, config(), func(t *testing.T, e *taskenginetest.Engine) {
		for _, approved := range []bool{true, false} {
			id := submit(t, e, definition, "")
			signal(t, e, id, "late", "text") // it comes before the workflow waits for it
			e.Advance(time.Minute)
			_, reasons, err := e.Why(t.Context(), id)
			said := fmt.Sprint(reasons, err)
			for _, want := range []string{`1 children "work"`, "the signal approved"} {
				if !strings.Contains(said, want) {
					t.Errorf("it waits for %s\nwant %s", said, want)
				}
			}
			if approved {
				signal(t, e, id, "approved", `{"by": "eve"}`)
			}
			e.Advance(49 * time.Hour)
			checkPhases(t, show(t, e, id), map[bool]string{
				true:  "approve=done late=done sleep=done use=done work=running",
				false: "approve=failed late=done sleep=done use=done work=running",
			}[approved])
			signal(t, e, step(show(t, e, id), "work").Tasks[0], "go", "")
			want := fmt.Sprintf(`[{"by":"eve"},{"cancelled":0,"count":0,"done":0,"error":"","failed":0,"state":"done"},"text","%v"]`, id)
			if !approved {
				want = `[null,{"cancelled":0,"count":0,"done":0,"error":"the signal approved did not come in time"`
			}
			ended(t, e, id, task.Done, want)
		}
	})
}

func TestAWorkflowThatFailsStopsAndCompensates(t *testing.T) {
	taskenginetest.Run(t, config(), func(t *testing.T, e *taskenginetest.Engine) {
		id := submit(t, e, `{"on_failure": "compensate", "steps": {
			"charge":  {"type": "echo", "payload": {"id": 7}, "compensate": {"type": "undo", "payload": {"charge": {"$result": "charge.id"}}}},
			"reserve": {"type": "echo", "after": ["charge"], "for_each": ["a", "b"], "payload": {"$item": ""}, "compensate": {"type": "undo", "payload": {"item": {"$item": ""}, "own": {"$result": "reserve"}, "task": {"$task": "reserve"}}}},
			"wait":    {"wait": {"signal": "never"}},
			"other":   {"type": "slow"},
			"ship":    {"type": "fail", "after": ["reserve"]},
			"last":    {"type": "echo", "after": ["ship"]}
		}}`, "")
		e.Advance(time.Minute)
		w := ended(t, e, id, task.Failed, "step ship has failed: task 0 (")
		if !strings.Contains(w.Task.LastError, ") has failed: the card was refused") {
			t.Errorf("the error is %s", w.Task.LastError)
		}
		checkPhases(t, w, "charge=done/done last= other=cancelled reserve=done/done ship=failed wait=cancelled")
		var undone []string
		for _, one := range e.Tasks("undo") {
			undone = append(undone, string(one.Payload))
		}
		want := []string{
			fmt.Sprintf(`{"item":"a","own":"a","task":"%v"}`, step(w, "reserve").Tasks[0]),
			fmt.Sprintf(`{"item":"b","own":"b","task":"%v"}`, step(w, "reserve").Tasks[1]),
			`{"charge":7}`,
		}
		if !slices.Equal(undone, want) {
			t.Errorf("undone were %q, want %q", undone, want)
		}
		if slow := e.Only("slow"); slow.State != task.Cancelled || !strings.Contains(slow.LastError, "step ship of the workflow") {
			t.Errorf("the task of the other step is %v: %s", slow.State, slow.LastError)
		}
	})
}

// With retry.then: failed, nobody is asked about a task that has failed for good.
func TestAWorkflowCompensatesWhenAStepHasNoAttemptsLeft(t *testing.T) {
	c := config()
	flaky := policy.DefaultType()
	flaky.Retry.Max, flaky.Retry.Fails = 2, true
	c.Policies.Types["flaky"], c.Handlers["flaky"] = flaky, task.HandlerFunc(func(context.Context, *task.Task) ([]byte, error) {
		return nil, errors.New("the bank is closed")
	})
	taskenginetest.Run(t, c, func(t *testing.T, e *taskenginetest.Engine) {
		id := submit(t, e, `{"on_failure": "compensate", "steps": {
			"reserve": {"type": "echo", "compensate": {"type": "undo"}},
			"charge":  {"type": "flaky", "after": ["reserve"]}
		}}`, "")
		e.Advance(time.Minute)
		w := ended(t, e, id, task.Failed, "step charge has failed: task 0 (")
		if !strings.Contains(w.Task.LastError, "the bank is closed (attempt 2 of 2)") {
			t.Errorf("the error is %s", w.Task.LastError)
		}
		checkPhases(t, w, "charge=failed reserve=done/done")
	})
}

func TestACompensationThatFailsIsInTheError(t *testing.T) {
	taskenginetest.Run(t, config(), func(t *testing.T, e *taskenginetest.Engine) {
		id := submit(t, e, `{"steps": {
			"charge":  {"type": "echo", "compensate": {"type": "undo"}},
			"reserve": {"type": "echo", "after": ["charge"], "compensate": {"type": "fail"}},
			"ship":    {"type": "fail", "after": ["reserve"], "on_failure": "compensate"}
		}}`, "")
		w := ended(t, e, id, task.Failed, "step ship has failed: task 0 (")
		if !strings.Contains(w.Task.LastError, "; the compensation of step reserve has failed: task 0 (") {
			t.Errorf("the error is %s", w.Task.LastError)
		}
		checkPhases(t, w, "charge=done/done reserve=done/failed ship=failed")
	})
}

// A task in error waits for a person, and so does its workflow. What is done stays done when it is retried.
// The branch with a condition that does not hold is skipped, with the steps after it, and a step that joins the branches sees null of it.
func TestABranchIsSkippedByItsCondition(t *testing.T) {
	const branches = `{"steps": {
		"check":   {"type": "echo", "payload": {"score": {"$input": "score"}}},
		"manual":  {"type": "echo", "after": ["check"], "if": "$result.check.score >= 0.8", "payload": {"by": "a person"}, "compensate": {"type": "undo"}},
		"note":    {"wait": {"for": "1h"}, "after": ["manual"]},
		"auto":    {"type": "echo", "after": ["check"], "if": "$result.check.score < 0.8", "payload": {"by": "a rule"}, "compensate": {"type": "undo"}},
		"ship":    {"type": "echo", "after": ["note", "auto"], "skip_with": "all", "payload": [{"$result": "manual.by"}, {"$result": "auto.by"}, {"$task": "manual"}]},
		"pay":     {"type": "%s", "after": ["ship"], "on_failure": "compensate"}
	}, "output": {"ship": {"$result": "ship"}, "manual": {"$step": "manual"}}}`
	taskenginetest.Run(t, config(), func(t *testing.T, e *taskenginetest.Engine) {
		w := ended(t, e, submit(t, e, fmt.Sprintf(branches, "echo"), `{"score": 0.5}`), task.Done, `"ship":[null,"a rule",null]`)
		checkPhases(t, w, "auto=done check=done manual=skipped note=skipped pay=done ship=done")
		for name, why := range map[string]string{"manual": "its condition does not hold: $result.check.score >= 0.8", "note": "step manual was skipped"} {
			if s := step(w, name); s.State.Error != why || !s.State.Began.IsZero() || s.State.Ended.IsZero() {
				t.Errorf("step %s is %+v", name, s.State)
			}
		}
		id := submit(t, e, fmt.Sprintf(branches, "fail"), `{"score": 0.8}`)
		w = ended(t, e, id, task.Failed, "the card was refused")
		checkPhases(t, w, "auto=skipped check=done manual=done/done note=done pay=failed ship=done")
		if err := e.Pause(t.Context(), workflow.Type); err != nil { // it is looked at before it goes on
			t.Fatal(err)
		}
		w, err := runner.Of(e.Engine).Retry(t.Context(), task.Ref{ID: id}, "auto")
		if err != nil {
			t.Fatal(err)
		}
		checkPhases(t, w, "auto= check=done manual= note= pay= ship=")
		if err := e.Unpause(t.Context(), workflow.Type); err != nil {
			t.Fatal(err)
		}
		w = ended(t, e, id, task.Failed, "the card was refused") // what auto depends on is as it was
		checkPhases(t, w, "auto=skipped check=done manual=done/done note=done pay=failed ship=done")

		id = submit(t, e, fmt.Sprintf(branches, "echo"), `{"score": "high"}`)
		w = ended(t, e, id, task.Failed, `step manual has failed: if: column 21: >= compares the text "high" with the number 0.8`)
		checkPhases(t, w, "auto=failed check=done manual=failed note= pay= ship=")
	})
}

// A step that has failed before it had tasks, and lets the others continue, has no id of a task.
func TestAStepWithoutTasksHasNoIDsOfTasks(t *testing.T) {
	taskenginetest.Run(t, config(), func(t *testing.T, e *taskenginetest.Engine) {
		id := submit(t, e, `{"on_failure": "continue", "steps": {
			"one":  {"type": "echo", "payload": {"$input": "missing"}},
			"many": {"type": "echo", "for_each": {"$input": "missing"}}
		}, "output": {"one": {"$task": "one"}, "many": {"$task": "many"}}}`, `{}`)
		w := ended(t, e, id, task.Done, `{"many":[],"one":null}`)
		checkPhases(t, w, "many=failed one=failed")
	})
}

func TestAWorkflowIsRetriedFromAStep(t *testing.T) {
	taskenginetest.Run(t, config(), func(t *testing.T, e *taskenginetest.Engine) {
		id := submit(t, e, `{"steps": {
			"charge":  {"type": "echo", "payload": {"id": 7}},
			"check":   {"type": "stuck", "after": ["charge"]},
			"ship":    {"type": "echo", "after": ["check"], "payload": {"$result": "charge"}}
		}, "output": {"$result": "ship"}}`, "")
		e.Advance(time.Hour)
		if w := show(t, e, id); w.Task.State != task.Waiting {
			t.Fatalf("the workflow is %v: %s", w.Task.State, w.Task.LastError)
		}
		if _, err := runner.Of(e.Engine).Retry(t.Context(), task.Ref{ID: id}, ""); !errors.Is(err, engine.ErrNotAllowed) {
			t.Errorf("a workflow that waits is retried: %v", err)
		}
		stuck := e.Only("stuck")
		if _, err := e.Fail(t.Context(), stuck.Ref(), "nobody can mend it"); err != nil {
			t.Fatal(err)
		}
		failed := ended(t, e, id, task.Failed, "step check has failed: task 0 ("+stuck.ID.String()+") has failed: nobody can mend it")
		for from, want := range map[string]error{"chek": runner.ErrInvalid} {
			if _, err := runner.Of(e.Engine).Retry(t.Context(), task.Ref{ID: id}, from); !errors.Is(err, want) || !strings.Contains(err.Error(), "did you mean check?") {
				t.Errorf("a retry from %s returns %v", from, err)
			}
		}
		if _, err := runner.Of(e.Engine).Retry(t.Context(), task.Ref{ID: id, Version: failed.Task.Version - 1}, ""); !errors.Is(err, engine.ErrStale) {
			t.Errorf("a retry of another version returns %v", err)
		}
		for range 2 {
			if _, err := runner.Of(e.Engine).Retry(t.Context(), task.Ref{ID: id}, "check"); err != nil {
				t.Fatal(err)
			}
			e.Advance(time.Hour)
			all := e.Tasks("stuck")
			last := all[len(all)-1]
			if last.Parent.Index != uint32(len(all)-1) {
				t.Errorf("the task %d of the step is child %d", len(all), last.Parent.Index)
			}
			if _, err := e.Fail(t.Context(), last.Ref(), "again"); err != nil {
				t.Fatal(err)
			}
			ended(t, e, id, task.Failed, "step check has failed: task 0 ("+last.ID.String()+") has failed: again")
		}
		if n := len(e.Tasks("echo")); n != 1 {
			t.Errorf("there are %d tasks of the steps before and after, want one", n)
		}
	})
}

func TestATreeThatWasCancelledIsRetried(t *testing.T) {
	taskenginetest.Run(t, config(), func(t *testing.T, e *taskenginetest.Engine) {
		id := submit(t, e, `{"steps": {
			"charge": {"type": "echo", "payload": 1},
			"wait":   {"type": "slow", "after": ["charge"]},
			"paid":   {"wait": {"signal": "paid", "timeout": "1h"}, "after": ["wait"]}
		}, "output": {"$result": "paid"}}`, "")
		e.Advance(time.Minute)
		if tree, err := e.CancelTree(t.Context(), id, engine.TreeCancel{}); err != nil || tree.Cancelled != 2 {
			t.Fatalf("%+v, %v", tree, err)
		}
		e.Advance(time.Minute)
		if _, err := runner.Of(e.Engine).Retry(t.Context(), task.Ref{ID: id}, ""); err != nil {
			t.Fatal(err)
		}
		e.Advance(time.Minute)
		w := show(t, e, id)
		checkPhases(t, w, "charge=done paid= wait=running")
		signal(t, e, step(w, "wait").Tasks[0], "go", "")
		signal(t, e, id, "paid", "true")
		if w = ended(t, e, id, task.Done, "true"); w.Retries != 1 || len(e.Tasks("echo")) != 1 {
			t.Errorf("it was retried %d times, and charged %d times", w.Retries, len(e.Tasks("echo")))
		}
	})
}

func TestAWorkflowIsAStepOfAnother(t *testing.T) {
	inner := `{"format": 1, "definition": {"steps": {"a": {"type": "echo", "payload": {"$literal": {"$input": ""}}}}, "output": {"$result": "a"}}}`
	taskenginetest.Run(t, config(), func(t *testing.T, e *taskenginetest.Engine) {
		id := submit(t, e, fmt.Sprintf(`{"steps": {"sub": {"type": %q, "payload": {"$literal": %s}}}, "output": {"$result": "sub.output"}}`, workflow.Type, inner), "")
		ended(t, e, id, task.Done, `{"$input":""}`)
	})
}

func TestAWorkflowThatCannotBeCarriedOutSaysWhy(t *testing.T) {
	c := config()
	p := c.Policies.Types["undo"]
	p.Retention.Done = 0
	c.Policies.Types["undo"] = p
	taskenginetest.Run(t, c, func(t *testing.T, e *taskenginetest.Engine) {
		for payload, want := range map[string]string{
			``:              "it is not JSON",
			`{"format": 2}`: "format is 2, and this program knows 1",
			`{"format": 1}`: "there is no definition",
			`{"format": 1, "definition": {"steps": {"a": {}}}}`:                                             "definition: steps.a: a step has a type",
			`{"format": 1, "definition": {"steps": {"a": {"type": "undo"}}, "output": {"$result": "a"}}}`:   "set retention.done of the type",
			`{"format": 1, "definition": {"steps": {"a": {"type": "echo"}}, "output": {"$result": "a.b"}}}`: `output: {"$result": "a.b"}: the value is null, and has no "b"`,
		} {
			receipts, err := e.Submit(t.Context(), engine.Request{Type: workflow.Type, Payload: []byte(payload)})
			if err != nil {
				t.Fatal(err)
			}
			if got := e.Wait(receipts[0].ID)[0]; got.State != task.Error || !strings.Contains(got.LastError, want) {
				t.Errorf("%s: the workflow is %v: %s\nwant %s", payload, got.State, got.LastError, want)
			}
		}
		id := submit(t, e, `{"steps": {"a": {"type": "echo", "payload": [1]}, "b": {"type": "echo", "after": ["a"], "payload": {"$result": "a.7"}}}}`, "")
		ended(t, e, id, task.Failed, `step b has failed: payload: {"$result": "a.7"}: the list has 1 values, and no "7"`)
		big, err := json.Marshal(strings.Repeat("x", 300<<10))
		if err != nil {
			t.Fatal(err)
		}
		id = submit(t, e, `{"steps": {"a": {"type": "echo", "count": 5, "payload": {"$input": ""}}, "b": {"type": "echo", "after": ["a"], "payload": {"$result": "a.0"}}}}`, string(big))
		if got := e.Wait(id)[0]; got.State != task.Error || !strings.Contains(got.LastError, "the result of step a has 153") {
			t.Errorf("results that are too large: %v, %s", got.State, got.LastError)
		}
	})
}
