package taskenginetest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/taskenginetest"
)

// order is what a shop tells its warehouse.
type order struct {
	Number int
	Items  []string
}

// checkout is the code under test: it submits a task.
func checkout(ctx context.Context, e *engine.Engine, number int, items ...string) error {
	payload := fmt.Appendf(nil, `{"number": %d, "items": ["%s"]}`, number, strings.Join(items, `", "`))
	_, err := e.Submit(ctx, engine.Request{Type: "ship", Key: fmt.Sprint("order ", number), Payload: payload})
	return err
}

func TestWhatAProgramSubmitsIsLookedAt(t *testing.T) {
	e := taskenginetest.New(t, engine.Config{})
	for range 2 { // the customer pressed the button twice
		if err := checkout(t.Context(), e.Engine, 17, "tea", "cups"); err != nil {
			t.Fatal(err)
		}
	}
	got := taskenginetest.Payload[order](t, e.Only("ship"))
	if got.Number != 17 || len(got.Items) != 2 {
		t.Errorf("the order is %+v", got)
	}
	if all := e.Tasks("mail"); len(all) > 0 {
		t.Errorf("there are mails: %v", all)
	}
}

func TestHandlersRunAndRetriesTakeNoTime(t *testing.T) {
	attempts, ship := 0, policy.DefaultType()
	ship.Retry = policy.Retry{Max: 3, Backoff: policy.Backoff{Kind: policy.Fixed, Delays: []time.Duration{time.Hour}}}
	c := engine.Config{
		Policies: policy.Set{Types: map[string]policy.Type{"ship": ship}},
		Handlers: map[string]task.Handler{"ship": task.HandlerFunc(func(context.Context, *task.Task) ([]byte, error) {
			if attempts++; attempts < 3 {
				return nil, errors.New("the warehouse is closed")
			}
			return []byte("shipped"), nil
		})},
	}
	taskenginetest.Run(t, c, func(t *testing.T, e *taskenginetest.Engine) {
		begin := time.Now()
		if err := checkout(t.Context(), e.Engine, 17); err != nil {
			t.Fatal(err)
		}
		e.Advance(time.Minute)
		if got := e.Only("ship"); got.State != task.Waiting || got.Attempt != 1 {
			t.Errorf("after a minute it is %v after attempt %d", got.State, got.Attempt)
		}
		if got := e.Wait()[0]; got.State != task.Done || string(got.Result) != "shipped" {
			t.Errorf("it is %v with %q", got.State, got.Result)
		}
		if took := time.Since(begin); took < 2*time.Hour {
			t.Errorf("two retries took %v", took)
		}
	})
}

func TestTasksOutliveARestart(t *testing.T) {
	c := engine.Config{Handlers: map[string]task.Handler{"ship": task.HandlerFunc(func(context.Context, *task.Task) ([]byte, error) { return nil, nil })}}
	taskenginetest.Run(t, c, func(t *testing.T, e *taskenginetest.Engine) {
		in, err := e.Submit(t.Context(), engine.Request{Type: "ship", At: time.Now().Add(time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		e.Restart(24 * time.Hour)
		if got := e.Wait(in[0].ID)[0]; got.State != task.Done {
			t.Errorf("it is %v", got.State)
		}
	})
}

func TestTasksAreInTheOrderOfTheirSubmits(t *testing.T) {
	e := taskenginetest.New(t, engine.Config{})
	const tasks = 2500 // several pages
	for i := range tasks {
		if _, err := e.Submit(t.Context(), engine.Request{Type: []string{"a", "b"}[i%2], Payload: fmt.Append(nil, i)}); err != nil {
			t.Fatal(err)
		}
	}
	all := e.Tasks("")
	if len(all) != tasks || len(e.Tasks("a")) != tasks/2 {
		t.Fatalf("there are %d tasks, %d of type a", len(all), len(e.Tasks("a")))
	}
	for i, tk := range all {
		if taskenginetest.Payload[int](t, tk) != i {
			t.Fatalf("task %d has the payload %s", i, tk.Payload)
		}
	}
}
