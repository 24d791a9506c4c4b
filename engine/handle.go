package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/engine/internal/shell"
	"github.com/taskengine/taskengine/internal/ratelog"
	"github.com/taskengine/taskengine/internal/workpool"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

// errShutdown is why Close cancels the handlers for which it cannot wait any longer.
var errShutdown = errors.New("the node is shutting down")

// MaxResult is the default of [policy.Type.MaxResult], which limits the bytes that a handler
// may return.
const MaxResult = policy.DefaultMaxResult

// begin makes the attempt of a task that was grabbed. It is called with mu held.
func (e *Engine) begin(r core.Run) *attempt {
	a := &attempt{Run: r, engine: e, ref: r.Task.Ref(), owner: r.Task.Owner, number: r.Task.Attempt}
	if _, ok := e.handlers.pools.of[r.Type]; ok {
		a.made = time.Now()
	}
	if e.state.stopCause != nil {
		a.stop(e.state.stopCause)
	}
	if d := &a.Run.Deadline; !d.IsZero() { // with a monotonic reading: setting the wall clock does not move it
		*d = e.state.clock.read.Add(d.Sub(e.state.clock.last))
	}
	e.state.attempts[r.ID] = a
	return a
}

// handle calls the handler and puts its verdict into the inbox.
func (e *Engine) handle(a *attempt) {
	if why := e.mayNotBegin(a); why != nil {
		e.handled(a, task.Verdict{Outcome: task.HandedBack, Error: why.Error(), Delay: -1})
		return
	}
	again, err := e.contents.begin(a.Task)
	if err != nil {
		e.handled(a, e.undecoded(a.Task, err))
		return
	}
	a.anew.Store(again)
	if e.config.Observer.Started != nil {
		e.config.Observer.Started(e.Now(), a.Task)
	}
	v := task.Verdict{Outcome: task.Errored, Error: "the handler ended its goroutine", Delay: -1, InDoubt: true}
	defer func() { e.handled(a, v) }() // also after runtime.Goexit: the attempt must free its slot all the same
	v = call(a, e.handlers.callOf(a.Type))
	v = e.contents.encodeResult(a.Type, e.decided(a.Task, v))
}

// mayNotBegin returns why the handler of a grabbed task must not be called any more, or nil if
// it may be called.
func (e *Engine) mayNotBegin(a *attempt) error {
	if why := a.why(); why != nil {
		return why
	}
	if !e.cluster.Proves(a.Task.Owner) {
		return ErrLeaseLost
	}
	if a.NeedsPermits && !e.cluster.HoldsPermits() {
		return core.ErrPermitsLost
	}
	return nil
}

// handled puts the verdict of an attempt into the inbox.
func (e *Engine) handled(a *attempt, v task.Verdict) {
	v.Reencoded = a.anew.Load()
	end := shell.Ending{Ref: a.ref, Type: a.Type, Verdict: v}
	f := a.finishing.Load()
	switch {
	case f == nil:
	case !f.committed.Load():
		end.Finish = &f.Finish
	case v.Outcome != task.Completed || v.RunsAgain():
		e.log.Warn("the handler finished its task in a transaction: its later return value is ignored", "task_id", a.ID, "type", a.Type, "error", v.Error)
	}
	if a.reported.Load() {
		if p, ok := e.progress.take(a); ok {
			end.Progress = &p
		}
	}
	e.inbox.end(&end)
	a.stop(context.Canceled) // contexts derived from it end with the attempt
}

// call calls the handler and returns its verdict. The verdict depends on why the context
// ended, if it did: an error that follows from being stopped says nothing about the task.
func call(a *attempt, h task.Handler) task.Verdict {
	result, err := callSafely(a, h, a.Task)
	v := paused(task.VerdictOf(result, err), err)
	if v.Ended {
		v = a.ended(v)
	}
	if n := len(v.Result); n > 0 {
		if most := a.engine.catalog.policyOf(a.Type).ResultLimit(); n > most {
			v = task.VerdictOf(nil, task.ResultTooLarge(a.Type, n, most))
		}
	}
	v.Again = a.engine.byTimebase(v.Again)
	if err := a.checkRerun(&v); err != nil {
		v = paused(task.VerdictOf(nil, err), err)
	}
	cause := a.why()
	switch v.Outcome {
	case task.Completed, task.Snoozed:
		return v
	case task.HandedBack: // the handler had not begun, whatever ended its context
		return v
	}
	switch {
	case cause == nil:
	case errors.Is(cause, core.ErrTimeout):
		v.Outcome = task.TimedOut
	case errors.Is(cause, errShutdown), errors.Is(cause, ErrFailed), errors.Is(cause, ErrLeaseLost), errors.Is(cause, core.ErrPermitsLost):
		v.Outcome, v.Error = task.Interrupted, fmt.Sprintf("%v: %s", cause, v.Error)
	}
	return v
}

// byTimebase returns the time at which a handler wants to run again. A time with a monotonic reading
// was derived from [time.Now], so that the wall clock of the machine is in it.
func (e *Engine) byTimebase(t time.Time) time.Time {
	if t == t.Round(0) {
		return t
	}
	return e.base.at(t)
}

// callSafely turns a panic of the handler into an error in doubt: how far the handler came is
// unknown.
func callSafely(ctx context.Context, h task.Handler, t *task.Task) (result []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = task.InDoubt(fmt.Errorf("panic: %v\n%s", r, debug.Stack()))
		}
	}()
	return h.Handle(ctx, t)
}

// FromContext returns the engine that runs a handler, if ctx is the context of one or derived from it.
func FromContext(ctx context.Context) (*Engine, bool) {
	a, ok := ctx.Value(attemptKey{}).(*attempt)
	if !ok {
		return nil, false
	}
	return a.engine, true
}

// handlers has the handlers of the engine and the state of their calls.
type handlers struct {
	calls      atomic.Pointer[map[string]task.Handler] // handlers by type; Adopt replaces the map, which is read only
	pools      pools
	workers    *workpool.Pool[*attempt] // their goroutines call the handlers
	badRetries ratelog.Limiter          // Config.Retry panics, or its decision is impossible
	undecoded  ratelog.Limiter          // the contents of a task cannot be decoded
}

// callOf returns the handler of a type, with what Config.Wrap adds.
func (h *handlers) callOf(typ string) task.Handler { return (*h.calls.Load())[typ] }

// pools holds the handlers that run a limited number of tasks at a time. The core counts
// their slots under the same names.
type pools struct {
	byName map[string]task.Pool    // read only
	of     map[string]string       // names of pools by type; read only
	uses   map[string]task.PoolUse // read only once the background work has begun
}

// newPools returns the pools among the handlers. Pools that share a name get different names.
func newPools(handlers map[string]task.Handler) pools {
	ps := pools{
		byName: make(map[string]task.Pool), of: make(map[string]string),
		uses: make(map[string]task.PoolUse),
	}
	names := make(map[task.Pool]string)
	for _, typ := range slices.Sorted(maps.Keys(handlers)) {
		p, ok := handlers[typ].(task.Pool)
		if !ok {
			continue
		}
		name, known := names[p]
		if !known {
			name = p.Name()
			for n := 2; ps.byName[name] != nil; n++ {
				name = fmt.Sprintf("%s#%d", p.Name(), n)
			}
			names[p], ps.byName[name] = name, p
		}
		ps.of[typ] = name
	}
	return ps
}

// use subscribes to the capacities of the pools: each change goes into the inbox. It is
// called before the background work begins.
func (ps *pools) use(in *inbox) {
	for name, p := range ps.byName {
		ps.uses[name] = p.Use(func(c task.Capacity) {
			in.resize(shell.Resize{Pool: name, Capacity: c})
		})
	}
}

// leave ends the subscriptions of use. It is called when the background work has ended.
func (ps *pools) leave() {
	for _, use := range ps.uses {
		use.End()
	}
}

// lateBegin is the shortest wait in a pool after which the time of an attempt runs from the
// end of the wait. Telling the core of each shorter wait is not worth it.
const lateBegin = 10 * time.Millisecond

var _ task.Beginner = (*attempt)(nil)

// Begin implements [task.Beginner].
func (a *attempt) Begin() (deadline time.Time, err error) {
	if why := a.engine.mayNotBegin(a); why != nil {
		return time.Time{}, why
	}
	waited := time.Since(a.made)
	a.hasBegun.Store(true)
	if waited < lateBegin {
		deadline, _ := a.Deadline()
		return deadline, nil
	}
	a.mu.Lock()
	if d := a.Run.Deadline; !d.IsZero() {
		a.Run.Deadline = d.Add(waited)
		if at := a.Task.ExpiresAt; !at.IsZero() && at.Before(a.Run.Deadline) {
			a.Run.Deadline = at
		}
	}
	deadline = a.Run.Deadline
	a.mu.Unlock()
	a.engine.inbox.begin(a.ref)
	return deadline, nil
}
