package steps_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/steps"
	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/taskenginetest"
)

func send(t *testing.T, e *taskenginetest.Engine, id task.ID, name, data string, keep bool) {
	t.Helper()
	if _, _, err := e.Signal(t.Context(), engine.Signal{To: id, Name: name, Data: []byte(data), Keep: keep}); err != nil {
		t.Fatal(err)
	}
}

// order waits for a payment, then for a person, and fails once behind each wait.
func order(ran *[]string) flow {
	attempts := 0
	return func(ctx context.Context, f *steps.Flow) ([]byte, error) {
		attempts++
		if _, err := steps.Do(ctx, f, "invoice", logged(ran, "invoice", 1, nil)); err != nil {
			return nil, err
		}
		paid, err := f.WaitFor(ctx, 48*time.Hour, "paid", "refused")
		if err != nil {
			return nil, fmt.Errorf("not paid: %w", err)
		}
		if attempts == 2 {
			return nil, errors.New("no answer")
		}
		if _, err := steps.Do(ctx, f, "reserve", logged(ran, "reserve", 1, nil)); err != nil {
			return nil, err
		}
		if err := f.Sleep(ctx, time.Hour); err != nil {
			return nil, err
		}
		approved, err := f.WaitFor(ctx, 0, "approved")
		if err != nil {
			return nil, err
		}
		if attempts == 5 {
			panic("behind the last wait")
		}
		_, err = steps.Do(ctx, f, "ship", logged(ran, "ship", 1, nil))
		return fmt.Appendf(nil, "%v %s %s, %v %s", paid.By, paid.Signal.Name, paid.Signal.Data, approved.By, approved.Signal.Data), err
	}
}

func TestAFlowWaits(t *testing.T) {
	var ran []string
	run(t, order(&ran), func(t *testing.T, e *taskenginetest.Engine, id task.ID) {
		e.Advance(time.Hour)
		send(t, e, id, "paid", "42 EUR", false)
		e.Advance(90 * time.Minute)
		send(t, e, id, "approved", "by Ann", false)
		ends(t, e, id, task.Done, "signal paid 42 EUR, signal by Ann")
	})
	if want := []string{"invoice", "reserve", "ship"}; !slices.Equal(ran, want) {
		t.Errorf("the steps %v ran, want %v", ran, want)
	}
}

func TestSignalsThatComeBeforeAFlowWaits(t *testing.T) {
	var ran []string
	run(t, order(&ran), func(t *testing.T, e *taskenginetest.Engine, id task.ID) {
		send(t, e, id, "approved", "by Ann", true)
		e.Advance(time.Minute)
		send(t, e, id, "paid", "42 EUR", true)
		ends(t, e, id, task.Done, "signal paid 42 EUR, signal by Ann")
	})
}

func TestAWaitEndsByItsTimeoutCountedFromTheFirstAttempt(t *testing.T) {
	var ran []string
	run(t, order(&ran), func(t *testing.T, e *taskenginetest.Engine, id task.ID) {
		start := time.Now()
		e.Advance(47 * time.Hour)
		e.Restart(30 * time.Minute)
		if got, err := e.Get(t.Context(), id); err != nil || got.State != task.Waiting {
			t.Fatalf("the task is %v (%v), want waiting", got, err)
		}
		e.Advance(31 * time.Minute)
		if len(ran) == 1 {
			e.Advance(time.Minute) // the attempt that fails
		}
		if len(ran) != 2 {
			t.Errorf("after %v the steps %v ran", time.Since(start), ran)
		}
		e.Advance(2 * time.Hour)
		if _, err := e.Resume(t.Context(), task.Ref{ID: id}); err != nil {
			t.Fatal(err)
		}
		ends(t, e, id, task.Done, "timeout  , user")
	})
}

// The error of a wait ends the attempt also if the function loses it.
func TestAFunctionThatGoesOnWithoutWaitingWaits(t *testing.T) {
	var ran []string
	run(t, func(ctx context.Context, f *steps.Flow) ([]byte, error) {
		if _, err := f.WaitFor(ctx, 0, "paid"); err != nil {
			if _, err := steps.Do(ctx, f, "refund", logged(&ran, "refund", 1, nil)); err == nil {
				t.Error("a step ran while the task waits")
			}
			return []byte("not paid"), nil
		}
		return []byte("paid"), nil
	}, func(t *testing.T, e *taskenginetest.Engine, id task.ID) {
		e.Advance(time.Hour)
		send(t, e, id, "paid", "", false)
		ends(t, e, id, task.Done, "paid")
	})
	if len(ran) > 0 {
		t.Errorf("the steps %v ran", ran)
	}
}

func TestAWaitForNoNameEndsTheTask(t *testing.T) {
	run(t, func(ctx context.Context, f *steps.Flow) ([]byte, error) {
		_, err := f.WaitFor(ctx, 0)
		return nil, err
	}, func(t *testing.T, e *taskenginetest.Engine, id task.ID) { ends(t, e, id, task.Error, "name") })
}
