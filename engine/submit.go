package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/taskengine/taskengine/engine/internal/shell"
	"github.com/taskengine/taskengine/internal/reserved"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// Receipt is the result of a request. Its task is durable: a crash does not lose it.
type Receipt struct {
	ID      task.ID // of the new task, or of the existing task with the same id or key; zero if Outcome is OutcomeLate
	Created bool    // false if such a task existed, or the request was refused: nothing was added
	Outcome SubmitOutcome
	Err     error // why the request was refused: it wraps [ErrExists] or [ErrLate]; nil for the other outcomes
}

// Submit adds tasks, in order, and returns when they are durable. If all requests are
// valid it returns one receipt for each. Otherwise it adds nothing and returns an error
// that wraps [ErrInvalid], or [ErrBacklog] if a type has no room for all of them; requests of tasks
// that exist need no room. After any other error, including the error of ctx, the tasks
// may have been added: a caller that sets ids or keys can repeat the call.
//
// A request with a taken key changes the task that has the key, or is rejected, if its type says so
// ([policy.Unique]). A request with a time too far in the past adds no task, if its type says so
// ([policy.Type.MaxLateness]). If requests are refused for one of these reasons, Submit returns all receipts,
// and an error that wraps [ErrExists] or [ErrLate], or both; the other requests are done.
//
// If a type has no room and its sources pause ([policy.PauseSource]), Submit waits for room until ctx
// ends, and returns [ErrBacklog] then. Calls get room in the order in which they came. A call with the
// context of a handler does not wait, because the handler has a slot that the tasks of the backlog may
// need: it returns [ErrBacklog], and a handler that returns this error is called again some seconds
// later, without a further attempt. Until then its task has a place among the calls that wait.
//
// A call with requests that have children ([task.NewChildren]), or run after other tasks, is one transaction, as one with [Engine.SubmitTx], which says what
// that means for backlogs: it does not wait for room. If several databases hold the tasks, it is in that of the first parent.
func (e *Engine) Submit(ctx context.Context, reqs ...Request) ([]Receipt, error) {
	if len(reqs) == 0 {
		return nil, nil
	}
	reqs, err := e.decorated(ctx, reqs)
	if err != nil {
		return nil, err
	}
	if haveFamilies(reqs) {
		return e.submitFamilies(ctx, slices.Clone(reqs)) // a clone: reqs stays on the stack of the caller
	}
	rows, err := e.catalog.rows(reqs, nil)
	if err != nil {
		return nil, err
	}
	return e.submit(ctx, reqs, rows)
}

// SubmitReserved is Submit for a part of the engine that owns the type and the id of the request. Requests of others that
// name these are invalid, see [task.IsReservedType] and [task.IsReservedID].
func (e *Engine) SubmitReserved(ctx context.Context, _ reserved.Owner, req Request) (Receipt, error) {
	reqs, err := e.decorated(ctx, []Request{req})
	if err != nil {
		return Receipt{}, err
	}
	rows, err := e.catalog.ownRows(reqs, nil)
	if err != nil {
		return Receipt{}, err
	}
	receipts, err := e.submit(ctx, reqs, rows)
	if err != nil {
		return Receipt{}, err
	}
	return receipts[0], nil
}

// submit adds the rows of requests, or applies the rules of their types to late requests and taken keys.
func (e *Engine) submit(ctx context.Context, reqs []Request, rows []*task.Task) ([]Receipt, error) {
	receipts, terms := receiptsOf(rows), e.catalog.terms(rows) // now: a handler may change its row
	inserted, err := e.insert(ctx, rows, terms, !mayExist(reqs, rows))
	if err == nil {
		return e.catalog.answer(rows, receipts, inserted)
	}
	if full, ok := errors.AsType[*shell.Full](err); ok {
		return e.submitFull(ctx, slices.Clone(reqs), rows, terms, full) // a clone: reqs stays on the stack of the caller
	}
	return nil, err
}

// insert inserts rows on terms, and returns when they are durable. If waits is set, it waits for room in
// backlogs with paused sources. If its error is a [shell.Full], the rows are unchanged and belong to
// the caller again.
func (e *Engine) insert(ctx context.Context, rows []*task.Task, terms []storage.Terms, waits bool) ([]storage.Inserted, error) {
	s := e.inbox.submission()
	s.Rows, s.Terms, s.Waits, s.For = rows, terms, waits, task.ID{}
	if len(e.backlogs.capped) > 0 {
		s.For = e.taskOf(ctx)
	}
	if err := e.inbox.submit(s); err != nil {
		return nil, err
	}
	select {
	case err := <-s.Done:
		inserted := s.Inserted
		e.inbox.reuse(s)
		if err != nil {
			return nil, err
		}
		return inserted, nil
	case <-ctx.Done(): // a writer may still have s, which is not reused
		if err := e.withdraw(ctx, s); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("engine: submit: the tasks may have been added: %w", context.Cause(ctx))
	}
}

// SubmitTx adds tasks within a transaction of the engine's store: they exist, and are
// triggered, if and only if it commits. The transaction also has the effects of requests with a taken key. If several
// databases hold the tasks, a task with a key, an ordering key or an id of another database is added there once, after the
// commit. Its receipt says that it was created, although its key may turn out to be taken there.
//
// It returns [ErrBacklog] if a type has no room for the tasks that the transaction adds, whatever [policy.WhenFull] says: it
// drops no others, and does not wait. Then the call has added nothing, and no task has given up its key. If it returns
// receipts with an error, which wraps [ErrExists], [ErrLate] or [ErrBacklog], the transaction may be committed, with what
// the other requests did; [ErrBacklog] is such an error only if a task has ended while it was in the way of a request.
func (e *Engine) SubmitTx(ctx context.Context, tx storage.Tx, reqs ...Request) ([]Receipt, error) {
	return e.submitTx(ctx, tx, reqs, e.catalog.rows)
}

// SubmitReservedTx is SubmitTx as [Engine.SubmitReserved] is Submit.
func (e *Engine) SubmitReservedTx(ctx context.Context, _ reserved.Owner, tx storage.Tx, reqs ...Request) ([]Receipt, error) {
	return e.submitTx(ctx, tx, reqs, e.catalog.ownRows)
}

// submitTx adds tasks within a transaction. rowsOf returns the rows of requests.
func (e *Engine) submitTx(ctx context.Context, tx storage.Tx, reqs []Request, rowsOf func([]Request, *task.Shards) ([]*task.Task, error)) ([]Receipt, error) {
	shards := shardsOf(tx)
	reqs, err := e.decorated(ctx, reqs)
	if err != nil {
		return nil, err
	}
	if haveFamilies(reqs) {
		reqs = slices.Clone(reqs)
		if err := e.decorateChildren(ctx, reqs); err != nil {
			return nil, err
		}
		rows, families, err := e.familyRows(reqs, shards, rowsOf)
		if err == nil {
			err = e.lookForFar(ctx, rows, families, shards)
		}
		if err != nil {
			return nil, err
		}
		return e.submitFamiliesTx(ctx, tx, reqs, rows, families, e.catalog.terms)
	}
	rows, err := rowsOf(reqs, shards)
	if err != nil {
		return nil, err
	}
	leaving, err := e.leave(e.taskOf(ctx), reqs, rows, shards, false, nil)
	switch {
	case err != nil:
		return nil, err
	case leaving != nil:
		return leaving.submitTx(ctx, e, tx)
	}
	return e.submitRowsTx(ctx, tx, reqs, rows, e.catalog.terms)
}

// submitRowsTx adds the rows of requests within a transaction, on the terms that a function returns for any of them.
func (e *Engine) submitRowsTx(ctx context.Context, tx storage.Tx, reqs []Request, rows []*task.Task, termsOf func([]*task.Task) []storage.Terms) (_ []Receipt, err error) {
	if err := e.inbox.accepting(); err != nil {
		return nil, err
	}
	terms, err := e.admitTx(ctx, tx, reqs, rows, termsOf(rows))
	if err != nil {
		return nil, err
	}
	receipts := receiptsOf(rows)
	inserted, err := e.insertIn(ctx, tx, rows, terms)
	if err != nil {
		return nil, fmt.Errorf("engine: submit: %w", err)
	}
	if err := e.addLeftIn(ctx, tx, rows, receipts, inserted, termsOf); err != nil {
		return nil, fmt.Errorf("engine: submit: %w", err)
	}
	tx.OnCommit(func() {
		e.tell(func(s *state, now time.Time) {
			s.openTxs.end(tx)
			for i, t := range rows {
				if inserted[i].Created() {
					e.inserted(now, t)
				}
				s.Inserted(now, t, inserted[i])
				if inserted[i].Created() && t.OrderingKey != "" {
					s.Core().LookForHead(t.OrderingKey)
				}
			}
			for i := range inserted {
				if inserted[i].Replaced != nil {
					s.changed(now, inserted[i].Replaced.Row)
					s.Replaced(now, inserted[i].Replaced)
				}
			}
		})
	})
	for i := range inserted {
		if receipts[i].Err == nil {
			e.catalog.complete(rows[i], &receipts[i], &inserted[i])
		}
	}
	return receipts, e.catalog.refused(receipts)
}

// insertIn inserts rows on terms within a transaction of the caller.
func (e *Engine) insertIn(ctx context.Context, tx storage.Tx, rows []*task.Task, terms []storage.Terms) ([]storage.Inserted, error) {
	e.tell(func(s *state, now time.Time) {
		for _, t := range rows {
			e.catalog.infoOf(t.Type).rules.Create(now, t)
		}
		s.InsertUncertain(now, rows) // the answer to the commit may be lost
	})
	inserted, err := storage.Add(ctx, tx, rows, terms)
	if err != nil {
		return nil, err
	}
	e.tell(func(s *state, now time.Time) {
		for _, in := range inserted {
			if in.Replaced != nil {
				s.ReplaceUncertain(now, in.Replaced.Was.Ref)
			}
		}
	})
	e.markUncommitted(rows)
	e.addedInTx(tx, rows, inserted)
	return inserted, nil
}

// addLeftIn is [Engine.addLeft] within a transaction. It sets the receipts of requests for which there is no room.
func (e *Engine) addLeftIn(ctx context.Context, tx storage.Tx, rows []*task.Task, receipts []Receipt, inserted []storage.Inserted, termsOf func([]*task.Task) []storage.Terms) error {
	for i := range inserted {
		if !inserted[i].NoPlace {
			continue
		}
		if full := e.roomInTx(tx, rows[i:i+1]); full != nil {
			if err := refuseOne(receipts, &receipts[i], e.refuse(full)); err != nil {
				return err
			}
			continue
		}
		terms := termsOf(rows[i : i+1])
		for k := range terms {
			terms[k].NoPlace = false
		}
		added, err := e.insertIn(ctx, tx, rows[i:i+1], terms)
		if err != nil {
			return err
		}
		inserted[i] = added[0]
	}
	return nil
}

// markUncommitted marks rows as uncertain that a transaction is about to add: if the answer to
// its commit is lost, its OnCommit functions are not called. Nodes that share a store look for
// such rows anyway. A store that nodes cannot share loses no answer: it fails for good.
func (e *Engine) markUncommitted(rows []*task.Task) {
	if e.isUnwatched() {
		e.tell(func(s *state, now time.Time) { s.InsertUncertain(now, rows) })
	}
}

// isUnwatched reports whether others may write to the store, and no poll of a cluster finds their writes.
func (e *Engine) isUnwatched() bool {
	_, isWritten := e.store.(storage.Shared)
	return isWritten && !e.cluster.IsShared()
}

// receiptsOf returns the receipts of rows, without their outcome.
func receiptsOf(rows []*task.Task) []Receipt {
	out := make([]Receipt, len(rows))
	for i, t := range rows {
		out[i].ID = t.ID
	}
	return out
}

var errPreparedSpent = errors.New("engine: submit: these requests were submitted before; prepare them again")

// Prepared are requests that were checked and are rows already, but for their ids, for [Relay.Place]. It belongs to one
// goroutine at a time.
type Prepared struct {
	engine *Engine // nil when they were placed
	reqs   []Request
	rows   []*task.Task
}

// Prepare does the part of [Relay.SubmitTx] that needs no transaction: it checks the requests and makes their rows. So
// the transaction is shorter, and may run for other requests in that time. Nothing is added, and Prepared may be thrown away.
// The caller changes no request until they are submitted.
func (e *Engine) Prepare(ctx context.Context, reqs ...Request) (*Prepared, error) {
	reqs, err := e.decorated(ctx, reqs)
	if err != nil {
		return nil, err
	}
	rows, err := e.catalog.unsettledRows(reqs)
	if err != nil {
		return nil, err
	}
	return &Prepared{engine: e, reqs: reqs, rows: rows}, nil
}
