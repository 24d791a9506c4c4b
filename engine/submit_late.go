package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/taskengine/taskengine/task"
)

// ErrLate is wrapped by the errors of requests whose time lies further in the past than [policy.Type.MaxLateness].
var ErrLate = errors.New("the request is too late")

// late returns the places of the late requests; rows are those of [catalog.rows].
func (c *catalog) late(rows []*task.Task) (places []int) {
	if !c.mayBeLate {
		return nil
	}
	now := c.now()
	for i, t := range rows {
		if c.infoOf(t.Type).rules.IsLate(now, t.ReadyAt) {
			places = append(places, i)
		}
	}
	return places
}

// refuseLate sets the receipt of a late request.
func (c *catalog) refuseLate(t *task.Task, r *Receipt) {
	*r = Receipt{Outcome: OutcomeLate, Err: fmt.Errorf("%w: its time, %s, lies more than %v in the past, which is max_lateness of type %s; submit it with a later time, or without one",
		ErrLate, t.ReadyAt.UTC().Format(time.RFC3339Nano), c.infoOf(t.Type).rules.MaxLateness, t.Type)}
}

// remainder is a call without its late requests.
type remainder struct {
	reqs     []Request
	rows     []*task.Task
	places   []int     // of reqs and rows in the call
	receipts []Receipt // of the whole call; those of late requests are set
}

// lookUp is [Engine.existing], perhaps within a transaction.
type lookUp func(context.Context, []Request, []*task.Task) ([]task.ID, error)

// setLateAside takes the late requests out of a call. One whose id or key is taken adds nothing, so it is not refused: the
// caller may not know that it has succeeded before.
func (e *Engine) setLateAside(ctx context.Context, reqs []Request, rows []*task.Task, late []int, existing lookUp) (*remainder, error) {
	left := &remainder{receipts: receiptsOf(rows)}
	var lateReqs []Request
	var lateRows []*task.Task
	for i, t := range rows {
		if slices.Contains(late, i) {
			lateReqs, lateRows = append(lateReqs, reqs[i]), append(lateRows, t)
		} else {
			left.reqs, left.rows, left.places = append(left.reqs, reqs[i]), append(left.rows, t), append(left.places, i)
		}
	}
	found, err := existing(ctx, lateReqs, lateRows)
	if err != nil {
		return nil, fmt.Errorf("engine: submit: look for the tasks of late requests: %w", err)
	}
	for n, i := range late {
		if r := &left.receipts[i]; found[n].IsZero() {
			e.catalog.refuseLate(rows[i], r)
		} else {
			*r = Receipt{ID: found[n]}
		}
	}
	return left, nil
}

// with returns the receipts of the call, of which these are those of the requests that were not late.
func (r *remainder) with(receipts []Receipt) []Receipt {
	for n, i := range r.places {
		r.receipts[i] = receipts[n]
	}
	return r.receipts
}

// submitLate is [Engine.add] for a call with late requests.
func (e *Engine) submitLate(ctx context.Context, reqs []Request, rows []*task.Task, late []int) ([]Receipt, error) {
	left, err := e.setLateAside(ctx, reqs, rows, late, e.existing)
	switch {
	case err != nil:
		return nil, err
	case len(left.rows) == 0:
		return left.receipts, nil
	}
	receipts, err := e.add(ctx, left.reqs, left.rows)
	if err != nil {
		return nil, err
	}
	return left.with(receipts), nil
}
