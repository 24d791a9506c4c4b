package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/taskengine/taskengine/engine/internal/shell"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// settleIn is settle within a transaction of the caller. It returns the rows that it has changed and, by its request, what
// became of a row that it has inserted once more. After an error that is not about rejected requests, there are no
// receipts. without are the rows that need a place in a backlog if they are added after all.
func (e *Engine) settleIn(ctx context.Context, tx storage.Tx, rows, without []*task.Task, receipts []Receipt) ([]Receipt, *settledIn, error) {
	var done settledIn
	for _, i := range e.catalog.conflicts(rows, receipts) {
		r, err := e.settleOneIn(ctx, tx, rows[i], &receipts[i], slices.Contains(without, rows[i]))
		if err != nil {
			err = e.refuseOne(receipts, &receipts[i], err)
		}
		switch {
		case err != nil:
			return nil, nil, fmt.Errorf("engine: submit: %w", err)
		case r.Row != nil:
			done.replaced = append(done.replaced, r)
		case receipts[i].Created:
			done.added = append(done.added, rows[i])
		}
	}
	return receipts, &done, e.catalog.refused(receipts)
}

// settledIn is what requests whose keys were taken have done in a transaction of the caller.
type settledIn struct {
	replaced []shell.Replaced
	added    []*task.Task
}

// settleOneIn settles a request. If needsPlace is set, it adds a task only if the backlog of its type has room.
func (e *Engine) settleOneIn(ctx context.Context, tx storage.Tx, row *task.Task, r *Receipt, needsPlace bool) (shell.Replaced, error) {
	for range editTries {
		t, err := e.holderOf(ctx, tx, row, r)
		if err != nil {
			return shell.Replaced{}, err
		}
		change := e.catalog.resolve(e.Now(), t, row, r)
		if needsPlace && (r.Outcome == OutcomeCreated || change != nil && change.FreesKey) {
			if full := e.roomInTx(tx, []*task.Task{row}); full != nil {
				return shell.Replaced{}, e.refuse(full)
			}
			needsPlace = false
		}
		switch {
		case r.Outcome == OutcomeCreated: // it can be: its key is free
			e.tell(func(_ *state, now time.Time) { e.catalog.infoOf(row.Type).rules.Create(now, row) }) // later than what was decided
			inserted, err := tx.Insert(ctx, row)
			if err != nil {
				return shell.Replaced{}, err
			}
			if *r = complete(receiptsOf([]*task.Task{row}), inserted)[0]; r.Created {
				e.addedInTx(tx, []*task.Task{row}, inserted)
				return shell.Replaced{}, nil
			}
			continue
		case change == nil:
			return shell.Replaced{}, nil
		case change.FreesKey:
			if _, err := tx.Swap(ctx, *change); err != nil {
				return shell.Replaced{}, err
			}
			continue
		}
		e.tell(func(s *state, now time.Time) { s.ReplaceUncertain(now, t.Ref()) })
		after, err := tx.Swap(ctx, *change)
		if err != nil {
			return shell.Replaced{}, err
		}
		if after[0] != nil {
			return shell.Replaced{Was: t.Hint(), Row: after[0]}, nil
		}
	}
	return shell.Replaced{}, fmt.Errorf("task %v: %w, %d times in a row", r.ID, ErrStale, editTries)
}
