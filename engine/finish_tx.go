package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/storage"
)

// attemptKey is the key of a context's attempt.
type attemptKey struct{}

var errNoAttempt = errors.New("the context is not that of a handler: give the one that the handler was given, or one derived from it")

// FinishTx finishes a task within a transaction of the engine's store: the task is done,
// with this result, if and only if the transaction commits. A handler calls it with the
// context that it was given and returns after the commit; what it returns then no longer
// matters. So what else the transaction does is done exactly once, however often the
// handler is called.
//
// An error that wraps [ErrAttemptOver] says that the attempt no longer counts: the task was
// cancelled, or is thought to have crashed or to have run out of time. Then, as after any
// other error, the transaction must be rolled back. After a rollback the task is not
// finished: FinishTx may be called again in another transaction, or what the handler
// returns counts as if it had not been called.
//
// Stores lock what a transaction has changed, and whoever else wants to change the task
// waits. FinishTx should be the last that is done before the commit.
func FinishTx(ctx context.Context, tx storage.Tx, result []byte) error {
	a, ok := ctx.Value(attemptKey{}).(*attempt)
	if !ok {
		return fmt.Errorf("engine: finish a task: %w", errNoAttempt)
	}
	if err := a.finish(ctx, tx, result); err != nil {
		return fmt.Errorf("engine: finish %v: %w", a.ref.ID, err)
	}
	return nil
}

// finishing is that a handler has finished its task in a transaction.
type finishing struct {
	row       *task.Task // as the transaction made it
	removed   bool       // and deleted it
	committed bool       // guarded by Engine.mu: the transaction is known to have committed
}

func (a *attempt) finish(ctx context.Context, tx storage.Tx, result []byte) error {
	e, now := a.engine, time.Now()
	if most := e.policyOf(a.Type).ResultLimit(); len(result) > most {
		return fmt.Errorf("the result has %d bytes, and max_result of the type %q allows %d", len(result), a.Type, most)
	}
	if p, said := e.progress.take(a); said {
		if _, err := tx.Note(ctx, task.Note{Ref: a.ref, Progress: &p}); err != nil {
			return err
		}
	}
	keep := e.policyOf(a.Type).Retention
	f := &finishing{removed: keep.Done == 0}
	out, err := storage.Do(ctx, tx, &storage.Batch{
		Swap: []task.Change{{
			Ref: a.ref, To: task.Done, At: now, NextEventAt: core.KeepUntil(keep, task.Done, now), Outcome: task.Completed, Result: result,
		}},
		Remove: []bool{f.removed},
	})
	switch {
	case err != nil:
		return err
	case out.Swapped[0] == nil:
		return ErrAttemptOver
	}
	f.row = out.Swapped[0]
	a.finishing.Store(f)
	tx.OnCommit(func() { e.finished(a, f) })
	return nil
}

// finished tells that the transaction has committed in which a handler finished its task.
func (e *Engine) finished(a *attempt, f *finishing) {
	e.decide(func(c *core.Core, now time.Time) {
		f.committed = true
		if e.config.Observer.Saved != nil {
			e.config.Observer.Saved(now, a.ref, f.row)
		}
		c.Finished(a.ref)
		e.waiters.ended(f.row)
	})
}

// concludes tells the core what came of an attempt. It is called with mu held.
//
// If its handler finished the task in a transaction of which nobody said that it had
// committed, it may have been rolled back, or the word was lost. What the handler returned
// is saved as ever: if the transaction did commit that comes too late, and the writer
// looks why.
func (e *Engine) concludes(now time.Time, a *attempt, v task.Verdict) {
	f := a.finishing.Load()
	switch {
	case f == nil:
	case f.committed:
		if v.Outcome != task.Completed || !v.Again.IsZero() {
			e.log.Warn("a handler had finished its task in a transaction; what it returned later is not considered", "task_id", a.ID, "type", a.Type, "error", v.Error)
		}
	case e.core.Counts(a.ref):
		e.finishings[a.ref] = f
	}
	before := e.core.Stats().Slowed
	e.core.Handled(now, a.ID, v)
	if e.core.Stats().Slowed != before && e.slowedLog.Allow() {
		e.log.Warn("a handler asks again and again for its task to be called again at once; the task rests longer each time", "id", a.ID, "type", a.Type)
	}
}

// finishesOf returns those of saves whose handlers may have finished the tasks themselves,
// by their places; usually nil. It is called with mu held.
func (e *Engine) finishesOf(saves []core.Save) map[int]*finishing {
	if len(e.finishings) == 0 {
		return nil
	}
	found := make(map[int]*finishing)
	for i, s := range saves {
		if f, ok := e.finishings[s.Ref]; ok {
			found[i] = f
		}
	}
	return found
}

// lookAtFinishes finds out of saves that came too late whether that is because the handler
// had finished the task: then it is the transaction's row that was saved.
func (e *Engine) lookAtFinishes(b *batch) {
	for i, f := range b.finishes {
		if b.done.Swapped[i] != nil || b.lost(f.row.ID) {
			continue
		}
		t, err := e.store.Get(context.Background(), f.row.ID)
		if err == nil && t.State == task.Done && t.Version == f.row.Version || f.removed && errors.Is(err, task.ErrNotFound) {
			b.done.Swapped[i] = f.row
		}
	}
}
