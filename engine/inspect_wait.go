package engine

import (
	"context"
	"errors"
	"time"

	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// WaitTasks returns when none of the tasks is live any more: each has ended, or is not
// (or no longer) in the store. It returns the error of ctx if ctx ends first, and the error
// of the engine if the engine fails or is closed. While the store cannot be read it tries
// again.
func (e *Engine) WaitTasks(ctx context.Context, ids ...task.ID) error {
	for _, id := range ids {
		if err := e.waitTask(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

func (e *Engine) waitTask(ctx context.Context, id task.ID) error {
	ended := wakeup.New()
	e.mu.Lock()
	e.state.waiters.addTask(id, ended)
	e.mu.Unlock()
	defer e.forget(func(w *waiters) { w.removeTask(id, ended) })
	for {
		t, err := e.store.Get(ctx, id)
		switch {
		case errors.Is(err, task.ErrNotFound), err == nil && !t.State.Live():
			return nil
		case err != nil:
			if err := e.readAgain(ctx, err); err != nil {
				return err
			}
			continue // it may have ended already
		}
		if err := e.await(ctx, ended); err != nil {
			return err
		}
	}
}

// countRest is how long WaitType lets tasks end before it counts again, and how long a call
// waits that could not read the store.
const countRest = 100 * time.Millisecond

// readAgain rests, and returns nil if a read that failed with err is to be repeated, or the error that
// the caller gets: err, the error of ctx, or the error of an engine that fails or is closed.
func (e *Engine) readAgain(ctx context.Context, err error) error {
	if errors.Is(err, storage.ErrBroken) || errors.Is(err, storage.ErrClosed) || errors.Is(err, ErrUnsupported) || ctx.Err() != nil {
		return err
	}
	e.log.Debug("cannot read awaited tasks from the store; the read is tried again", "error", err)
	return e.rest(ctx, nil, time.After(countRest))
}

// WaitType returns when no task of the type is live any more. It returns the error of ctx if
// ctx ends first, and the error of the engine if the engine fails or is closed. While the
// store cannot be read it tries again.
func (e *Engine) WaitType(ctx context.Context, typ string) error {
	live := storage.Filter{States: []task.State{task.Waiting, task.Submitted, task.Processing}, Types: []string{typ}}
	ended := wakeup.New()
	e.mu.Lock()
	e.state.waiters.addType(typ, ended)
	e.mu.Unlock()
	defer e.forget(func(w *waiters) { w.removeType(typ, ended) })
	for {
		counts, err := e.Count(ctx, live)
		switch {
		case err == nil && len(counts) == 0:
			return nil
		case err != nil:
			if err := e.readAgain(ctx, err); err != nil {
				return err
			}
			continue // the last of them may have ended already
		}
		if err := e.await(ctx, ended); err != nil {
			return err
		}
		if err := wakeup.Sleep(ctx, countRest); err != nil {
			return err
		}
	}
}

// elsewhereRest is how often a waiting call checks whether a task has ended on another node.
const elsewhereRest = 100 * time.Millisecond

// await returns nil when it is time to read again: ended is set, or another node may have ended
// a task.
func (e *Engine) await(ctx context.Context, ended wakeup.Signal) error {
	var elsewhere <-chan time.Time
	if e.cluster.IsShared() {
		elsewhere = time.After(elsewhereRest)
	}
	return e.rest(ctx, ended.C(), elsewhere)
}

// rest returns nil when one of the channels delivers, or the error of ctx, or the error of an engine that
// fails or is closed.
func (e *Engine) rest(ctx context.Context, ended <-chan struct{}, over <-chan time.Time) error {
	select {
	case <-ended:
		return nil
	case <-over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-e.failed:
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.state.failure
	case <-e.gone:
		return ErrClosed
	}
}

// ended returns the error of an engine that has failed or is closed; nil of another one.
func (e *Engine) ended() error {
	select {
	case <-e.failed:
	case <-e.gone:
	default:
		return nil
	}
	return e.rest(context.Background(), nil, nil) // which returns at once
}

func (e *Engine) forget(fn func(*waiters)) {
	e.mu.Lock()
	fn(&e.state.waiters)
	e.mu.Unlock()
}

// waiters holds the wake-ups of calls that wait for tasks to end, by task and by type.
type waiters struct {
	tasks map[task.ID]map[wakeup.Signal]bool
	types map[string]map[wakeup.Signal]bool
}

func (w *waiters) addTask(id task.ID, c wakeup.Signal) {
	if w.tasks == nil {
		w.tasks = make(map[task.ID]map[wakeup.Signal]bool)
	}
	addWaiter(w.tasks, id, c)
}

func (w *waiters) removeTask(id task.ID, c wakeup.Signal) { removeWaiter(w.tasks, id, c) }

func (w *waiters) addType(typ string, c wakeup.Signal) {
	if w.types == nil {
		w.types = make(map[string]map[wakeup.Signal]bool)
	}
	addWaiter(w.types, typ, c)
}

func (w *waiters) removeType(typ string, c wakeup.Signal) { removeWaiter(w.types, typ, c) }

// ended wakes the calls that wait for t, if t has ended.
func (w *waiters) ended(t *task.Task) {
	if t.State.Live() || len(w.tasks)+len(w.types) == 0 {
		return
	}
	for c := range w.tasks[t.ID] {
		c.Set()
	}
	for c := range w.types[t.Type] {
		c.Set()
	}
}

// look wakes the calls that may wait for a task with a row that the core did not know. The
// type of the task is not known, so it wakes the calls that wait for any type.
func (w *waiters) look(id task.ID) {
	for c := range w.tasks[id] {
		c.Set()
	}
	for _, ofType := range w.types {
		for c := range ofType {
			c.Set()
		}
	}
}

func addWaiter[K comparable](m map[K]map[wakeup.Signal]bool, k K, c wakeup.Signal) {
	if m[k] == nil {
		m[k] = make(map[wakeup.Signal]bool)
	}
	m[k][c] = true
}

func removeWaiter[K comparable](m map[K]map[wakeup.Signal]bool, k K, c wakeup.Signal) {
	delete(m[k], c)
	if len(m[k]) == 0 {
		delete(m, k)
	}
}
