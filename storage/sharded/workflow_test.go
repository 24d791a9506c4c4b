package sharded_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/taskengine/taskengine/storage/postgres/placement"
	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/workflow"
	"github.com/taskengine/taskengine/workflow/runner"
)

// graph has two steps with trees in both databases, a branch, a join, and a step that fails if the input says so. The tasks of one step, and
// those that undo them, have ordering keys.
const graph = `{"on_failure": "compensate", "steps": {
	"first": {"type": "tree", "count": 2, "payload": 1, "ordering_key": {"$index": ""}, "compensate": {"type": "undo", "payload": {"$task": "first"}, "ordering_key": {"$task": "first"}}},
	"left":  {"after": ["first"], "if": "$input.left", "type": "tree", "payload": 1, "compensate": {"type": "undo", "payload": {"$task": "left"}}},
	"right": {"after": ["first"], "if": "not $input.left", "type": "tree", "payload": 1, "compensate": {"type": "undo", "payload": {"$task": "right"}}},
	"last":  {"after": ["left", "right"], "skip_with": "all", "type": "last", "payload": {"$input": "fails"}}
}, "output": [{"$result": "first"}, {"$result": "left"}, {"$result": "right"}]}`

// last fails for good if its payload is true.
func (l *letters) last(_ context.Context, t *task.Task) ([]byte, error) {
	switch {
	case l.failsNow():
		return nil, errFault
	case string(t.Payload) == "true":
		return nil, task.EndAs(task.Failed, errors.New("it cannot be shipped"))
	}
	return nil, nil
}

func (l *letters) undo(context.Context, *task.Task) ([]byte, error) {
	if l.failsNow() {
		return nil, errFault
	}
	return nil, nil
}

func TestWorkflowsInTwoDatabasesAreJoinedThoughShardsAreMoved(t *testing.T) { workflowsRun(t, true) }

// workflowsRun runs workflows with steps that add children in both databases, while handlers and the store fail and the engine is
// killed. Each step has the tasks of the graph and no others, and each is joined or undone.
func workflowsRun(t *testing.T, moves bool) {
	l := startLetters(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	d, err := workflow.Parse([]byte(graph))
	if err != nil {
		t.Fatal(err)
	}
	var ids []task.ID
	for i := range 8 {
		r, err := workflow.Request(d, fmt.Appendf(nil, `{"left": %v, "fails": %v}`, i%2 == 0, i >= 4))
		if err != nil {
			t.Fatal(err)
		}
		got, err := l.Submit(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, got[0].ID)
	}
	l.fail(seed, 200)
	from, to := l.a, l.b
	for n := 0; moves && n < 4; n++ {
		if err := placement.Move(t.Context(), from, to, shards(0, 60), nil); err != nil {
			t.Error(err)
		}
		from, to = to, from
	}
	for range 2 {
		l.kill(10 * time.Millisecond)
		l.start() // of another incarnation
	}
	l.await("all workflows have ended", func() bool {
		return l.live(workflow.Type) == 0 && l.live("tree") == 0 && l.live("taskengine.relay") == 0
	})
	for i, id := range ids {
		l.checkWorkflow(id, i%2 == 0, i >= 4)
	}
}

// checkWorkflow checks how a workflow has ended, and each of its steps.
func (l *letters) checkWorkflow(id task.ID, left, fails bool) {
	w, err := runner.Of(l.Engine).Get(l.Context(), id)
	if err != nil {
		l.Fatal(err)
	}
	want := map[string]string{"first": "done 2 0", "left": "done 1 0", "right": "skipped 0 0", "last": "done 1 0"}
	if !left {
		want["left"], want["right"] = want["right"], want["left"]
	}
	end := task.Done
	if fails {
		end = task.Failed
		for name := range want {
			switch {
			case name == "first":
				want[name] = "done 2 2"
			case name == "last":
				want[name] = "failed 1 0"
			case want[name] == "done 1 0":
				want[name] = "done 1 1"
			}
		}
	}
	if w.Task.State != end {
		l.Errorf("workflow %v is %v: %s", id, w.Task.State, w.Task.LastError)
	}
	for _, s := range w.Steps {
		undone, added, set := uint32(0), uint32(0), w.Task.Children.Set(s.Name)
		if u := s.State.Undo; u != nil && u.Phase == workflow.Done {
			undone = u.Done
		}
		if set != nil {
			added = set.Added
		}
		if got := fmt.Sprintf("%s %d %d", s.State.Phase, added, undone); got != want[s.Name] {
			l.Errorf("step %s of workflow %v is %q, want %q", s.Name, id, got, want[s.Name])
		}
		if s.Definition.Type != "tree" {
			continue
		}
		for i, child := range s.Tasks {
			key := ""
			if s.Name == "first" {
				key = strconv.Itoa(i)
			}
			if got, err := l.Get(l.Context(), child); err != nil || got.State != task.Done || string(got.Result) != "tree" || got.OrderingKey != key {
				l.Errorf("a tree of step %s of workflow %v is %v, %v, and has the ordering key %q, want %q", s.Name, id, got, err, got.OrderingKey, key)
			}
		}
	}
}
