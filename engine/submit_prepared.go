package engine

import (
	"context"
	"errors"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

var (
	errPreparedSpent = errors.New("engine: submit: these requests were submitted before; prepare them again")
	errPreparedPlace = errors.New("engine: submit: prepared requests need a store that is one database")
)

// Prepared are requests that were checked and are rows already, for [Engine.SubmitPreparedTx]. It belongs to one
// goroutine at a time.
type Prepared struct {
	engine *Engine // nil when they were submitted
	reqs   []Request
	rows   []*task.Task
}

// Prepare does the part of [Engine.SubmitTx] that needs no transaction: it checks the requests and makes their rows. So
// the transaction is shorter, and may run meanwhile for other requests. Nothing is added, and Prepared may be thrown away.
// The caller changes no request until they are submitted.
func (e *Engine) Prepare(ctx context.Context, reqs ...Request) (*Prepared, error) {
	reqs, err := e.decorated(ctx, reqs)
	if err != nil {
		return nil, err
	}
	rows, err := e.catalog.rows(reqs, nil)
	if err != nil {
		return nil, err
	}
	return &Prepared{engine: e, reqs: reqs, rows: rows}, nil
}

// SubmitPreparedTx is [Engine.SubmitTx] for requests that the same engine has prepared, within a transaction of a store that is one
// database. They are submitted once: if the transaction fails, or this call, the caller prepares them again.
func (e *Engine) SubmitPreparedTx(ctx context.Context, tx storage.Tx, p *Prepared) ([]Receipt, error) {
	if p.engine != e {
		return nil, errPreparedSpent
	}
	if _, isPlaced := tx.(storage.ShardBound); isPlaced {
		return nil, errPreparedPlace
	}
	p.engine = nil
	e.catalog.renewIDs(p.reqs, p.rows)
	return e.submitRowsTx(ctx, tx, p.reqs, p.rows, e.catalog.terms)
}

// renewIDs gives rows that were prepared generated ids anew, in the same shards. Others may have been added since the first
// ids were generated: rows that come in the order of their ids cost a store less to look up and to sort.
func (c *catalog) renewIDs(reqs []task.Request, rows []*task.Task) {
	now := c.now()
	for i, t := range rows {
		if reqs[i].ID.IsZero() {
			t.ID = c.ids.NextIn(now, t.ID.Shard())
		}
	}
}
