package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/engine/policy"
	"github.com/taskengine/taskengine/engine/task"
)

// errShutdown is why handlers are cancelled when the engine cannot wait any longer.
var errShutdown = errors.New("the node is shutting down")

// MaxResult is how many bytes a handler may return unless [policy.Type.MaxResult] of its type
// says another number.
const MaxResult = policy.DefaultMaxResult

// begin has the handler called of a task that was grabbed. It is called with mu held.
func (e *Engine) begin(r core.Run) {
	a := &attempt{Run: r, engine: e, ref: r.Task.Ref(), number: r.Task.Attempt}
	if _, ok := e.pools.of[r.Type]; ok {
		a.made = time.Now()
	}
	if e.stopCause != nil {
		a.stop(e.stopCause)
	}
	if d := &a.Run.Deadline; !d.IsZero() { // with a monotonic reading: it stays when the wall clock is set
		*d = time.Now().Add(d.Sub(e.clock.last))
	}
	e.attempts[r.ID] = a
	e.begun = append(e.begun, a)
}

// handle calls the handler and queues word of what came of it.
func (e *Engine) handle(a *attempt) {
	if why := e.mayNotBegin(a); why != nil {
		e.handled(a, task.Verdict{Outcome: task.HandedBack, Error: why.Error(), Delay: -1})
		return
	}
	if e.config.Observer.Started != nil {
		e.config.Observer.Started(time.Now(), a.Task)
	}
	returned := false
	defer func() {
		if !returned { // runtime.Goexit: the slot must not end with the goroutine
			e.handled(a, task.Verdict{Outcome: task.Errored, Error: "the handler ended its goroutine", Delay: -1, InDoubt: true})
		}
	}()
	v := call(a, e.config.Handlers[a.Type])
	returned = true
	e.handled(a, v)
}

// mayNotBegin returns why a handler must not be called any more for a task that was grabbed;
// nil if it may be.
func (e *Engine) mayNotBegin(a *attempt) error {
	if why := a.why(); why != nil {
		return why
	}
	if !e.cluster.Proves(a.Task.Owner) {
		return ErrLeaseLost
	}
	return nil
}

// handled leaves word of what came of an attempt for the core.
func (e *Engine) handled(a *attempt, v task.Verdict) {
	var said *task.Progress
	if a.spoke.Load() {
		if p, ok := e.progress.take(a); ok {
			said = &p
		}
	}
	if e.inbox.end(a, v, said) {
		e.write.Set()
	}
	a.stop(context.Canceled) // what was derived from the context ends with the attempt
}

// call calls the handler and reads what it returned in the light of what happened to
// its context: an error that follows from being stopped says nothing about the task.
func call(a *attempt, h task.Handler) task.Verdict {
	result, err := safely(a, h, a.Task)
	v := task.VerdictOf(result, err)
	if n := len(v.Result); n > 0 {
		if most := a.engine.policyOf(a.Type).ResultLimit(); n > most {
			v = task.VerdictOf(nil, task.ResultTooLarge(a.Type, n, most))
		}
	}
	if outOfRange(v.Again) { // no store could find it again
		v = task.VerdictOf(nil, task.Permanent(fmt.Errorf("it is to run again at %v, and times must lie between the years 1970 and 9999", v.Again)))
	}
	cause := a.why()
	switch v.Outcome {
	case task.Completed, task.Snoozed:
		return v
	case task.HandedBack: // it had not begun, whatever ended its context
		return v
	}
	switch {
	case cause == nil:
	case errors.Is(cause, core.ErrTimeout):
		v.Outcome = task.TimedOut
	case errors.Is(cause, errShutdown), errors.Is(cause, ErrFailed), errors.Is(cause, ErrLeaseLost):
		v.Outcome, v.Error = task.Interrupted, fmt.Sprintf("%v: %s", cause, v.Error)
	}
	return v
}

// safely turns a panic of the handler into an error. How far the handler came is unknown.
func safely(ctx context.Context, h task.Handler, t *task.Task) (result []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = task.InDoubt(fmt.Errorf("panic: %v\n%s", r, debug.Stack()))
		}
	}()
	return h.Handle(ctx, t)
}
