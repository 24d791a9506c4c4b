package handler

import (
	"context"
	"sync"
	"time"

	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/plugins/internal/wire"
)

// run is a handler at work: its task, and the context it is given. Most handlers never
// look at theirs, so the standard library's, with its timer and its place among the
// children of the shift's, is made only for who does.
type run struct {
	id       uint64 // on the stream
	handler  task.Handler
	task     task.Task
	deadline time.Time // zero if there is none
	shift    *shift
	says     says // guarded by the mutex of the shift

	mu     sync.Mutex
	ctx    context.Context         // guarded by mu: nil until somebody asks for it
	end    context.CancelCauseFunc // guarded by mu: of ctx
	extras *extras                 // guarded by mu: nil if there are none
	over   bool                    // guarded by mu: the handler has returned
}

var _ context.Context = (*run)(nil)

func newRun(w *wire.Run, h task.Handler, s *shift) *run {
	r := &run{id: w.GetRunId(), handler: h, shift: s}
	fillIn(&r.task, w)
	if at := w.GetDeadline(); at != 0 {
		r.deadline = time.UnixMicro(at)
	}
	return r
}

// stop ends the context because the host asks for it.
func (r *run) stop(cause error) {
	_, end := r.made()
	end(cause)
}

// finish ends the context because the handler has returned, and returns what goes with
// its answer.
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

// made returns the context that stands behind r, and how to end it.
func (r *run) made() (context.Context, context.CancelCauseFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx != nil {
		return r.ctx, r.end
	}
	ctx, cancel := context.WithCancelCause(r.shift.ctx)
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

// Value implements [context.Context]. Package context finds by it what the context ended
// for, and what to end together with it.
func (r *run) Value(key any) any {
	switch key.(type) {
	case task.ReporterKey, runKey:
		return r
	}
	ctx, _ := r.made()
	return ctx.Value(key)
}
