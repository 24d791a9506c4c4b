package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/taskengine/taskengine/engine/internal/shell"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// ErrBacklog is wrapped by the errors of requests that would exceed max_backlog of a type, see
// [policy.Backlog]. Nothing was added, and the call can be repeated later.
var ErrBacklog = errors.New("the backlog is full")

// errSourcePaused is wrapped by the errors of handlers if a place is kept for their tasks.
var errSourcePaused = fmt.Errorf("%w", ErrBacklog)

// pausedRetry is when a task runs again after its handler found no room for the tasks that it adds.
const pausedRetry = 5 * time.Second

// refuse counts a request that finds no place, and returns its error.
func (e *Engine) refuse(f *shell.Full) error {
	if f.IsKept {
		return fmt.Errorf("%w: %s; its task runs again", errSourcePaused, lack(f))
	}
	e.tell(func(s *state, now time.Time) { s.Rejected(now, f) })
	return fmt.Errorf("%w: %s", ErrBacklog, refusal(f))
}

// refusal says why there is no room, and how to go on.
func refusal(f *shell.Full) string {
	switch {
	case f.New > f.Max:
		return fmt.Sprintf("the request adds %d tasks of type %s at once, and max_backlog allows %d; submit fewer", f.New, f.Type, f.Max)
	case f.IsCrowded:
		return lack(f) + ", and no further call may wait for room; submit again later"
	}
	return lack(f) + "; submit again when some have started"
}

// lack says why there is no room.
func lack(f *shell.Full) string {
	waiting := ""
	if f.Waiting > 0 {
		waiting = fmt.Sprintf(" and %d that wait for room", f.Waiting)
	}
	return fmt.Sprintf("type %s has %d tasks%s that have not started, of %d allowed by max_backlog, and the request adds %d more", f.Type, f.Count, waiting, f.Max, f.New)
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

// taskOf returns the task of the handler of this engine that has ctx; zero if there is none.
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

// submitFull submits rows that found no place in a backlog: without places for rows that are not added as far as it is
// known, and after dropping others if the type is configured so.
func (e *Engine) submitFull(ctx context.Context, reqs []Request, rows []*task.Task, terms []storage.Terms, full *shell.Full) ([]Receipt, error) {
	if err := e.inbox.accepting(); err != nil { // it waited for room, and the engine stops
		return nil, err
	}
	receipts := receiptsOf(rows)
	terms, again, err := e.withoutPlaces(ctx, e.store, reqs, rows, terms)
	if err != nil {
		return nil, err
	}
	for { // without again, full is about the same rows
		if !again && full.WhenFull == policy.DropOldest && full.New <= full.Max {
			if again, err = e.backlogs.droppers[full.Type].makeRoom(ctx, e, full); err != nil {
				return nil, err
			}
		}
		if !again && !full.CanWait {
			return nil, e.refuse(full)
		}
		inserted, err := e.insert(ctx, rows, terms, true)
		if err == nil {
			return e.addLeft(ctx, reqs, rows, receipts, inserted)
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

// addLeft answers requests, after it has submitted requests once more that got no place and would have added their rows: the
// keys have become free. Each of them is admitted to its backlog by itself.
func (e *Engine) addLeft(ctx context.Context, reqs []Request, rows []*task.Task, receipts []Receipt, inserted []storage.Inserted) ([]Receipt, error) {
	for i := range inserted {
		if !inserted[i].NoPlace {
			e.catalog.complete(rows[i], &receipts[i], &inserted[i])
			continue
		}
		one, err := e.submit(ctx, reqs[i:i+1], rows[i:i+1])
		switch {
		case one != nil:
			receipts[i] = one[0]
		case err != nil:
			if err = refuseOne(receipts, &receipts[i], err); err != nil {
				return nil, err
			}
		}
	}
	return receipts, e.catalog.refused(receipts)
}

// withoutPlaces returns the terms of requests, without places for requests that are not added as far as it is known,
// because their tasks exist; and whether there are any.
func (e *Engine) withoutPlaces(ctx context.Context, in storage.Tasks, reqs []Request, rows []*task.Task, terms []storage.Terms) (_ []storage.Terms, some bool, err error) {
	if !mayExist(reqs, rows) {
		return terms, false, nil
	}
	existing, err := in.Existing(ctx, rows...)
	if err != nil {
		return nil, false, fmt.Errorf("engine: submit: look for tasks that exist: %w", err)
	}
	terms = slices.Clone(terms)
	for i, id := range existing {
		if id.IsZero() {
			continue
		}
		adds, err := e.frees(ctx, in, rows[i], id)
		if err != nil {
			return nil, false, fmt.Errorf("engine: submit: look for tasks that exist: %w", err)
		}
		if adds {
			continue
		}
		if terms == nil {
			terms = make([]storage.Terms, len(rows))
		}
		terms[i].NoPlace, some = true, true
	}
	return terms, some, nil
}

// frees reports whether a row is added although a task has its key: that gives its key up.
func (e *Engine) frees(ctx context.Context, in storage.Tasks, row *task.Task, holder task.ID) (bool, error) {
	rules := e.catalog.infoOf(row.Type).rules
	if holder == row.ID || rules.OnConflict != policy.ThrottleNew {
		return false, nil
	}
	t, err := in.Get(ctx, holder)
	switch {
	case errors.Is(err, task.ErrNotFound):
		return true, nil
	case err != nil:
		return false, err
	case t.Key != row.Key:
		return true, nil
	}
	what, _ := task.Resolve(e.Now(), t, row, rules)
	return what == task.FreesKey, nil
}

// existing returns for each row the task that has its ID or key; zero if there is none, or only an
// earlier row of the same call. The rows that it has found are durable.
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

// mayExist reports whether one of the requests may have been made before.
func mayExist(reqs []Request, rows []*task.Task) bool {
	for i, t := range rows {
		if t.Key != "" || !reqs[i].ID.IsZero() {
			return true
		}
	}
	return false
}

// maxOpenTxs is how many transactions of callers [openTxs] has at most.
const maxOpenTxs = 256

// openTxs are the transactions of callers that have added rows of types with a maximum and are not known to have
// committed, the oldest first. A transaction that is rolled back stays until maxOpenTxs others have followed.
type openTxs []openTx

type openTx struct {
	tx    storage.Tx
	added map[string]int // by type: the rows that it has added
}

// of returns how many rows a transaction has added, by their types.
func (o openTxs) of(tx storage.Tx) map[string]int {
	if i := o.index(tx); i >= 0 {
		return o[i].added
	}
	return nil
}

func (o openTxs) index(tx storage.Tx) int {
	return slices.IndexFunc(o, func(t openTx) bool { return t.tx == tx })
}

// add counts a row that a transaction has added.
func (o *openTxs) add(tx storage.Tx, typ string) {
	i := o.index(tx)
	if i < 0 {
		if len(*o) == maxOpenTxs {
			*o = slices.Delete(*o, 0, 1)
		}
		i, *o = len(*o), append(*o, openTx{tx, make(map[string]int)})
	}
	(*o)[i].added[typ]++
}

// end forgets a transaction that has committed.
func (o *openTxs) end(tx storage.Tx) {
	if i := o.index(tx); i >= 0 {
		*o = slices.Delete(*o, i, i+1)
	}
}

// admitTx returns an error if the tasks that requests add in a transaction exceed a maximum. Nothing was added then, and
// no task has given up its key. It claims no places. Otherwise it returns the terms of the requests, some of which then have no
// place because they are not added as far as it is known: their tasks exist.
func (e *Engine) admitTx(ctx context.Context, tx storage.Tx, reqs []Request, rows []*task.Task, terms []storage.Terms) ([]storage.Terms, error) {
	full := e.roomInTx(tx, needPlaces(rows, terms))
	if full == nil {
		return terms, nil
	}
	terms, some, err := e.withoutPlaces(ctx, tx, reqs, rows, terms)
	if err != nil {
		return nil, err
	}
	if some {
		full = e.roomInTx(tx, needPlaces(rows, terms))
	}
	if full != nil {
		return nil, e.refuse(full)
	}
	return terms, nil
}

// needPlaces returns the rows that need places in backlogs.
func needPlaces(rows []*task.Task, terms []storage.Terms) []*task.Task {
	return (&shell.Submission{Rows: rows, Terms: terms}).Placed()
}

// roomInTx returns why the backlogs have no room for more rows of a transaction, or nil.
func (e *Engine) roomInTx(tx storage.Tx, rows []*task.Task) (full *shell.Full) {
	if len(e.backlogs.capped) == 0 {
		return nil
	}
	e.tell(func(s *state, _ time.Time) { full = s.Room(s.openTxs.of(tx), rows) })
	return full
}

// addedInTx counts the added rows of a transaction.
func (e *Engine) addedInTx(tx storage.Tx, rows []*task.Task, inserted []storage.Inserted) {
	if len(e.backlogs.capped) == 0 {
		return
	}
	e.tell(func(s *state, _ time.Time) {
		for i, in := range inserted {
			if in.Created() && slices.Contains(e.backlogs.capped, rows[i].Type) {
				s.openTxs.add(tx, rows[i].Type)
			}
		}
	})
}
