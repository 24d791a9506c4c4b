package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

const (
	deliverMost  = 1000 // requests of one transaction
	deliverTries = 5    // of one transaction whose cursors are elsewhere
)

// Deliver has the tasks of the row added, unless they are. A database that does not answer keeps no other from adding its
// tasks. The error wraps [ErrBacklog] if a backlog is full; then, as after any other error, Deliver may be called again.
func (r *Relay) Deliver(ctx context.Context) error {
	if r.row == nil {
		return nil
	}
	parts := make(map[int][]*farRequest) // by database
	for i := range r.row.requests {
		if one := &r.row.requests[i]; !one.isDelivered {
			database := r.store.databaseOf(one.shard())
			parts[database] = append(parts[database], one)
		}
	}
	databases := slices.Sorted(maps.Keys(parts))
	errs := make([]error, len(databases))
	var wg sync.WaitGroup
	for i, database := range databases {
		wg.Go(func() {
			d := &delivery{relay: r, database: database, at: make(map[uint16]uint64)}
			if errs[i] = d.run(ctx, parts[database]); errs[i] != nil {
				errs[i] = fmt.Errorf("engine: deliver tasks of %v to another database: %w", r.attempt.ref.ID, errs[i])
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// delivery has the requests of one database delivered. It belongs to one goroutine.
type delivery struct {
	relay    *Relay
	database int
	at       map[uint16]uint64 // by shard: where its cursor is; 0 is that there is none
}

func (d *delivery) run(ctx context.Context, left []*farRequest) error {
	for _, one := range left {
		if _, known := d.at[one.shard()]; !known { // as it is unless some of them were delivered before
			d.at[one.shard()] = one.Number - 1
		}
	}
	most, tries := deliverMost, 0
	for len(left) > 0 {
		some := left[:min(most, len(left))]
		err := d.add(ctx, some)
		switch {
		case errors.Is(err, errCursor) && tries < deliverTries:
			tries++
			if left, err = d.look(ctx, left); err != nil {
				return err
			}
			continue
		case errors.Is(err, ErrBacklog) && len(some) > 1: // a part of them may have room
			most = len(some) / 2
			continue
		case err != nil:
			return err
		}
		for _, one := range some {
			one.isDelivered = true
			d.at[one.shard()] = one.Number
		}
		left, most, tries = left[len(some):], min(2*most, deliverMost), 0
	}
	return nil
}

// add adds the tasks of requests, or delivers signals, and moves the cursors of their shards, in one transaction. It returns an errCursor, and
// has done nothing, if a cursor is not where it is expected.
func (d *delivery) add(ctx context.Context, some []*farRequest) error {
	e, to := d.relay.engine, make(map[uint16]uint64)
	var reqs []task.Request
	var parents []*task.Parent
	for _, one := range some {
		if to[one.shard()] = one.Number; one.Signal == nil {
			reqs, parents = append(reqs, one.Request), append(parents, one.Parent)
		}
	}
	rows, err := e.catalog.ownRows(reqs, nil) // checked when they left
	if err != nil {
		return err
	}
	for i, t := range rows {
		t.Parent = parents[i]
	}
	var was []task.Ref
	var cursors []*task.Task
	for _, shard := range slices.Sorted(maps.Keys(to)) {
		cursor := d.relay.newRow(d.relay.cursorOf(shard), to[shard])
		if cursors = append(cursors, cursor); d.at[shard] > 0 {
			was = append(was, task.Ref{ID: cursor.ID, Version: d.at[shard]})
		}
	}
	return d.relay.store.updateIn(ctx, d.database, func(tx storage.Tx) error {
		if len(was) > 0 {
			gone, err := tx.Delete(ctx, was...)
			if err != nil {
				return err
			}
			if slices.Contains(gone, false) {
				return errCursor
			}
		}
		added, err := tx.Insert(ctx, cursors...)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(added, func(i storage.Inserted) bool { return !i.Created() }) {
			return errCursor
		}
		for _, one := range some {
			if one.Signal != nil {
				if _, err := e.deliverTx(ctx, tx, one.Signal, one.to); err != nil {
					return err
				}
			}
		}
		if len(rows) == 0 {
			return nil
		}
		receipts, err := e.submitRowsTx(ctx, tx, reqs, rows, d.relay.termsOf)
		if err != nil && (receipts == nil || errors.Is(err, ErrBacklog)) {
			return err
		}
		return nil // some keys may be taken, or requests late
	})
}

// look reads where the cursors of the shards of requests are, and returns the requests that were not delivered. It returns
// an [ErrAttemptOver] if the attempt does not count any more. A cursor may be before where it was expected, if its database was
// restored. Then it is moved from there: as the attempt counts after the cursor was read, no other has delivered more.
func (d *delivery) look(ctx context.Context, some []*farRequest) (left []*farRequest, err error) {
	shards, isLost := make(map[uint16]bool), false
	for _, one := range some {
		shards[one.shard()] = true
	}
	err = d.relay.store.updateIn(ctx, d.database, func(tx storage.Tx) error { // what it reads is durable
		for _, shard := range slices.Sorted(maps.Keys(shards)) {
			cursor, err := tx.Get(ctx, d.relay.cursorOf(shard))
			switch {
			case errors.Is(err, task.ErrNotFound):
				d.at[shard], isLost = 0, d.relay.cursor != ""
			case err != nil:
				return err
			default:
				d.at[shard] = cursor.Version
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the cursors: %w", err)
	}
	for _, one := range some {
		if one.Number > d.at[one.shard()] {
			left = append(left, one)
		} else {
			one.isDelivered = true
		}
	}
	err = d.relay.counts(ctx)
	if err == nil && isLost {
		err = errLostCursor
	}
	return left, err
}

// counts returns an [ErrAttemptOver] if the attempt does not count any more.
func (r *Relay) counts(ctx context.Context) error {
	a := r.attempt
	return r.home(ctx, func(tx storage.Tx) error {
		t, err := tx.Get(ctx, a.ref.ID)
		switch {
		case errors.Is(err, task.ErrNotFound):
			return ErrAttemptOver
		case err != nil:
			return err
		case t.State != task.Processing || t.Version != a.ref.Version || t.Owner != a.owner:
			return ErrAttemptOver
		}
		return nil
	})
}
