package engine

import (
	"context"
	"time"

	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/storage"
)

// cleanPage is how many rows are removed in one transaction, and cleanPause how long
// the cleaner rests between two, so that it does not compete with the tasks.
const (
	cleanPage  = 500
	cleanPause = 20 * time.Millisecond
	// cleanEvery is how long the cleaner sleeps at most when nothing is due.
	cleanEvery = time.Hour
)

// clean removes finished tasks when their retention is over. It is the duty of one
// node; two doing it at once waste work and nothing else.
func (e *Engine) clean(ctx context.Context) error {
	if s, ok := e.store.(storage.Expirer); ok {
		return e.sweepEnded(ctx, s)
	}
	for {
		next := time.Now().Add(e.cleanEvery())
		for _, s := range []task.State{task.Done, task.Failed, task.Cancelled} {
			at, err := e.cleanState(ctx, s)
			if err != nil {
				return err
			}
			if !at.IsZero() && at.Before(next) {
				next = at
			}
		}
		if err := sleep(ctx, max(time.Second, time.Until(next))); err != nil {
			return err
		}
	}
}

// sweepEvery is how long those rest at most, and at least, that have a store sweep.
const (
	sweepEvery = 10 * time.Minute
	sweepRest  = time.Minute
)

// sweepEnded has a store remove what it removes in a way of its own.
func (e *Engine) sweepEnded(ctx context.Context, s storage.Expirer) error {
	for {
		n, next, err := s.Expire(ctx, time.Now())
		if err != nil {
			return err
		}
		if n > 0 {
			e.log.Info("removed what nobody wants any more", "tasks", n)
		}
		wait := sweepEvery
		if !next.IsZero() {
			wait = min(max(time.Until(next), sweepRest), sweepEvery)
		}
		if err := sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// cleanEvery returns how long the cleaner sleeps at most: tasks that end meanwhile are
// kept no longer than twice their retention for it.
func (e *Engine) cleanEvery() time.Duration {
	every := cleanEvery
	for _, t := range e.config.Policies.Types {
		for _, keep := range []time.Duration{t.Retention.Done, t.Retention.Failed, t.Retention.Cancelled} {
			if keep > 0 {
				every = min(every, keep)
			}
		}
	}
	return max(every, time.Second)
}

// cleanState removes the rows of one state whose time has come and returns when the
// time of the next comes, zero if there is none.
func (e *Engine) cleanState(ctx context.Context, s task.State) (time.Time, error) {
	var after storage.Due
	for {
		page, err := e.store.Due(ctx, storage.DueQuery{State: s, After: after, Before: distantFuture, Limit: cleanPage})
		if err != nil || len(page) == 0 {
			return time.Time{}, err
		}
		var refs []task.Ref
		var next time.Time
		for _, d := range page {
			if d.At.After(time.Now()) {
				next = d.At
				break
			}
			refs = append(refs, d.Ref)
		}
		if len(refs) > 0 {
			if _, err := e.store.Delete(ctx, refs...); err != nil {
				return time.Time{}, err
			}
			after = page[len(refs)-1]
		}
		if !next.IsZero() {
			return next, nil
		}
		if err := sleep(ctx, cleanPause); err != nil {
			return time.Time{}, err
		}
	}
}
