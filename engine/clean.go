package engine

import (
	"context"
	"time"

	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

const (
	// cleanPage is how many rows the cleaner removes in one transaction.
	cleanPage = 500
	// cleanPause is how long it rests between two, so that it does not compete with the tasks.
	cleanPause = 20 * time.Millisecond
	// cleanEvery is how long the cleaner sleeps at most when nothing is due.
	cleanEvery = time.Hour
)

// clean removes ended tasks when their retention is over. One node does it. If two nodes do
// it at once they waste work, and cause no other harm.
func (e *Engine) clean(ctx context.Context) error {
	if s, ok := e.store.(storage.Expirer); ok {
		return e.expire(ctx, s)
	}
	for {
		next := e.Now().Add(e.cleanEvery())
		for _, s := range []task.State{task.Done, task.Failed, task.Cancelled} {
			at, err := e.cleanState(ctx, s)
			if err != nil {
				return err
			}
			if !at.IsZero() && at.Before(next) {
				next = at
			}
		}
		if err := wakeup.Sleep(ctx, max(time.Second, next.Sub(e.Now()))); err != nil {
			return err
		}
	}
}

// How long the cleaner rests at least, and at most, between two calls of Expire.
const (
	minExpireRest = time.Minute
	maxExpireRest = 10 * time.Minute
)

// expire lets the store remove the ended tasks after their retention.
func (e *Engine) expire(ctx context.Context, s storage.Expirer) error {
	for {
		n, next, err := s.Expire(ctx, e.Now())
		if err != nil {
			return err
		}
		if n > 0 {
			e.log.Info("removed tasks after their retention", "tasks", n)
		}
		wait := maxExpireRest
		if !next.IsZero() {
			wait = min(max(next.Sub(e.Now()), minExpireRest), maxExpireRest)
		}
		if err := wakeup.Sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// cleanEvery returns how long the cleaner sleeps at most. It is not longer than the shortest
// retention: so a task that ends in that time is kept for at most twice its retention, and so is its key.
func (e *Engine) cleanEvery() time.Duration {
	every := cleanEvery
	for _, t := range e.catalog.policies().Types {
		for _, keep := range []time.Duration{t.Retention.Done, t.Retention.Failed, t.Retention.Cancelled, t.Unique.Remembers()} {
			if keep > 0 {
				every = min(every, keep)
			}
		}
	}
	return max(every, time.Second)
}

// cleanState removes the rows of one state after their retention. It returns when the next
// row is due, zero if there is none.
func (e *Engine) cleanState(ctx context.Context, s task.State) (time.Time, error) {
	var after storage.Due
	for {
		page, err := e.store.Due(ctx, storage.DueQuery{State: s, After: after, Before: storage.DistantFuture, Limit: cleanPage})
		if err != nil || len(page) == 0 {
			return time.Time{}, err
		}
		var refs []task.Ref
		var next time.Time
		for _, d := range page {
			if d.At.After(e.Now()) {
				next = d.At
				break
			}
			refs = append(refs, d.Ref)
		}
		if len(refs) > 0 {
			after = page[len(refs)-1]
			if refs, err = e.remembered(ctx, s, page[:len(refs)]); err != nil {
				return time.Time{}, err
			}
			if _, err := e.store.Delete(ctx, refs...); err != nil {
				return time.Time{}, err
			}
		}
		if !next.IsZero() {
			return next, nil
		}
		if err := wakeup.Sleep(ctx, cleanPause); err != nil {
			return time.Time{}, err
		}
	}
}

// remembered makes tombstones of rows after their retention if their keys are remembered for longer. It returns
// the other rows.
func (e *Engine) remembered(ctx context.Context, s task.State, page []storage.Due) (others []task.Ref, err error) {
	var changes []task.Change
	for _, d := range page {
		if remember := e.catalog.infoOf(d.Type).rules.Remember; s == task.Done && remember > 0 {
			changes = append(changes, task.Change{Ref: d.Ref, To: task.Done, At: e.Now(), Remember: remember})
		} else {
			others = append(others, d.Ref)
		}
	}
	if len(changes) == 0 {
		return others, nil
	}
	after, err := e.store.Swap(ctx, changes...)
	if err != nil {
		return nil, err
	}
	for i, t := range after {
		if t == nil { // it has no key, or was remembered for long enough
			others = append(others, changes[i].Ref)
		}
	}
	return others, nil
}
