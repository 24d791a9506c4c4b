package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/engine/task"
)

// Why a handler's context ended.
var (
	errTimeout  = errors.New("the attempt ran out of time")
	errShutdown = errors.New("the node is shutting down")
)

// MaxResult is how many bytes a handler may return.
const MaxResult = 1 << 20

// attempt is a handler at work.
type attempt struct {
	core.Run
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// begin starts the handler of a task that was grabbed. It is called with mu held.
func (e *Engine) begin(r core.Run) {
	a := &attempt{Run: r}
	a.ctx, a.cancel = context.WithCancelCause(e.runs)
	e.attempts[r.ID] = a
	go e.handle(a)
}

// handle runs the handler and tells the core what came of it.
func (e *Engine) handle(a *attempt) {
	ctx := a.ctx
	if !a.Deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, time.Until(a.Deadline), errTimeout)
		defer cancel()
	}
	if e.config.Observer.Started != nil {
		e.config.Observer.Started(time.Now(), a.Task)
	}
	result, err := call(ctx, e.config.Handlers[a.Type], a.Task)
	v := verdictOf(ctx, result, err)
	e.decide(func(c *core.Core, now time.Time) {
		delete(e.attempts, a.ID)
		c.Handled(now, a.ID, v)
	})
	a.cancel(nil)
}

// call calls the handler and turns a panic into an error.
func call(ctx context.Context, h task.Handler, t *task.Task) (result []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	return h.Handle(ctx, t)
}

// verdictOf reads what a handler returned in the light of what happened to its context:
// an error that follows from being cancelled says nothing about the task.
func verdictOf(ctx context.Context, result []byte, err error) task.Verdict {
	if err == nil && len(result) > MaxResult {
		err = task.Permanent(fmt.Errorf("the result has %d bytes, of %d allowed", len(result), MaxResult))
	}
	v := task.VerdictOf(result, err)
	if ctx.Err() == nil || v.Outcome == task.Completed || v.Outcome == task.Snoozed {
		return v
	}
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errTimeout):
		v.Outcome = task.TimedOut
	case errors.Is(cause, errShutdown), errors.Is(cause, ErrFailed):
		v.Outcome = task.Interrupted
	}
	return v
}
