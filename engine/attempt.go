package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/engine/task"
)

// attempt is a handler at work, and the context it is given. Most handlers never look
// at theirs, so it is made to cost nothing until one does: the standard library's
// would allocate twice and be entered with its parent.
type attempt struct {
	core.Run // read only, but for its Deadline: guarded by mu
	engine   *Engine
	ref      task.Ref    // of the row that it runs
	number   uint32      // which attempt of the task it is
	spoke    atomic.Bool // it has said something of its progress

	made     time.Time   // when it was given to its pool; zero without a pool
	hasBegun atomic.Bool // its pool has begun with it

	finishing atomic.Pointer[finishing] // how its handler finished the task in a transaction; nil if it did not

	mu    sync.Mutex
	cause error            // guarded by mu: why it ended, nil while it has not
	done  chan struct{}    // guarded by mu: nil until somebody asks for it
	after map[*hook]func() // guarded by mu: what to call when it ends; nil if nothing
}

// hook tells calls of AfterFunc apart.
type hook struct{ _ byte }

var _ context.Context = (*attempt)(nil)

// stop ends the context, the first time it is called.
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

// why returns why the context ended, nil while it has not.
func (a *attempt) why() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.cause
}

// Deadline implements [context.Context]: the core stops the attempt then.
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

// Value implements [context.Context]: there is nothing but the attempt, which is a
// [task.Reporter].
func (a *attempt) Value(key any) any {
	if key == (task.ReporterKey{}) || key == (attemptKey{}) {
		return a
	}
	return nil
}

// AfterFunc lets contexts that are derived from this one end with it without a
// goroutine each: see [context.AfterFunc].
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
