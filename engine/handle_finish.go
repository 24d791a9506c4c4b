package engine

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/engine/internal/shell"
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
	shell.Finish
	committed atomic.Bool // the transaction is known to have committed
}

func (a *attempt) finish(ctx context.Context, tx storage.Tx, result []byte) error {
	e, now := a.engine, a.engine.Now()
	if most := e.catalog.policyOf(a.Type).ResultLimit(); len(result) > most {
		return fmt.Errorf("the result has %d bytes, and max_result of the type %q allows %d", len(result), a.Type, most)
	}
	if p, said := e.progress.take(a); said {
		if _, err := tx.Note(ctx, task.Note{Ref: a.ref, Progress: &p}); err != nil {
			return err
		}
	}
	keep := e.catalog.policyOf(a.Type).Retention
	f := &finishing{Finish: shell.Finish{Removed: keep.Done == 0}}
	out, err := storage.Do(ctx, tx, &storage.Batch{
		Swap: []task.Change{{
			Ref: a.ref, To: task.Done, At: now, NextEventAt: core.KeepUntil(keep, task.Done, now), Outcome: task.Completed, Result: result,
		}},
		Remove: []bool{f.Removed},
	})
	switch {
	case err != nil:
		return err
	case out.Swapped[0] == nil:
		return ErrAttemptOver
	}
	f.Row = out.Swapped[0]
	a.finishing.Store(f)
	tx.OnCommit(func() { e.finished(a, f) })
	return nil
}

// finished tells the core that the transaction in which a handler finished its task has
// committed.
func (e *Engine) finished(a *attempt, f *finishing) {
	e.tell(func(s *state, now time.Time) {
		f.committed.Store(true)
		if e.config.Observer.Saved != nil {
			e.config.Observer.Saved(now, a.ref, f.Row)
		}
		s.Core().Finished(a.ref)
		s.waiters.ended(f.Row)
	})
}

// isFinished reads a task that its handler may have finished in a transaction, and reports whether
// it has.
func (e *Engine) isFinished(f *shell.Finish) bool {
	t, err := e.store.Get(context.Background(), f.Row.ID)
	return err == nil && t.State == task.Done && t.Version == f.Row.Version || f.Removed && errors.Is(err, task.ErrNotFound)
}
