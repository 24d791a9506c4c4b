package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/taskengine/taskengine/engine/internal/shell"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// ErrBacklog is wrapped by the errors of requests that would exceed max_backlog of a type, see
// [policy.Backlog]. Nothing was added, and the call can be repeated later.
var ErrBacklog = errors.New("the backlog is full")

// errSourcePaused is wrapped by the errors of handlers for whose tasks a place is kept.
var errSourcePaused = fmt.Errorf("%w", ErrBacklog)

// pausedRetry is when a task runs again whose handler found no room for the tasks that it adds.
const pausedRetry = 5 * time.Second

// refuse counts a request that finds no place, and returns its error.
func (e *Engine) refuse(f *shell.Full) error {
	if f.IsKept {
		return fmt.Errorf("%w: %s; its task runs again", errSourcePaused, lack(f))
	}
	e.tell(func(s *state, now time.Time) { s.Rejected(now, f) })
	switch {
	case f.New > f.Max:
		return fmt.Errorf("%w: %d tasks of type %s were to be added at once, of %d allowed by max_backlog; submit fewer", ErrBacklog, f.New, f.Type, f.Max)
	case f.IsCrowded:
		return fmt.Errorf("%w: %s, and no further call may wait for room; submit again later", ErrBacklog, lack(f))
	}
	return fmt.Errorf("%w: %s; submit again when some have started", ErrBacklog, lack(f))
}

// lack says why there is no room.
func lack(f *shell.Full) string {
	waiting := ""
	if f.Waiting > 0 {
		waiting = fmt.Sprintf(" and %d that wait for room", f.Waiting)
	}
	return fmt.Sprintf("type %s has %d tasks%s that have not started, of %d allowed by max_backlog, and %d more were to be added", f.Type, f.Count, waiting, f.Max, f.New)
}

// withdraw ends the wait of a submission for room. It returns nil if the submission does not wait.
func (e *Engine) withdraw(ctx context.Context, sub *shell.Submission) error {
	var full *shell.Full
	e.tell(func(s *state, now time.Time) {
		if full = s.Withdraw(now, sub); full != nil {
			s.Rejected(now, full)
		}
	})
	if full == nil {
		return nil
	}
	return fmt.Errorf("%w: %s, and the call waited for room until its context ended: %w", ErrBacklog, lack(full), context.Cause(ctx))
}

// taskOf returns the task whose handler of this engine has ctx; zero if there is none.
func (e *Engine) taskOf(ctx context.Context) task.ID {
	if a, ok := ctx.Value(attemptKey{}).(*attempt); ok && a.engine == e {
		return a.ID
	}
	return task.ID{}
}

// paused returns the verdict on an attempt that found no room for the tasks that it adds: it does not
// count, and the task runs again later. Other verdicts it returns as they are.
func paused(v task.Verdict, err error) task.Verdict {
	if v.Outcome != task.Errored || v.GiveUp || v.InDoubt || !errors.Is(err, errSourcePaused) {
		return v
	}
	delay := v.Delay
	if delay < 0 {
		delay = pausedRetry
	}
	return task.Verdict{Outcome: task.Snoozed, Delay: delay, Error: v.Error}
}

// submitFull submits rows that found no place in a backlog: without those that exist already, and
// after dropping others if the type is configured so.
func (e *Engine) submitFull(ctx context.Context, reqs []Request, rows []*task.Task, full *shell.Full) ([]Receipt, error) {
	if err := e.inbox.accepting(); err != nil { // it waited for room, and the engine stops
		return nil, err
	}
	receipts := receiptsOf(rows)
	existing, err := e.existing(ctx, reqs, rows)
	if err != nil {
		return nil, fmt.Errorf("engine: submit: look for tasks that exist: %w", err)
	}
	var fresh []*task.Task
	var places []int // of fresh in rows
	for i, id := range existing {
		if id.IsZero() {
			fresh, places = append(fresh, rows[i]), append(places, i)
		} else {
			receipts[i] = Receipt{ID: id}
		}
	}
	adds, err := e.follows(ctx, e.store, rows, existing)
	if err != nil {
		return nil, fmt.Errorf("engine: submit: look for tasks that exist: %w", err)
	}
	if len(adds) > 0 { // all or none
		if err := e.makeRoom(ctx, append(adds, fresh...)...); err != nil {
			return nil, err
		}
	}
	if len(fresh) == 0 {
		return receipts, nil
	}
	again := len(fresh) < len(rows) // otherwise full is about the same rows
	for {
		if !again && full.WhenFull == policy.DropOldest && full.New <= full.Max {
			if again, err = e.droppers[full.Type].makeRoom(ctx, e, full); err != nil {
				return nil, err
			}
		}
		if !again && !full.CanWait {
			return nil, e.refuse(full)
		}
		inserted, err := e.insert(ctx, fresh, true)
		if err == nil {
			for i, r := range complete(receiptsOf(fresh), inserted) {
				receipts[places[i]] = r
			}
			return receipts, nil
		}
		if !errors.As(err, &full) {
			return nil, err
		}
		if err := e.inbox.accepting(); err != nil {
			return nil, err
		}
		again = false
	}
}

// makeRoom returns when the backlogs have room for more rows, or when a submission of them may wait for it.
func (e *Engine) makeRoom(ctx context.Context, rows ...*task.Task) error {
	if len(e.capped) == 0 {
		return nil
	}
	for {
		var full *shell.Full
		e.tell(func(s *state, _ time.Time) { full = s.Room(nil, rows) })
		if full == nil || full.WhenFull == policy.PauseSource && full.New <= full.Max {
			return nil
		}
		made := false
		if full.WhenFull == policy.DropOldest && full.New <= full.Max {
			var err error
			if made, err = e.droppers[full.Type].makeRoom(ctx, e, full); err != nil {
				return err
			}
		}
		if !made {
			return e.refuse(full)
		}
	}
}

// follows returns those of the rows, of which a task has the key, that are added all the same: that task gives its key up.
func (e *Engine) follows(ctx context.Context, in storage.Tasks, rows []*task.Task, existing []task.ID) (adds []*task.Task, err error) {
	for i, id := range existing {
		if id.IsZero() || id == rows[i].ID || e.catalog.infoOf(rows[i].Type).rules.OnConflict != policy.ThrottleNew {
			continue
		}
		r := Receipt{ID: id}
		t, err := e.holderOf(ctx, in, rows[i], &r)
		if err != nil {
			return nil, err
		}
		if c := e.catalog.resolve(e.Now(), t, rows[i], &r); c != nil || r.Outcome == OutcomeCreated {
			adds = append(adds, rows[i])
		}
	}
	return adds, nil
}

// existing returns for each row the task that has its ID or key; zero if there is none, or only an
// earlier row of the same call. What it has found is durable.
func (e *Engine) existing(ctx context.Context, reqs []Request, rows []*task.Task) (found []task.ID, err error) {
	if !mayExist(reqs, rows) {
		return make([]task.ID, len(rows)), nil
	}
	err = e.store.Update(ctx, func(tx storage.Tx) (err error) {
		found, err = tx.Existing(ctx, rows...)
		return err
	})
	return found, err
}

// existingIn returns existing within a transaction.
func existingIn(tx storage.Tx) lookUp {
	return func(ctx context.Context, reqs []Request, rows []*task.Task) ([]task.ID, error) {
		if !mayExist(reqs, rows) {
			return make([]task.ID, len(rows)), nil
		}
		return tx.Existing(ctx, rows...)
	}
}

// mayExist reports whether one of the requests may have been made before.
func mayExist(reqs []Request, rows []*task.Task) bool {
	for i, t := range rows {
		if t.Key != "" || !reqs[i].ID.IsZero() {
			return true
		}
	}
	return false
}
