package sharded_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage/postgres/placement"
	"github.com/taskengine/taskengine/storage/sharded"
	"github.com/taskengine/taskengine/task"
)

func TestTasksThatAreAddedWhenAnotherRunsAgainAreInItsDatabase(t *testing.T) {
	a, b := database(t, "a"), database(t, "b")
	if _, err := placement.Divide(t.Context(), a, b); err != nil {
		t.Fatal(err)
	}
	s, err := sharded.Open(t.Context(), []sharded.Database{{Name: "a", Store: a.Store}, {Name: "b", Store: b.Store}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	added := make(map[task.ID]task.ID) // the parents, by the ids that were chosen; by one attempt at a time
	tick := func(_ context.Context, t *task.Task) ([]byte, error) {
		switch string(t.Payload) {
		case "again":
			return nil, nil
		case "key":
			return nil, task.Again(time.Time{}, task.WithTasks(engine.Request{Type: "fire", Key: "key"}))
		case "id":
			other := t.ID
			other[15]++
			return nil, task.Again(time.Time{}, task.WithTasks(engine.Request{Type: "fire", ID: other}))
		}
		id := t.ID.Child(time.Unix(1, 0), "fire")
		added[id] = t.ID
		return nil, task.Again(time.Now(), task.WithPayload([]byte("again")), task.WithTasks(engine.Request{Type: "fire", ID: id}, engine.Request{Type: "fire"}))
	}
	one := policy.DefaultType()
	one.Concurrency, one.Retry.Max = 1, 1
	e, err := engine.Open(t.Context(), engine.Config{
		Store: s, Policies: policy.Set{Types: map[string]policy.Type{"tick": one, "fire": policy.DefaultType()}},
		Handlers: map[string]task.Handler{
			"tick": task.HandlerFunc(tick),
			"fire": task.HandlerFunc(func(context.Context, *task.Task) ([]byte, error) { return nil, nil }),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		if err := e.Close(ctx); err != nil {
			t.Error(err)
		}
	}()
	receipts, err := e.Submit(t.Context(), slices.Repeat([]engine.Request{{Type: "tick"}}, 20)...)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range receipts {
		if err := e.WaitTasks(t.Context(), r.ID); err != nil {
			t.Fatal(err)
		}
	}
	if len(added) != len(receipts) {
		t.Errorf("%d tasks added others, of %d", len(added), len(receipts))
	}
	for id, parent := range added {
		if err := e.WaitTasks(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		home := a.Store
		if s.DatabaseOf(parent.Shard()) == 1 {
			home = b.Store
		}
		if _, err := home.Get(t.Context(), id); err != nil {
			t.Errorf("it is not where its parent is: %v", err)
		}
	}
	for _, payload := range []string{"key", "id"} {
		receipts, err := e.Submit(t.Context(), engine.Request{Type: "tick", Payload: []byte(payload)})
		if err != nil {
			t.Fatal(err)
		}
		if err := e.WaitTasks(t.Context(), receipts[0].ID); err != nil {
			t.Fatal(err)
		}
		if got, err := e.Get(t.Context(), receipts[0].ID); err != nil || got.State != task.Done {
			t.Errorf("%s: it is %+v, %v", payload, got, err)
		}
	}
}
