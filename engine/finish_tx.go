package engine

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/storage"
)

// attemptKey is the key under which a context has its attempt.
type attemptKey struct{}

var errNoAttempt = errors.New("the context is not that of a handler: pass the context of the handler, or one derived from it")

// FinishTx finishes a task within a transaction of the engine's store: the task is done,
// with this result, if and only if the transaction commits. A handler calls it with the
// context that it was given and returns after the commit; its return value is then ignored.
// So the other writes of the transaction happen exactly once, however often the handler is
// called.
//
// An error that wraps [ErrAttemptOver] says that the attempt no longer counts: the task was
// cancelled, or the engine takes the attempt to have crashed or to have run out of time.
// Then, as after any other error, the transaction must be rolled back. After a rollback the
// task is not finished: the handler may call FinishTx again in another transaction, or its
// return value counts as if it had not called FinishTx.
//
// A store locks the rows that a transaction has changed, and other changes of the task wait.
// FinishTx should be the last call before the commit.
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

// finishing describes a task that its handler has finished in a transaction.
type finishing struct {
	row       *task.Task  // as the transaction wrote it
	removed   bool        // the transaction also deleted the row
	committed atomic.Bool // the transaction is known to have committed
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

// finished tells the core that the transaction in which a handler finished its task has
// committed.
func (e *Engine) finished(a *attempt, f *finishing) {
	e.decide(func(c *core.Core, now time.Time) {
		f.committed.Store(true)
		if e.config.Observer.Saved != nil {
			e.config.Observer.Saved(now, a.ref, f.row)
		}
		c.Finished(a.ref)
		e.waiters.ended(f.row)
	})
}

// concludes tells the core the verdict of an attempt. It is called with mu held.
//
// If the handler finished the task in a transaction that is not known to have committed, the
// transaction was rolled back, or the answer to its commit was lost. The verdict is saved as
// usual: if the transaction did commit, the save comes too late, and the writer reads the task
// to find out why.
func (e *Engine) concludes(now time.Time, a *attempt, v task.Verdict) {
	if f := a.finishing.Load(); f != nil && !f.committed.Load() && e.core.Counts(a.ref) {
		e.finishings[a.ref] = f
	}
	before := e.core.Stats().Slowed
	e.core.Handled(now, a.ID, v)
	if e.core.Stats().Slowed != before && e.slowedLog.Allow() {
		e.warnings.add("a handler asks again and again to run its task again at once: the task rests longer each time", "id", a.ID, "type", a.Type)
	}
}

// finishesOf returns, by index into saves, the tasks that their handlers may have finished in
// a transaction. It is usually nil. It is called with mu held.
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

// lookAtFinishes reads the tasks of b.finishes whose saves came too late. If the handler had
// finished the task in a transaction, the row of the transaction is the one that was saved.
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
