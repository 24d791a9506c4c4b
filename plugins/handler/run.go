package handler

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/taskengine/taskengine/plugins/internal/wire"
	"github.com/taskengine/taskengine/task"
)

// run is one call of a handler with its task. It is also the context of the call. Most handlers never use their context,
// so the context of the standard library behind it, with its timer, is created when it is first used.
type run struct {
	id       uint64 // on the stream
	handler  task.Handler
	task     task.Task // which the handler may change
	attempt  attempt
	deadline time.Time // by the clock of this machine, with a monotonic reading; zero if there is none
	session  *session
	terms    *terms  // of the host that sent the run
	reports  reports // guarded by the mutex of the session
	latest   reports // guarded by the mutex of the session: the newest progress and checkpoint, sent or not; only if the session keeps them
	stray    bool    // guarded by the mutex of the session: the node runs the task elsewhere, and the answer does not count

	checkpoints uint64   // guarded by the mutex of the session: the number of the newest checkpoint
	saving      []saving // guarded by the mutex of the session: checkpoints without an answer, oldest first

	checks uint64   // guarded by the mutex of the session: the number of the newest check
	asking []asking // guarded by the mutex of the session: checks without an answer

	reads   uint64    // guarded by the mutex of the session: the number of the newest read
	reading []reading // guarded by the mutex of the session: reads without an answer

	mu     sync.Mutex
	ctx    context.Context         // guarded by mu: nil until it is used
	end    context.CancelCauseFunc // guarded by mu: of ctx
	extras *extras                 // guarded by mu: nil if there are none
	over   bool                    // guarded by mu: the handler has returned
	late   bool                    // guarded by mu: the host has cancelled the run because its deadline is over
}

var _ context.Context = (*run)(nil)

func newRun(w *wire.Run, h task.Handler, s *session) *run {
	r := &run{id: w.GetRunId(), handler: h, session: s, terms: s.terms}
	fillIn(&r.task, w)
	r.attempt = attempt{r.task.Ref(), r.task.Type}
	if left := w.GetTimeLeft(); left != 0 {
		r.deadline = time.Now().Add(time.Duration(min(left, maxMicros)) * time.Microsecond)
	}
	return r
}

const maxMicros = math.MaxInt64 / int64(time.Microsecond)

// isLate reports whether the deadline of r is over, by the clock of this machine or that of the host.
func (r *run) isLate() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.late || !r.deadline.IsZero() && !time.Now().Before(r.deadline)
}

// stop ends the context because the host cancels the run.
func (r *run) stop(cause error) {
	_, end := r.made()
	if errors.Is(cause, context.DeadlineExceeded) {
		r.mu.Lock()
		r.late = true
		r.mu.Unlock()
	}
	end(cause)
}

// finish ends the context because the handler has returned, and returns the extras of the answer.
func (r *run) finish() *extras {
	r.mu.Lock()
	r.over = true
	end, x := r.end, r.extras
	r.mu.Unlock()
	if end != nil {
		end(nil)
	}
	return x
}

// made returns the context behind r and the function that ends it. It creates them if needed.
func (r *run) made() (context.Context, context.CancelCauseFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx != nil {
		return r.ctx, r.end
	}
	ctx, cancel := context.WithCancelCause(r.session.ctx)
	if r.over {
		cancel(nil)
	}
	r.ctx, r.end = ctx, cancel
	if !r.deadline.IsZero() {
		timed, stopTimer := context.WithDeadline(ctx, r.deadline)
		r.ctx, r.end = timed, func(cause error) { cancel(cause); stopTimer() }
	}
	return r.ctx, r.end
}

// Deadline implements [context.Context].
func (r *run) Deadline() (time.Time, bool) { return r.deadline, !r.deadline.IsZero() }

// Done implements [context.Context].
func (r *run) Done() <-chan struct{} { ctx, _ := r.made(); return ctx.Done() }

// Err implements [context.Context].
func (r *run) Err() error { ctx, _ := r.made(); return ctx.Err() }

// Value implements [context.Context]. Package context uses it to find the cause and to link derived contexts.
func (r *run) Value(key any) any {
	switch key.(type) {
	case task.ReporterKey, runKey:
		return r
	}
	ctx, _ := r.made()
	return ctx.Value(key)
}
