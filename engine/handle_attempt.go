package engine

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/task"
)

// attempt is a call of a handler, and the context of the call. Most handlers never use
// their context, so it costs nothing until one does: a context of the standard library
// would cost two allocations and an entry in its parent.
type attempt struct {
	core.Run // read only, except its Deadline, which is guarded by mu
	engine   *Engine
	ref      task.Ref    // the row that it runs
	owner    task.ID     // of the row
	number   uint32      // of the attempt, as the row counts them
	reported atomic.Bool // the handler has reported progress

	anew atomic.Pointer[task.Reencoded] // the parts of the row to store again with the end of the attempt

	made     time.Time   // when the attempt was given to its pool; zero without a pool
	hasBegun atomic.Bool // the pool has called Begin

	finishing atomic.Pointer[finishing] // set when the handler finishes the task in a transaction

	mu    sync.Mutex
	cause error            // guarded by mu: why the context ended; nil before
	done  chan struct{}    // guarded by mu: nil until the first call of Done
	after map[*hook]func() // guarded by mu: called when the context ends; nil if empty
}

// hook identifies a call of AfterFunc. It has a size, so that each hook has its own address.
type hook struct{ _ byte }

var _ context.Context = (*attempt)(nil)

// stop ends the context. Calls after the first have no effect.
func (a *attempt) stop(cause error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cause != nil {
		return
	}
	a.cause = cause
	if a.done != nil {
		close(a.done)
	}
	for _, fn := range a.after {
		go fn()
	}
	a.after = nil
}

// why returns why the context ended, or nil before that.
func (a *attempt) why() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.cause
}

// Deadline implements [context.Context]. The core stops the attempt at this time.
func (a *attempt) Deadline() (time.Time, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.Run.Deadline, !a.Run.Deadline.IsZero()
}

// Done implements [context.Context].
func (a *attempt) Done() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.done == nil {
		a.done = make(chan struct{})
		if a.cause != nil {
			close(a.done)
		}
	}
	return a.done
}

// Err implements [context.Context].
func (a *attempt) Err() error {
	switch a.why() {
	case nil:
		return nil
	case core.ErrTimeout:
		return context.DeadlineExceeded
	}
	return context.Canceled
}

// Value implements [context.Context]. The only value is the attempt itself, which is a
// [task.Reporter].
func (a *attempt) Value(key any) any {
	if key == (task.ReporterKey{}) || key == (attemptKey{}) {
		return a
	}
	return nil
}

// AfterFunc ends contexts that are derived from this one without a goroutine for each: see
// [context.AfterFunc].
func (a *attempt) AfterFunc(fn func()) (stop func() bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cause != nil {
		go fn()
		return func() bool { return false }
	}
	if a.after == nil {
		a.after = make(map[*hook]func())
	}
	h := new(hook)
	a.after[h] = fn
	return func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		_, pending := a.after[h]
		delete(a.after, h)
		return pending
	}
}

// Failure is a failed attempt. [Config.Retry] decides about the next step.
type Failure struct {
	Task    *task.Task   // as it was when the attempt began, with its payload; Attempt is the number of this attempt, from 1 on
	Verdict task.Verdict // Outcome is Errored, Crashed or TimedOut; the handler asked for GiveUp, Delay and Class
	At      time.Time    // when the attempt ended, by the clock of [Engine.Now]
}

// Decision is the next step after a failed attempt. The zero Decision leaves it to the policy of the type.
type Decision struct {
	To     task.State // Waiting: another attempt follows; Error: none does, and the task waits for a person; Failed or Cancelled: it has ended; no other
	At     time.Time  // with Waiting: when it follows, by the clock of [Engine.Now]; a time that has passed is now; at most the end of the year 9999
	Reason string     // why, as text; added to the error of the attempt
}

// decided returns the verdict on the attempt of t as Config.Retry changes it.
func (e *Engine) decided(t *task.Task, v task.Verdict) task.Verdict {
	if e.config.Retry == nil || t.Type == relayType || v.Next != 0 || v.Outcome != task.Errored && v.Outcome != task.Crashed && v.Outcome != task.TimedOut {
		return v
	}
	f := Failure{Task: t, Verdict: v, At: e.Now().Round(0)}
	d, err := e.askRetry(f)
	delay := time.Duration(-1)
	switch {
	case err != nil:
	case d == Decision{}:
		return v
	case d.To == task.Error, d.To == task.Failed, d.To == task.Cancelled:
	case d.To == task.Waiting && (d.At.IsZero() || d.At.Year() <= 9999):
		delay = max(0, e.byTimebase(d.At).Sub(f.At))
	default:
		err = fmt.Errorf("it decided for the state %v at %v, which cannot be", d.To, d.At)
	}
	if err != nil {
		if e.handlers.badRetries.Allow() {
			e.log.Error("Config.Retry failed; the policy of the type decides", "task_id", t.ID, "type", t.Type, "error", err)
		}
		return v
	}
	v.Next, v.Delay = d.To, delay
	if d.Reason != "" {
		v.Error += " (" + d.Reason + ")"
	}
	return v
}

func (e *Engine) askRetry(f Failure) (d Decision, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	return e.config.Retry(f), nil
}

// wrapped returns the handlers by type, each wrapped by Config.Wrap if that is set.
func wrapped(c *Config, handlers map[string]task.Handler) (map[string]task.Handler, error) {
	if c.Wrap == nil {
		return handlers, nil
	}
	calls := make(map[string]task.Handler, len(handlers))
	for typ, h := range handlers {
		if typ == relayType {
			calls[typ] = h
			continue
		}
		if calls[typ] = c.Wrap(typ, h); calls[typ] == nil {
			return nil, fmt.Errorf("engine: Config.Wrap returns nil for type %s", typ)
		}
	}
	return calls, nil
}
