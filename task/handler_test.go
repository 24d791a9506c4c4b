package task_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taskengine/taskengine/task"
)

var errCause = errors.New("the cause")

func TestAVerdictIsWhatTheHandlerAskedFor(t *testing.T) {
	at := start.Add(time.Hour)
	const policy = -1 // the policy's delay
	cases := []struct {
		name string
		err  error
		want task.Verdict
	}{
		{"nil finishes", nil, task.Verdict{Outcome: task.Completed, Result: []byte("r")}},
		{"a plain error is retried", errCause, task.Verdict{Outcome: task.Errored, Error: "the cause", Delay: policy}},
		{"Permanent gives up", task.Permanent(errCause), task.Verdict{Outcome: task.Errored, Error: "the cause", Delay: policy, GiveUp: true}},
		{"EndAs ends", task.WithClass("c", task.EndAs(task.Cancelled, errCause)), task.Verdict{Outcome: task.Errored, Error: "the cause", Delay: policy, GiveUp: true, Next: task.Cancelled, Class: "c"}},
		{"Permanent after EndAs asks a person", task.Permanent(task.EndAs(task.Failed, errCause)), task.Verdict{Outcome: task.Errored, Error: "the cause", Delay: policy, GiveUp: true}},
		{"RetryIn sets the delay", task.RetryIn(time.Minute, errCause), task.Verdict{Outcome: task.Errored, Error: "the cause", Delay: time.Minute}},
		{"RetryIn zero is at once", task.RetryIn(0, errCause), task.Verdict{Outcome: task.Errored, Error: "the cause"}},
		{"RetryIn before now is at once", task.RetryIn(-time.Hour, errCause), task.Verdict{Outcome: task.Errored, Error: "the cause"}},
		{"RetryAfter sets the shortest delay", task.RetryAfter(time.Minute, errCause), task.Verdict{Outcome: task.Errored, Error: "the cause", Delay: time.Minute, AtLeast: true}},
		{"RetryAfter before now leaves it to the policy", task.RetryAfter(-time.Hour, errCause), task.Verdict{Outcome: task.Errored, Error: "the cause", AtLeast: true}},
		{"the last of RetryIn and RetryAfter counts", task.RetryIn(time.Hour, task.RetryAfter(time.Minute, errCause)), task.Verdict{Outcome: task.Errored, Error: "the cause", Delay: time.Hour}},
		{"InDoubt leaves the retry as it is", task.InDoubt(task.RetryIn(time.Minute, errCause)), task.Verdict{Outcome: task.Errored, Error: "the cause", Delay: time.Minute, InDoubt: true}},
		{"InDoubt outlasts other marks", task.WithClass("busy", task.InDoubt(errCause)), task.Verdict{Outcome: task.Errored, Error: "the cause", Delay: policy, Class: "busy", InDoubt: true}},
		{"WithClass names the kind", task.WithClass("busy", errCause), task.Verdict{Outcome: task.Errored, Error: "the cause", Delay: policy, Class: "busy"}},
		{"Snooze comes back later", task.Snooze(time.Minute), task.Verdict{Outcome: task.Snoozed, Delay: time.Minute}},
		{"Snooze before now is at once", task.Snooze(-1), task.Verdict{Outcome: task.Snoozed}},
		{"Again finishes and recurs", task.Again(at), task.Verdict{Outcome: task.Completed, Result: []byte("r"), Again: at}},
		{"Again with options says what the task has then", task.Again(at, task.WithPayload([]byte("p")), task.WithCheckpoint([]byte("c"))), task.Verdict{
			Outcome: task.Completed, Result: []byte("r"), Again: at, Rerun: &task.Rerun{Payload: new([]byte("p")), Checkpoint: new([]byte("c"))},
		}},
		{"a class on Again keeps its options", task.WithClass("c", task.Again(at, task.WithPayload(nil))), task.Verdict{
			Outcome: task.Completed, Result: []byte("r"), Again: at, Rerun: &task.Rerun{Payload: new([]byte(nil))},
		}},
		{"Ended is an error if the attempt has not ended", task.Ended(), task.Verdict{
			Outcome: task.Errored, Delay: policy, InDoubt: true, Ended: true,
			Error: "the handler says that it has ended its attempt in a transaction, and the attempt has not ended: the transaction did not commit",
		}},
		{"ErrCrashed is a crash", fmt.Errorf("pid 7: %w", task.ErrCrashed), task.Verdict{Outcome: task.Crashed, Error: "pid 7: the handler's process died", Delay: policy}},
		{"ErrInterrupted is an interruption", fmt.Errorf("pool: %w", task.ErrInterrupted), task.Verdict{Outcome: task.Interrupted, Error: "pool: the attempt was interrupted", Delay: policy}},
		{"ErrUnavailable hands back", fmt.Errorf("pool: %w", task.ErrUnavailable), task.Verdict{Outcome: task.HandedBack, Error: "pool: the handler is not available", Delay: policy}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, task.VerdictOf([]byte("r"), c.err)); diff != "" {
				t.Errorf("(-want +got) %s", diff)
			}
			if c.err == nil {
				return
			}
			wrapped := fmt.Errorf("mail: %w", c.err)
			want := c.want
			if want.Error != "" {
				want.Error = "mail: " + want.Error
			}
			if diff := cmp.Diff(want, task.VerdictOf([]byte("r"), wrapped)); diff != "" {
				t.Errorf("wrapped (-want +got) %s", diff)
			}
		})
	}
}

func TestMarksCombineInAnyOrder(t *testing.T) {
	class := func(err error) error { return task.WithClass("busy", err) }
	delay := func(err error) error { return task.RetryIn(time.Minute, err) }
	wrap := func(err error) error { return fmt.Errorf("mail: %w", err) }
	type mark = func(error) error
	retried := task.Verdict{Outcome: task.Errored, Class: "busy", Delay: time.Minute}
	given := task.Verdict{Outcome: task.Errored, Class: "busy", Delay: -1, GiveUp: true}
	for name, c := range map[string]struct {
		marks []mark // the innermost first
		want  task.Verdict
	}{
		"class, delay":              {[]mark{class, delay}, retried},
		"delay, class":              {[]mark{delay, class}, retried},
		"delay, wrapped, class":     {[]mark{delay, wrap, class}, retried},
		"class, permanent":          {[]mark{class, task.Permanent}, given},
		"permanent, class":          {[]mark{task.Permanent, class}, given},
		"delay, class, permanent":   {[]mark{delay, class, task.Permanent}, given},
		"delay, permanent, class":   {[]mark{delay, task.Permanent, class}, given},
		"class, wrapped, delay":     {[]mark{class, wrap, delay}, retried},
		"the outer wish wins":       {[]mark{class, task.Permanent, delay}, retried},
		"the outer class wins":      {[]mark{func(err error) error { return task.WithClass("old", err) }, delay, class}, retried},
		"permanent twice is as one": {[]mark{class, task.Permanent, task.Permanent}, given},
	} {
		t.Run(name, func(t *testing.T) {
			err := errCause
			for _, m := range c.marks {
				err = m(err)
			}
			got := task.VerdictOf(nil, err)
			if got.Error != err.Error() || !errors.Is(err, errCause) {
				t.Errorf("the error became %q, of %q", got.Error, err)
			}
			got.Error = ""
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got) %s", diff)
			}
		})
	}
}

func TestAMarkedErrorIsStillItself(t *testing.T) {
	for _, err := range []error{
		task.Permanent(errCause), task.RetryIn(1, errCause), task.WithClass("c", errCause),
		task.Permanent(task.WithClass("c", task.RetryIn(1, errCause))),
	} {
		if !errors.Is(err, errCause) || err.Error() != errCause.Error() {
			t.Errorf("%v no longer is %v", err, errCause)
		}
	}
}

func TestMarkingNoErrorStaysNoError(t *testing.T) {
	for name, err := range map[string]error{
		"Permanent": task.Permanent(nil), "RetryIn": task.RetryIn(1, nil), "WithClass": task.WithClass("c", nil),
	} {
		if err != nil {
			t.Errorf("%s(nil) is %v", name, err)
		}
	}
}

func TestAClassOnASnoozeIsStillASnooze(t *testing.T) {
	got := task.VerdictOf(nil, task.WithClass("c", task.Snooze(time.Minute)))
	if got.Outcome != task.Snoozed || got.Delay != time.Minute {
		t.Errorf("the verdict is %+v", got)
	}
}

func TestAFunctionIsAHandler(t *testing.T) {
	var h task.Handler = task.HandlerFunc(func(_ context.Context, t *task.Task) ([]byte, error) { return t.Payload, errCause })
	if result, err := h.Handle(t.Context(), full()); string(result) != "p" || !errors.Is(err, errCause) {
		t.Errorf("Handle returned %q and %v", result, err)
	}
}
