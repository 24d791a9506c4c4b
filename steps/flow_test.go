package steps_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/steps"
	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/taskenginetest"
)

// flow is the function of a handler.
type flow func(ctx context.Context, f *steps.Flow) ([]byte, error)

// run runs a task of a flow in fake time. Its type allows three attempts.
func run(t *testing.T, fn flow, test func(t *testing.T, e *taskenginetest.Engine, id task.ID)) {
	t.Helper()
	runHandler(t, steps.Handler(steps.Options{Version: 1}, fn), test)
}

func runHandler(t *testing.T, h task.Handler, test func(t *testing.T, e *taskenginetest.Engine, id task.ID)) {
	t.Helper()
	p := policy.DefaultType()
	p.Retry.Max = 3
	c := engine.Config{
		Policies: policy.Set{Slots: 10, Types: map[string]policy.Type{"order": p}},
		Handlers: map[string]task.Handler{"order": h},
	}
	taskenginetest.Run(t, c, func(t *testing.T, e *taskenginetest.Engine) {
		receipts, err := e.Submit(t.Context(), engine.Request{Type: "order"})
		if err != nil {
			t.Fatal(err)
		}
		test(t, e, receipts[0].ID)
	})
}

// ends checks how the task ends.
func ends(t *testing.T, e *taskenginetest.Engine, id task.ID, want task.State, text string) *task.Task {
	t.Helper()
	got := e.Wait(id)[0]
	if said := string(got.Result) + got.LastError; got.State != want || !strings.Contains(said, text) {
		t.Fatalf("the task is %v: %q; want %v: %q", got.State, said, want, text)
	}
	return got
}

// logged returns the work of a step, which notes that it runs.
func logged[T any](log *[]string, name string, result T, err error) func(context.Context) (T, error) {
	return func(context.Context) (T, error) {
		*log = append(*log, name)
		return result, err
	}
}

func TestAStepThatIsDoneIsNotRunAgain(t *testing.T) {
	var ran, keys []string
	attempts := 0
	run(t, func(ctx context.Context, f *steps.Flow) ([]byte, error) {
		attempts++
		charge, err := steps.Do(ctx, f, "charge", func(ctx context.Context) (string, error) {
			keys = append(keys, f.Key())
			return logged(&ran, "charge", fmt.Sprint("charge ", attempts), nil)(ctx)
		})
		if err != nil {
			return nil, err
		}
		place, err := steps.Do(ctx, f, "reserve", func(ctx context.Context) (int, error) {
			keys = append(keys, f.Key())
			if attempts == 1 {
				return 0, errors.New("no answer")
			}
			return logged(&ran, "reserve", 7, nil)(ctx)
		})
		if err != nil {
			return nil, err
		}
		if attempts == 2 {
			panic("at the end of the second attempt")
		}
		return fmt.Appendf(nil, "%s, place %d", charge, place), nil
	}, func(t *testing.T, e *taskenginetest.Engine, id task.ID) {
		ends(t, e, id, task.Done, "charge 1, place 7")
	})
	if want := []string{"charge", "reserve"}; !slices.Equal(ran, want) {
		t.Errorf("the steps %v ran, want %v", ran, want)
	}
	if len(keys) != 3 || keys[0] == keys[1] || keys[1] != keys[2] {
		t.Errorf("the keys of the steps were %v: want the same in each attempt, and different ones of different steps", keys)
	}
}

func TestAResultIsTheSameTheFirstTime(t *testing.T) {
	type money struct {
		Cents  int
		secret int
	}
	run(t, func(ctx context.Context, f *steps.Flow) ([]byte, error) {
		m, err := steps.Do(ctx, f, "charge", func(context.Context) (money, error) { return money{5, 7}, nil })
		return fmt.Append(nil, m), err
	}, func(t *testing.T, e *taskenginetest.Engine, id task.ID) { ends(t, e, id, task.Done, "{5 0}") })
}

func TestStepsThatDifferFromThoseThatRanEndTheTask(t *testing.T) {
	do := func(names ...string) flow {
		return func(ctx context.Context, f *steps.Flow) ([]byte, error) {
			for _, name := range names {
				if _, err := steps.Do(ctx, f, name, func(context.Context) (int, error) { return 1, nil }); err != nil {
					return nil, err
				}
			}
			return nil, errors.New("no answer")
		}
	}
	number := func(ctx context.Context, f *steps.Flow) ([]byte, error) {
		_, err := steps.Do(ctx, f, "charge", func(context.Context) (string, error) { return "", nil })
		return nil, err
	}
	wait := func(ctx context.Context, f *steps.Flow) ([]byte, error) {
		_, err := f.WaitFor(ctx, time.Hour, "charge")
		return nil, err
	}
	for _, c := range []struct {
		name   string
		second flow
		want   string
	}{
		{"another step", do("ship"), `step 1 of the task was "charge" (do) when it ran, and is "ship" (do) in the code of version 1`},
		{"another order", do("reserve", "charge"), `step 1 of the task was "charge"`},
		{"a wait", wait, `is "charge" (wait)`},
		{"a step less", func(context.Context, *steps.Flow) ([]byte, error) { return nil, nil }, `has ended after 0 steps, and the task has done 2: "charge" comes next`},
		{"another result", number, `step "charge" has a result that is no string`},
		{"an error that the function hides", func(ctx context.Context, f *steps.Flow) ([]byte, error) {
			_, _ = do("ship")(ctx, f)
			return []byte("fine"), nil
		}, `step 1 of the task was "charge"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			attempts := 0
			run(t, func(ctx context.Context, f *steps.Flow) ([]byte, error) {
				if attempts++; attempts == 1 {
					return do("charge", "reserve")(ctx, f)
				}
				return c.second(ctx, f)
			}, func(t *testing.T, e *taskenginetest.Engine, id task.ID) { ends(t, e, id, task.Error, c.want) })
			if attempts != 2 {
				t.Errorf("there were %d attempts, want 2: another attempt does not mend it", attempts)
			}
		})
	}
}

func TestATaskKeepsTheVersionWithWhichItBegan(t *testing.T) {
	for _, c := range []struct {
		began, goes steps.Options
		state       task.State
		want        string
	}{
		{steps.Options{Version: 1}, steps.Options{Version: 3, Oldest: 1}, task.Done, "began with 1"},
		{steps.Options{Version: 2}, steps.Options{Version: 3, Oldest: 1}, task.Done, "began with 2"},
		{steps.Options{Version: 1}, steps.Options{Version: 3, Oldest: 2}, task.Error, "began with version 1 of the code, and this code knows the steps since version 2"},
		{steps.Options{Version: 1}, steps.Options{Version: 2}, task.Error, "knows the steps since version 2"},
		{steps.Options{Version: 2}, steps.Options{Version: 1}, task.Error, "began with version 2 of the code, and this program has version 1"},
	} {
		attempts := 0
		fn := func(ctx context.Context, f *steps.Flow) ([]byte, error) {
			if _, err := steps.Do(ctx, f, "charge", func(context.Context) (int, error) { return 1, nil }); err != nil {
				return nil, err
			}
			if attempts == 1 {
				return nil, errors.New("no answer")
			}
			return fmt.Append(nil, "began with ", f.Version()), nil
		}
		began, goes := steps.Handler(c.began, fn), steps.Handler(c.goes, fn)
		h := task.HandlerFunc(func(ctx context.Context, t *task.Task) ([]byte, error) {
			if attempts++; attempts == 1 {
				return began.Handle(ctx, t)
			}
			return goes.Handle(ctx, t)
		})
		runHandler(t, h, func(t *testing.T, e *taskenginetest.Engine, id task.ID) { ends(t, e, id, c.state, c.want) })
	}
}

// refund charges, fails to reserve, and compensates in the same attempt or later ones.
func TestAFailureThatTheFunctionTreatsIsKept(t *testing.T) {
	var ran []string
	attempts := 0
	run(t, func(ctx context.Context, f *steps.Flow) ([]byte, error) {
		attempts++
		if _, err := steps.Do(ctx, f, "charge", logged(&ran, "charge", 1, nil)); err != nil {
			return nil, err
		}
		_, failed := steps.Do(ctx, f, "reserve", logged(&ran, "reserve", 0, task.Permanent(task.WithClass("sold_out", fmt.Errorf("none is left for attempt %d", attempts)))))
		if failed == nil {
			return nil, errors.New("want an error")
		}
		if _, err := steps.Do(ctx, f, "refund", logged(&ran, "refund", 1, nil)); err != nil {
			return nil, err
		}
		if attempts < 3 {
			return nil, errors.New("no answer")
		}
		var kept *steps.Error
		if !errors.As(failed, &kept) || *kept != (steps.Error{Message: "none is left for attempt 1", Class: "sold_out", Permanent: true}) {
			t.Errorf("the third attempt has the error %#v", failed)
		}
		return nil, failed
	}, func(t *testing.T, e *taskenginetest.Engine, id task.ID) {
		ends(t, e, id, task.Error, "none is left for attempt 1")
	})
	if want := []string{"charge", "reserve", "refund"}; !slices.Equal(ran, want) {
		t.Errorf("the steps %v ran, want %v", ran, want)
	}
}

// A node that stops is no reason to give money back.
func TestNoStepRunsWhenTheContextHasEnded(t *testing.T) {
	var ran []string
	attempts := 0
	ctx, cancel := context.WithCancelCause(t.Context())
	h := steps.Handler(steps.Options{Version: 1}, func(ctx context.Context, f *steps.Flow) ([]byte, error) {
		_, err := steps.Do(ctx, f, "reserve", func(ctx context.Context) (int, error) {
			if attempts++; attempts > 1 {
				return 1, nil
			}
			cancel(errors.New("the node stops"))
			return 0, errors.New("the connection was closed")
		})
		if err != nil {
			if _, err := steps.Do(ctx, f, "refund", logged(&ran, "refund", 1, nil)); err == nil {
				t.Error("a step ran though the context has ended")
			}
			return []byte("refunded"), nil
		}
		return []byte("reserved"), nil
	})
	if result, err := h.Handle(ctx, &task.Task{}); err == nil || !strings.Contains(err.Error(), "the connection was closed") {
		t.Errorf("got %q, %v: want the error of the step", result, err)
	}
	if result, err := h.Handle(ctx, &task.Task{}); err == nil || err.Error() != "the node stops" {
		t.Errorf("got %q, %v: want the cause", result, err)
	}
	if len(ran) > 0 {
		t.Errorf("the steps %v ran", ran)
	}
}

func TestResultsThatAreTooLargeEndTheTask(t *testing.T) {
	attempts := 0
	run(t, func(ctx context.Context, f *steps.Flow) ([]byte, error) {
		attempts++
		for i := range 3 {
			if _, err := steps.Do(ctx, f, fmt.Sprint("read ", i), func(context.Context) (string, error) { return strings.Repeat("x", 400_000), nil }); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}, func(t *testing.T, e *taskenginetest.Engine, id task.ID) {
		ends(t, e, id, task.Error, `keep step "read 2": the results of 3 steps have 1200`)
	})
	if attempts != 1 {
		t.Errorf("there were %d attempts, want 1", attempts)
	}
}

func TestACheckpointOfAnotherKindOfHandlerEndsTheTask(t *testing.T) {
	h := steps.Handler(steps.Options{Version: 1}, func(context.Context, *steps.Flow) ([]byte, error) { return nil, nil })
	for checkpoint, want := range map[string]string{
		"row 17": "is not one of steps", "{}": "is not one of steps", `{"steps":2}`: "have the form 2, and this program reads 1",
		`{"steps":1,"version":1,"done":[{"kind":"do"`: "is not one of steps",
	} {
		_, err := h.Handle(t.Context(), &task.Task{Notes: task.NewNotes(task.Progress{}, []byte(checkpoint))})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", checkpoint, err, want)
		}
	}
}

func TestVersionsThatCannotBeAreRefused(t *testing.T) {
	for _, o := range []steps.Options{{}, {Version: -1}, {Version: 1, Oldest: 2}, {Version: 1, Oldest: -1}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%+v is taken", o)
				}
			}()
			steps.Handler(o, nil)
		}()
	}
}

func TestEachOccurrenceOfARecurringTaskHasItsOwnSteps(t *testing.T) {
	var ran, keys []string
	run(t, func(ctx context.Context, f *steps.Flow) ([]byte, error) {
		n, err := steps.Do(ctx, f, "bill", func(context.Context) (int, error) {
			keys = append(keys, f.Key())
			ran = append(ran, string(f.Task.Payload))
			return len(ran), nil
		})
		if err != nil || n == 3 {
			return []byte("billed"), err
		}
		return nil, task.Again(time.Now().Add(24*time.Hour), task.WithPayload(fmt.Append(nil, "month ", n)))
	}, func(t *testing.T, e *taskenginetest.Engine, id task.ID) { ends(t, e, id, task.Done, "billed") })
	if want := []string{"", "month 1", "month 2"}; !slices.Equal(ran, want) {
		t.Errorf("it ran with the payloads %q, want %q", ran, want)
	}
	slices.Sort(keys)
	if len(slices.Compact(keys)) != 3 {
		t.Errorf("the keys of three occurrences were %v", keys)
	}
}

func TestAnOccurrenceSendsSignalsAndAddsTasks(t *testing.T) {
	h := steps.Handler(steps.Options{Version: 1}, func(context.Context, *steps.Flow) ([]byte, error) {
		return nil, task.Again(time.Now().Add(time.Hour), task.WithSignals(task.SignalRequest{Name: "paid"}), task.WithTasks(task.Request{Type: "mail"}),
			task.WithChildren("page", task.Request{Type: "page"}))
	})
	v := task.VerdictOf(h.Handle(t.Context(), &task.Task{}))
	if r := v.Rerun; r == nil || len(r.Signals) != 1 || r.Signals[0].Name != "paid" || len(r.Tasks) != 1 || len(r.Children) != 1 || r.Checkpoint == nil {
		t.Errorf("the verdict is %+v with %+v", v, r)
	}
	waits := []task.ChildrenWait{{Name: "mails"}}
	h = steps.Handler(steps.Options{Version: 1}, func(context.Context, *steps.Flow) ([]byte, error) {
		return nil, task.WaitForChildren(waits, time.Time{}, task.WithChildren("mails", task.Request{Type: "mail"}))
	})
	v = task.VerdictOf(h.Handle(t.Context(), &task.Task{}))
	if r := v.Rerun; r == nil || !slices.Equal(v.Children, waits) || len(r.Children) != 1 || r.Children[0].Name != "mails" || len(r.Children[0].Requests) != 1 {
		t.Errorf("the verdict is %+v with %+v", v, r)
	}
}
