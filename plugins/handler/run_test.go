package handler

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/plugins/internal/wire"
	"github.com/taskengine/taskengine/task"
)

var (
	errHost    = errors.New("the host asks for it")
	errSession = errors.New("the host is gone")
)

// The context of a run behaves as a context of the standard library, also if it is first used after it has ended.
func TestARunIsTheContextThatTheStandardLibraryMakes(t *testing.T) {
	const timeout = time.Second
	for name, c := range map[string]struct {
		deadline bool
		happens  func(stop, endSession func(error))
	}{
		"nothing":                         {happens: func(_, _ func(error)) {}},
		"nothing yet":                     {deadline: true, happens: func(_, _ func(error)) {}},
		"the deadline":                    {deadline: true, happens: func(_, _ func(error)) { time.Sleep(2 * timeout) }},
		"the host stops it":               {happens: func(stop, _ func(error)) { stop(errHost) }},
		"the host stops it twice":         {happens: func(stop, _ func(error)) { stop(errHost); stop(errSession) }},
		"the host stops it in time":       {deadline: true, happens: func(stop, _ func(error)) { stop(errHost); time.Sleep(2 * timeout) }},
		"the host stops it too late":      {deadline: true, happens: func(stop, _ func(error)) { time.Sleep(2 * timeout); stop(errHost) }},
		"the session ends":                {happens: func(_, end func(error)) { end(errSession) }},
		"the session ends in time":        {deadline: true, happens: func(_, end func(error)) { end(errSession); time.Sleep(2 * timeout) }},
		"the session ends after the host": {happens: func(stop, end func(error)) { stop(errHost); end(errSession) }},
		"the host stops it after that":    {happens: func(stop, end func(error)) { end(errSession); stop(errHost) }},
	} {
		for _, lookBefore := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				ends, endSession := context.WithCancelCause(context.Background())
				defer endSession(nil)
				w := &wire.Run{RunId: 1}
				std, stop := context.WithCancelCause(ends)
				defer stop(nil)
				if c.deadline {
					at := time.Now().Add(timeout)
					w.TimeLeft = timeout.Microseconds()
					var stopTimer context.CancelFunc
					std, stopTimer = context.WithDeadline(std, at)
					defer stopTimer()
				}
				r := newRun(w, nil, &session{ctx: ends})
				defer r.finish()
				if lookBefore {
					r.Done()
				}
				c.happens(func(cause error) { stop(cause); r.stop(cause) }, endSession)
				synctest.Wait()
				if got, want := look(r), look(std); got != want {
					t.Errorf("%s, looked at before: %t: it is %+v, want %+v", name, lookBefore, got, want)
				}
			})
		}
	}
}

// seen is what there is to see of a context.
type seen struct {
	err, cause  error
	done        bool
	deadline    time.Time
	hasDeadline bool
	derived     error // of a context that is derived from it
}

func look(ctx context.Context) seen {
	derived, cancel := context.WithCancel(ctx)
	defer cancel()
	s := seen{err: ctx.Err(), cause: context.Cause(ctx), derived: context.Cause(derived)}
	s.deadline, s.hasDeadline = ctx.Deadline()
	select {
	case <-ctx.Done():
		s.done = true
	default:
	}
	return s
}

// What a handler started and forgot must not outlive its run.
func TestAFinishedRunEnds(t *testing.T) {
	for _, lookBefore := range []bool{true, false} {
		r := newRun(&wire.Run{TimeLeft: time.Hour.Microseconds()}, nil, &session{ctx: context.Background()})
		if lookBefore {
			r.Done()
		}
		r.finish()
		if got := look(r); got.err != context.Canceled || !got.done || got.derived != context.Canceled {
			t.Errorf("looked at before: %t: %+v", lookBefore, got)
		}
	}
}

func TestTheContextOfARunCostsNothingUnlessItIsUsed(t *testing.T) {
	parent := &countingContext{Context: t.Context()}
	r := newRun(&wire.Run{RunId: 1, TimeLeft: 1}, nil, &session{ctx: parent})
	if _, ok := r.Deadline(); !ok {
		t.Error("it has no deadline")
	}
	r.finish()
	if parent.asked > 0 {
		t.Errorf("the session's context was asked %d times", parent.asked)
	}
}

// countingContext counts the contexts that are linked to it.
type countingContext struct {
	context.Context
	asked int
}

func (c *countingContext) Done() <-chan struct{} { c.asked++; return c.Context.Done() }

// An attempt that ends after its deadline may have been ended by it, and the host has not ended it yet.
func TestAnErrorAfterTheDeadlineIsInDoubt(t *testing.T) {
	for name, err := range map[string]error{
		"an error":            errors.New("x"),
		"a permanent one":     task.Permanent(errors.New("x")),
		"one with a delay":    task.RetryIn(time.Minute, errors.New("x")),
		"that of the context": context.DeadlineExceeded,
	} {
		synctest.Test(t, func(t *testing.T) {
			inDoubt := func(before func(*run)) bool {
				r := newRun(&wire.Run{TimeLeft: time.Second.Microseconds()}, nil, &session{ctx: t.Context(), terms: new(terms)})
				before(r)
				return finishOf(r, task.VerdictOf(nil, err), r.finish()).GetError().GetInDoubt()
			}
			if inDoubt(func(*run) {}) {
				t.Errorf("%s in time is in doubt", name)
			}
			if !inDoubt(func(*run) { time.Sleep(time.Second) }) {
				t.Errorf("%s after the deadline is not in doubt", name)
			}
			if !inDoubt(func(r *run) { r.stop(context.DeadlineExceeded) }) {
				t.Errorf("%s after a cancel for the deadline is not in doubt", name)
			}
			if inDoubt(func(r *run) { r.stop(context.Canceled) }) {
				t.Errorf("%s after another cancel is in doubt", name)
			}
		})
	}
}
