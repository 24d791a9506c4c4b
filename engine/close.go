package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/taskengine/taskengine/policy"
)

// Failed returns a channel that is closed when the store has failed for good: the engine does
// nothing more, and [Engine.Close] returns why. All accepted tasks are in the store.
func (e *Engine) Failed() <-chan struct{} { return e.failed }

// fail stops the engine: the store cannot be written any more.
func (e *Engine) fail(err error) {
	e.mu.Lock()
	hasFailed := e.state.failure != nil
	e.mu.Unlock()
	if hasFailed { // tell would deliver the failure again
		return
	}
	isFirst := false
	e.tell(func(s *state, now time.Time) {
		if isFirst = s.failure == nil; !isFirst {
			return
		}
		s.failure = fmt.Errorf("%w: %w", ErrFailed, err)
		e.inbox.refuse(s.failure)
		s.isClosing = true
		s.Close(now)
		s.stopAll(s.failure)
		close(e.failed)
	})
	if !isFirst {
		return
	}
	e.log.Error("the store has failed; the engine stops", "error", err)
}

// Close stops the engine. It starts no more tasks and waits for the handlers that run. If ctx
// ends first, it cancels them and puts their tasks back, to be run when the store is opened
// again. It returns the failure of the engine, if it has failed. Later calls wait for the
// first.
func (e *Engine) Close(ctx context.Context) error {
	e.closed.Do(func() { e.shutdown(ctx) })
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.state.failure
}

func (e *Engine) shutdown(ctx context.Context) {
	e.tell(func(s *state, now time.Time) {
		if s.failure == nil {
			e.inbox.refuse(ErrClosed)
		}
		s.isClosing = true
		s.Close(now)
	})
	e.cluster.Drain() // other nodes start the tasks of this node; it ends its running ones
	select {
	case <-e.drained:
	case <-e.failed:
	case <-ctx.Done():
		e.tell(func(s *state, _ time.Time) { s.stopAll(errShutdown) })
		select {
		case <-e.drained:
		case <-e.failed:
		case <-time.After(e.longestGrace()):
			e.log.Warn("handlers did not return after they were cancelled; the next start recovers their tasks")
		}
	}
	e.progress.close()
	e.tell(func(s *state, now time.Time) { s.Retry(now) })
	e.stop() // the writers finish pending commits
	e.duties.Wait()
	if n := e.state.Stuck(); n > 0 {
		e.log.Error("the ends of some attempts could not be written before the node stopped; the next start decides about these tasks as after a crash", "tasks", n)
	}
	e.handlers.pools.leave()
	e.handlers.workers.Close()
	close(e.gone)
}

// stopAll ends the contexts of all handlers, and of handlers that begin later. It is called with
// mu held.
func (s *state) stopAll(cause error) {
	s.stopCause = cause
	for _, a := range s.attempts {
		a.stop(cause)
	}
}

// longestGrace returns how long a cancelled handler may take to return, over all types.
func (e *Engine) longestGrace() time.Duration {
	graces := []time.Duration{policy.DefaultType().Timeout.Grace}
	for _, t := range e.catalog.policies().Types {
		graces = append(graces, t.Timeout.Grace)
	}
	return slices.Max(graces)
}
