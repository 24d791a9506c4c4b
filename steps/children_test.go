package steps_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/steps"
	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/taskenginetest"
)

// A user resumes a flow while its children run, and then cancels one of them.
func TestAFlowLearnsHowItsChildrenHaveEnded(t *testing.T) {
	ran := 0
	order := steps.Handler(steps.Options{Version: 1}, func(ctx context.Context, f *steps.Flow) ([]byte, error) {
		if _, err := steps.Do(ctx, f, "first", func(context.Context) (int, error) { ran++; return ran, nil }); err != nil {
			return nil, err
		}
		c, err := f.RunChildren(ctx, "page", task.Request{Type: "page"}, task.Request{Type: "page", At: time.Now().Add(time.Hour)})
		if err != nil {
			return nil, err
		}
		none, err := f.RunChildren(ctx, "none")
		return fmt.Appendf(nil, "%d done, %d cancelled of %d; %d", c.Done, c.Cancelled, c.Count, none.Count), err
	})
	c := engine.Config{
		Policies: policy.Set{Slots: 10, Types: map[string]policy.Type{"order": policy.DefaultType(), "page": policy.DefaultType()}},
		Handlers: map[string]task.Handler{
			"order": order, "page": task.HandlerFunc(func(context.Context, *task.Task) ([]byte, error) { return nil, nil }),
		},
	}
	taskenginetest.Run(t, c, func(t *testing.T, e *taskenginetest.Engine) {
		receipts, err := e.Submit(t.Context(), engine.Request{Type: "order"})
		if err != nil {
			t.Fatal(err)
		}
		id := receipts[0].ID
		e.Advance(time.Minute)
		if _, err := e.Resume(t.Context(), task.Ref{ID: id}); err != nil {
			t.Fatal(err)
		}
		e.Advance(time.Minute)
		if got, err := e.Get(t.Context(), id); err != nil || got.State != task.Waiting {
			t.Fatalf("after it was resumed the flow is %v, %v", got, err)
		}
		last := steps.Children{Parent: id, Name: "page"}
		if _, err := e.Cancel(t.Context(), task.Ref{ID: last.ID(1)}, ""); err != nil {
			t.Fatal(err)
		}
		e.Advance(time.Minute)
		ends(t, e, id, task.Done, "1 done, 1 cancelled of 2; 0")
	})
	if ran != 1 {
		t.Errorf("the first step ran %d times", ran)
	}
}
