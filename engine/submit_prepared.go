package engine

import (
	"context"
	"errors"

	"github.com/taskengine/taskengine/task"
)

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
