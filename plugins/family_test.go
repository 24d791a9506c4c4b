package plugins

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

// node opens an engine in memory: a program runs its tasks of type parent, and the others are done or fail at once.
func node(t *testing.T) *engine.Engine {
	store := memory.New()
	t.Cleanup(func() { _ = store.Close() })
	policies := policy.Set{Slots: 10, Types: make(map[string]policy.Type)}
	for _, typ := range []string{"parent", "child", "fails", "full"} {
		policies.Types[typ] = policy.DefaultType()
	}
	parent, full := policies.Types["parent"], policies.Types["full"]
	parent.Retry.Max, full.MaxBacklog.Max, parent.MaxPayload, full.MaxPayload = 1, 1, policy.LargestPayload, 50
	policies.Types["parent"], policies.Types["full"] = parent, full
	done := task.HandlerFunc(func(context.Context, *task.Task) ([]byte, error) { return nil, nil })
	e, err := engine.Open(t.Context(), engine.Config{
		Store: store, Policies: policies, Log: testLogger(t),
		Handlers: map[string]task.Handler{
			"parent": start(t, self(t, "handlers")), "child": done, "full": done,
			"fails": task.HandlerFunc(func(context.Context, *task.Task) ([]byte, error) { return nil, errors.New("no") }),
		},
		Retry: func(f engine.Failure) (d engine.Decision) {
			if f.Task.Type == "fails" {
				d.To = task.Failed
			}
			return d
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close(context.Background()) })
	return e
}

// parentWith submits a parent of these children, and returns it when it is done or in error.
func parentWith(t *testing.T, e *engine.Engine, name string, children ...task.Request) (parent *task.Task) {
	payload, err := json.Marshal(map[string]any{"name": name, "children": children})
	if err != nil {
		t.Fatal(err)
	}
	receipts, err := e.Submit(t.Context(), engine.Request{Type: "parent", Payload: payload})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the parent has ended", func() bool {
		if parent, err = e.Get(t.Context(), receipts[0].ID); err != nil {
			t.Fatal(err)
		}
		return parent.State == task.Done || parent.State == task.Error
	})
	return parent
}

func TestAProgramRunsChildrenAndLearnsHowTheyEnded(t *testing.T) {
	got := parentWith(t, node(t), "c", task.Request{Type: "child"}, task.Request{Type: "fails"}, task.Request{Type: "child"})
	if want := "children: 2 of 3 done, 1 failed, 0 cancelled, the first has ended: true"; string(got.Result) != want {
		t.Errorf("it is %v (%s) with the result %q, want %q", got.State, got.LastError, got.Result, want)
	}
}

// A child of a program is refused as one of a handler in the process of the engine: see refusesChildren of package enginetest.
func TestChildrenOfAProgramThatCannotBeAddedFailTheAttempt(t *testing.T) {
	e := node(t)
	if _, err := e.Submit(t.Context(), engine.Request{Type: "full", At: time.Now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	child := task.Request{Type: "child"}
	for why, children := range map[string][]task.Request{
		"has an id or a key": {child, {Type: "child", Key: "k"}},
		"have an ordering":   {child, {Type: "child", OrderingKey: "o"}},
		"has 100 bytes":      {child, {Type: "full", Payload: make([]byte, 100)}},
		"max_result of":      {child, {Type: "child", Payload: make([]byte, 2_000_000)}},
		"reserved":           {child, {Type: "taskengine.relay"}},
		"type is missing":    {child, {}},
		"backlog":            {child, {Type: "full"}},
	} {
		got := parentWith(t, e, "c", children...)
		if got.State != task.Error || !strings.Contains(got.LastError, why) || got.Children != nil {
			t.Errorf("%s: it is %v (%s) with the children %+v", why, got.State, got.LastError, got.Children)
		}
		if _, err := e.Get(t.Context(), task.Parent{ID: got.ID, Name: "c"}.Child()); !errors.Is(err, task.ErrNotFound) {
			t.Errorf("%s: a child was added: %v", why, err)
		}
	}
	if got := parentWith(t, e, "a\n", child); got.State != task.Error || !strings.Contains(got.LastError, "not a name") {
		t.Errorf("a bad name: it is %v (%s)", got.State, got.LastError)
	}
}
