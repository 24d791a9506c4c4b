package engine

import (
	"context"
	"slices"
	"time"

	"github.com/taskengine/taskengine/engine/internal/shell"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

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
