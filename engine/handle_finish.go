package engine

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/taskengine/taskengine/codec"
	"github.com/taskengine/taskengine/engine/internal/shell"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
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

// AgainTx ends an attempt within a transaction of the engine's store, as [FinishTx] does, and has the
// task run again: at the given time, with this result, and with the payload and the checkpoint that the
// options say. It runs again so if and only if the transaction commits. [task.Again] says what the time,
// the result and the options mean, and the contract of FinishTx holds: the handler returns after the
// commit, its return value is then ignored, and an error that wraps [ErrAttemptOver] says that the
// attempt no longer counts.
//
// The error of a payload or a checkpoint that is too large is one that makes the attempt fail for good
// if the handler returns it. The options [task.WithTasks] and [task.WithSignals] are errors: call [Engine.SubmitTx] and
// [Engine.SignalTx] with the same transaction; [task.WithChildren] and [task.WithDocuments] are allowed, and a
// [task.DocumentConflict] is an error, after which the transaction must be rolled back. The task does not run again on this node before the handler has returned.
func AgainTx(ctx context.Context, tx storage.Tx, result []byte, at time.Time, options ...task.AgainOption) error {
	a, ok := ctx.Value(attemptKey{}).(*attempt)
	if !ok {
		return fmt.Errorf("engine: run a task again: %w", errNoAttempt)
	}
	if err := a.again(ctx, tx, task.VerdictOf(result, task.Again(at, options...))); err != nil {
		return fmt.Errorf("engine: have %v run again: %w", a.ref.ID, err)
	}
	return nil
}

// WaitTx ends an attempt within a transaction of the engine's store, as [AgainTx] does, and has the task wait for a signal as
// [task.WaitFor] says. A signal that the task has kept ends the wait with the commit.
func WaitTx(ctx context.Context, tx storage.Tx, result []byte, names []string, until time.Time, options ...task.AgainOption) error {
	a, ok := ctx.Value(attemptKey{}).(*attempt)
	if !ok {
		return fmt.Errorf("engine: have a task wait for a signal: %w", errNoAttempt)
	}
	if err := a.again(ctx, tx, task.VerdictOf(result, task.WaitFor(names, until, options...))); err != nil {
		return fmt.Errorf("engine: have %v wait for a signal: %w", a.ref.ID, err)
	}
	return nil
}

// WaitForChildrenTx ends an attempt within a transaction of the engine's store, as [AgainTx] does, and has the task wait for its
// children as [task.WaitForChildren] says. The option [task.WithChildren] adds some in the transaction.
func WaitForChildrenTx(ctx context.Context, tx storage.Tx, result []byte, waits []task.ChildrenWait, until time.Time, options ...task.AgainOption) error {
	a, ok := ctx.Value(attemptKey{}).(*attempt)
	if !ok {
		return fmt.Errorf("engine: have a task wait for its children: %w", errNoAttempt)
	}
	if err := a.again(ctx, tx, task.VerdictOf(result, task.WaitForChildren(waits, until, options...))); err != nil {
		return fmt.Errorf("engine: have %v wait for its children: %w", a.ref.ID, err)
	}
	return nil
}

// WaitForEitherTx ends an attempt within a transaction of the engine's store, as [AgainTx] does, and has the task wait for a signal or for
// children as [task.WaitForEither] says. In everything else it is [WaitTx] and [WaitForChildrenTx].
func WaitForEitherTx(ctx context.Context, tx storage.Tx, result []byte, names []string, waits []task.ChildrenWait, until time.Time, options ...task.AgainOption) error {
	a, ok := ctx.Value(attemptKey{}).(*attempt)
	if !ok {
		return fmt.Errorf("engine: have a task wait for a signal or for children: %w", errNoAttempt)
	}
	if err := a.again(ctx, tx, task.VerdictOf(result, task.WaitForEither(names, waits, until, options...))); err != nil {
		return fmt.Errorf("engine: have %v wait for a signal or for children: %w", a.ref.ID, err)
	}
	return nil
}

// finishing describes an attempt that its handler has ended in a transaction.
type finishing struct {
	shell.Finish
	committed atomic.Bool // the transaction is known to have committed
}

func (a *attempt) finish(ctx context.Context, tx storage.Tx, result []byte) error {
	e, now := a.engine, a.engine.Now()
	if err := a.checkResult(result); err != nil {
		return err
	}
	result, err := e.contents.encode(a.Type, codec.Result, result)
	if err != nil {
		return err
	}
	change := task.Change{Ref: a.ref, By: a.owner, To: task.Done, At: now, Outcome: task.Completed, Result: result}
	remove := e.catalog.infoOf(a.Type).rules.Keep(a.Task.Key != "", &change)
	return a.endIn(ctx, tx, change, remove)
}

func (a *attempt) again(ctx context.Context, tx storage.Tx, v task.Verdict) error {
	e := a.engine
	switch {
	case !v.RunsAgain():
		return errors.New("no time is given: use FinishTx to end the task")
	case v.Rerun != nil && len(v.Rerun.Tasks) > 0:
		return errors.New("the option WithTasks is not allowed here: call SubmitTx with the transaction")
	case v.Rerun != nil && len(v.Rerun.Signals) > 0:
		return errors.New("the option WithSignals is not allowed here: call SignalTx with the transaction")
	}
	if err := a.checkResult(v.Result); err != nil {
		return err
	}
	v.Again = e.byTimebase(v.Again)
	if err := a.checkRerun(&v); err != nil {
		return err
	}
	var err error
	if v.Result, err = e.contents.encode(a.Type, codec.Result, v.Result); err != nil {
		return err
	}
	v.Reencoded = a.anew.Load()
	var change task.Change
	var counts bool
	e.tell(func(s *state, now time.Time) {
		change, counts = s.Concluded(now, &shell.Ending{Ref: a.ref, Type: a.Type, Verdict: v})
	})
	if !counts {
		return ErrAttemptOver
	}
	if err := a.endIn(ctx, tx, change, false); err != nil {
		return err
	}
	if v.Rerun == nil {
		return nil
	}
	if err := writeDocuments(ctx, tx, v.Rerun.Writes); err != nil {
		return err
	}
	_, err = e.followTx(ctx, tx, v.Rerun.Rows)
	return err
}

func (a *attempt) checkResult(result []byte) error {
	if most := a.engine.catalog.policyOf(a.Type).ResultLimit(); len(result) > most {
		return fmt.Errorf("the result has %d bytes, and max_result of the type %q allows %d", len(result), a.Type, most)
	}
	return nil
}

// endIn makes the change that ends the attempt in a transaction of its handler.
func (a *attempt) endIn(ctx context.Context, tx storage.Tx, change task.Change, remove bool) error {
	e := a.engine
	if p, said := e.progress.take(a); said {
		if _, err := tx.Note(ctx, task.Note{Ref: a.ref, By: a.owner, Progress: &p}); err != nil {
			return err
		}
	}
	f := &finishing{Finish: shell.Finish{Removed: remove}}
	out, err := tx.Swap(ctx, change)
	switch {
	case err != nil:
		return err
	case out[0] == nil:
		return ErrAttemptOver
	}
	f.Row = out[0]
	if f.Removed {
		if _, err := tx.Delete(ctx, f.Row.Ref()); err != nil {
			return err
		}
	}
	carriers := f.Row.EndCarriers()
	if p := a.Task.Parent; p != nil && change.To == task.Done {
		carriers = append(carriers, e.reportOf(e.Now(), p, a.ref.ID, change.To))
	}
	if _, err := e.followTx(ctx, tx, carriers); err != nil {
		return err
	}
	a.finishing.Store(f)
	tx.OnCommit(func() { e.finished(a, f) })
	return nil
}

// followTx inserts rows on no terms within a transaction: those that follow the end of an attempt in a transaction of its handler, or
// the row of their parent.
func (e *Engine) followTx(ctx context.Context, tx storage.Tx, rows []*task.Task) ([]storage.Inserted, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	inserted, err := e.insertIn(ctx, tx, rows, nil)
	if err != nil {
		return nil, err
	}
	tx.OnCommit(func() {
		e.tell(func(s *state, now time.Time) {
			for i, t := range rows {
				if inserted[i].Created() {
					e.inserted(now, t)
				}
				if s.Inserted(now, t, inserted[i]); t.OrderingKey != "" {
					s.Core().LookForHead(t.OrderingKey)
				}
			}
		})
	})
	return inserted, nil
}

// finished tells the shell that the transaction in which a handler ended its attempt has committed.
func (e *Engine) finished(a *attempt, f *finishing) {
	e.tell(func(s *state, now time.Time) {
		f.committed.Store(true)
		if e.config.Observer.Saved != nil {
			e.config.Observer.Saved(now, a.ref, f.Row)
		}
		s.Finished(now, a.ref, &f.Finish)
		if f.Row.OrderingKey != "" { // the store does not promote in a transaction that a caller may keep open
			s.Core().LookForHead(f.Row.OrderingKey)
		}
		s.changed(now, f.Row)
		s.waiters.ended(f.Row)
	})
}

// isFinished reads a task whose handler may have ended its attempt in a transaction, and reports
// whether it has: whether the row is that of the transaction.
func (e *Engine) isFinished(f *shell.Finish) bool {
	if f.Unread {
		row, removed, err := e.rowOfEnd(f.Row)
		if err != nil || row == nil {
			return false
		}
		f.Row, f.Removed = row, removed
		return true
	}
	t, err := e.store.Get(context.Background(), f.Row.ID)
	if err != nil {
		return f.Removed && errors.Is(err, task.ErrNotFound)
	}
	return t.Version == f.Row.Version && t.State == f.Row.State && t.UpdatedAt.Equal(f.Row.UpdatedAt)
}

// ended returns the verdict on an attempt that its handler says it has ended by a function of
// the database, with the verdict v if that is not so. It reads the row, which decides.
//
// If the row cannot be read, the verdict is v, and its save comes too late if the attempt has ended: the
// writer then reads the row once more, see isFinished.
func (a *attempt) ended(v task.Verdict) task.Verdict {
	e := a.engine
	done := a.Task.Clone() // the handler may have changed it
	done.ID, done.Type, done.Version, done.State = a.ref.ID, a.Type, a.ref.Version, task.Processing
	task.Change{Ref: a.ref, To: task.Done, At: e.Now(), Outcome: task.Completed}.Apply(done)
	f := &finishing{Finish: shell.Finish{Row: done}}
	row, removed, err := e.rowOfEnd(done)
	switch {
	case err != nil:
		f.Unread = true
		a.finishing.Store(f)
		return v
	case row == nil:
		return v
	}
	f.Row, f.Removed = row, removed
	a.finishing.Store(f)
	e.finished(a, f)
	return task.Verdict{Outcome: task.Completed} // nothing is left to be saved
}

// rowOfEnd reads the row of a task that is as done says if an attempt has ended with it in a transaction
// of its handler. It returns the row if one has: if the task is done, runs again or waits, by the change after
// the attempt. It returns done, and that the row is removed, if the row is gone and its type keeps none.
// It returns nil if the attempt has not ended, or has ended in another way.
func (e *Engine) rowOfEnd(done *task.Task) (row *task.Task, removed bool, err error) {
	t, err := e.store.Get(context.Background(), done.ID)
	switch {
	case errors.Is(err, task.ErrNotFound):
		if e.catalog.policyOf(done.Type).Retention.Done == 0 {
			return done, true, nil
		}
		return nil, false, nil
	case err != nil:
		return nil, false, err
	case t.Version != done.Version:
		return nil, false, nil
	case t.State == task.Done, (t.State == task.Waiting || t.State == task.Submitted) && ranAgain(t): // a wait may have been over at once
		return t, false, nil
	}
	return nil, false, nil
}

// ranAgain reports whether the last attempt of t has completed, so that t runs again.
func ranAgain(t *task.Task) bool {
	n := len(t.History)
	return n > 0 && t.History[n-1].Outcome == task.Completed
}
