package engine

import (
	"context"
	"errors"

	"github.com/taskengine/taskengine/engine/internal/shell"
	"github.com/taskengine/taskengine/task"
)

// ended returns the verdict on an attempt whose handler says that it has ended the attempt by a function of
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
// of its handler. It returns the row if one has: if the task is done, or runs again, by the change after
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
	case t.State == task.Done, t.State == task.Waiting && ranAgain(t):
		return t, false, nil
	}
	return nil, false, nil
}

// ranAgain reports whether the last attempt of t has completed, so that t runs again.
func ranAgain(t *task.Task) bool {
	n := len(t.History)
	return n > 0 && t.History[n-1].Outcome == task.Completed
}
