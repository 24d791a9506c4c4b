package slicer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/timeslice"
)

// SplitClass is the class of the errors by which a handler says that its slice has too much for one attempt: the slice is divided
// into two halves.
const SplitClass = "split"

// halves is the name of the children of a slice that was split.
const halves = "halves"

// Split returns the error of a handler whose slice has too much for one attempt.
func Split() error {
	return task.WithClass(SplitClass, errors.New("the slice has too much for one attempt"))
}

// SlicePolicy returns the policy of a type of slices. Each slice has its own number of retries.
func SlicePolicy(p policy.Type) policy.Type {
	p.Retry.Max = policy.Forever
	return p
}

// Handler returns a handler for the tasks of a type: for slices, inner is called with the timeout of the slice, is retried as the
// slice says, and may split it. Other tasks are those of inner.
func Handler(inner task.Handler) task.Handler {
	return task.HandlerFunc(func(ctx context.Context, t *task.Task) ([]byte, error) {
		w, ok, err := timeslice.WorkOf(t)
		switch {
		case !ok:
			return inner.Handle(ctx, t)
		case err != nil:
			return nil, task.Permanent(err)
		}
		if set := t.Children.Set(halves); set != nil {
			return joined(set)
		}
		return fetch(ctx, inner, t, w)
	})
}

// joined is the end of a slice that was split, unless it was resumed by hand while it waits for its parts.
func joined(set *task.ChildSet) ([]byte, error) {
	if set.Ended() < set.Added {
		return nil, task.WaitForChildren([]task.ChildrenWait{{Name: halves}}, time.Time{})
	}
	if lost := set.Failed + set.Cancelled; lost > 0 {
		return nil, task.EndAs(task.Failed, fmt.Errorf("%d of the %d parts of the slice were given up by hand", lost, set.Added))
	}
	return nil, nil
}

// fetch has inner do the work of a slice, or of a part of one.
func fetch(ctx context.Context, inner task.Handler, t *task.Task, w timeslice.Work) ([]byte, error) {
	result, err := attempt(ctx, inner, t, w)
	if err == nil {
		return result, nil
	}
	v := task.VerdictOf(result, err)
	switch {
	case v.Outcome != task.Errored || v.Ended:
		return result, err
	case v.Class == SplitClass:
		return split(ctx, inner, t, w)
	case v.GiveUp:
		return nil, err
	case int(t.Attempt) > w.Retries:
		return nil, task.Permanent(err)
	}
	delay := time.Duration(t.Attempt) * time.Duration(w.RetryInterval)
	return nil, task.RetryIn(max(delay, v.Delay), err)
}

// attempt calls inner with the timeout of the slice.
func attempt(ctx context.Context, inner task.Handler, t *task.Task, w timeslice.Work) ([]byte, error) {
	timeout := time.Duration(w.Timeout)
	if timeout <= 0 {
		return inner.Handle(ctx, t)
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	result, err := inner.Handle(limited, t)
	if err != nil && ctx.Err() == nil && errors.Is(limited.Err(), context.DeadlineExceeded) && task.VerdictOf(result, err).Class == "" {
		err = task.WithClass("timeout", fmt.Errorf("the slice has a timeout of %v: %w", timeout, err))
	}
	return result, err
}

// split divides a slice. Its halves are tasks that run at the same time, and the slice waits for them. If slices run in order, the
// halves are fetched one after the other in this attempt, because later slices go on when this one waits.
func split(ctx context.Context, inner task.Handler, t *task.Task, w timeslice.Work) ([]byte, error) {
	parts, ok := w.Halves()
	if !ok {
		return nil, task.Permanent(task.WithClass(SplitClass, fmt.Errorf(
			"the handler splits the slice from %s to %s, and its halves would be shorter than least_part, which is %v; have the handler fetch it in pages, or give the platform a shorter least_part for later slices",
			w.From.Format(time.RFC3339Nano), w.End.Format(time.RFC3339Nano), max(w.LeastPart, timeslice.Span(time.Millisecond)))))
	}
	if !w.InOrder {
		var requests []task.Request
		for _, part := range parts {
			requests = append(requests, task.Request{Type: t.Type, Headers: map[string]string{timeslice.Header: t.Headers[timeslice.Header]}, Payload: part.Encode()})
		}
		return nil, task.WaitForChildren([]task.ChildrenWait{{Name: halves}}, time.Time{}, task.WithChildren(halves, requests...))
	}
	for _, part := range parts {
		of := *t
		of.Payload = part.Encode()
		if result, err := fetch(ctx, inner, &of, part); err != nil {
			return result, err
		}
	}
	return nil, nil
}
