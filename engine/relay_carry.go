package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// firstNumber is the number of the first request that a task of relayType carries. The cursor is at the number before when it is
// opened.
const firstNumber = 2

// How long a task waits for room, or for a database, before it looks again.
const (
	carryFirst   = 10 * time.Millisecond
	carryLongest = time.Second
)

// errLostCursor says that the database of a cursor has lost it: it was restored.
var errLostCursor = errors.New("the database of these tasks was restored")

// carried is the checkpoint of a task of relayType.
type carried struct {
	Cursor string  `json:"cursor"`      // see Relay.cursor
	To     task.ID `json:"to,omitzero"` // of signals: the task that they are for
}

// carrier runs a task of relayType. Its requests belong to one shard. First it opens a cursor in the database of that shard, and
// records that in its checkpoint. Then it delivers the requests as a relay does: an attempt that is over finds the cursor moved or
// removed, and never makes a new one. So a request is delivered once, and nothing is left of it in the end.
type carrier struct {
	relay *Relay
	shard uint16
	to    task.ID   // the task that signals are for, when it is known
	end   *childEnd // the end of a child, in place of requests; nil if it carries requests or signals
	watch *watch    // likewise; nil if it carries none
}

// carry is the handler of relayType.
func carry(ctx context.Context, t *task.Task) ([]byte, error) {
	a, ok := ctx.Value(attemptKey{}).(*attempt)
	if !ok {
		return nil, errNoAttempt
	}
	c := &carrier{relay: &Relay{engine: a.engine, attempt: a, store: *a.engine.abilities.relays, row: &relayRow{}}}
	if end, ok := t.Headers[endHeader]; ok {
		if err := json.Unmarshal([]byte(end), &c.end); err != nil || c.end == nil {
			return nil, fmt.Errorf("read the end of a child: %w", err)
		}
		return nil, c.insist(ctx, c.report)
	}
	if text, ok := t.Headers[watchHeader]; ok {
		if err := json.Unmarshal([]byte(text), &c.watch); err != nil || c.watch == nil {
			return nil, fmt.Errorf("read what a task waits for: %w", err)
		}
		return nil, c.insist(ctx, c.follow)
	}
	if err := json.Unmarshal(t.Payload, &c.relay.row.requests); err != nil || len(c.relay.row.requests) == 0 {
		return nil, fmt.Errorf("read the tasks for another database: %w", err) // a newer program may have written it
	}
	first := &c.relay.row.requests[0]
	if c.relay.termsOf = a.engine.catalog.timelessTerms; first.Follows {
		c.relay.termsOf = noTerms
	}
	if first.Signal == nil {
		c.shard = first.shard()
	}
	if len(t.Checkpoint()) > 0 {
		var is carried
		if err := json.Unmarshal(t.Checkpoint(), &is); err != nil {
			return nil, fmt.Errorf("read the checkpoint: %w", err)
		}
		if c.relay.cursor = is.Cursor; first.Signal != nil {
			c.address(is.To)
		}
	}
	return nil, c.insist(ctx, c.run)
}

// insist calls run until it succeeds, or fails with an error that does not pass.
func (c *carrier) insist(ctx context.Context, run func(context.Context) error) error {
	for wait := carryFirst; ; wait = min(2*wait, carryLongest) {
		err := run(ctx)
		switch {
		case errors.Is(err, ErrInvalid):
			return task.Permanent(err)
		case err == nil || !mayPass(err):
			return err
		case c.relay.engine.inbox.accepting() != nil: // the node drains
			return task.Snooze(carryFirst)
		}
		task.ReportProgress(ctx, 0, uint64(len(c.relay.row.requests)), err.Error())
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(wait):
		}
	}
}

// mayPass reports whether a task waits, with its place among the running ones, until an error has passed. Otherwise all that wait
// for a database would be tried again and again.
func mayPass(err error) bool {
	for _, is := range []error{ErrBacklog, storage.ErrUnavailable, storage.ErrRefused, storage.ErrElsewhere, errCursor, errLostCursor, errAddressee} {
		if errors.Is(err, is) {
			return true
		}
	}
	return false
}

func (c *carrier) run(ctx context.Context) error {
	if c.relay.row.requests[0].Signal != nil {
		if done, err := c.deliverNear(ctx); done || err != nil {
			return err
		}
	}
	if c.relay.cursor == "" {
		if err := c.open(ctx); err != nil {
			return err
		}
	}
	if err := c.relay.Deliver(ctx); err != nil {
		if errors.Is(err, errLostCursor) {
			c.relay.cursor = ""
		}
		return err
	}
	err := c.relay.home(ctx, func(tx storage.Tx) error { return FinishTx(ctx, tx, nil) })
	if err != nil {
		return err
	}
	requests := c.relay.row.requests
	_ = c.there(ctx, func(tx storage.Tx) error { // it is of no use any more, and does no harm
		_, err := tx.Delete(ctx, task.Ref{ID: c.relay.cursorOf(c.shard), Version: requests[len(requests)-1].Number})
		return err
	})
	return nil
}

// open inserts a cursor and records its name. The name was never used before, so that of two attempts only the one that counts
// may use its cursor.
func (c *carrier) open(ctx context.Context) error {
	r := c.relay
	r.cursor = r.engine.catalog.ids.Next(r.engine.Now()).String()
	err := c.there(ctx, func(tx storage.Tx) error {
		added, err := tx.Insert(ctx, r.newRow(r.cursorOf(c.shard), firstNumber-1))
		if err == nil && !added[0].Created() {
			err = errCursor
		}
		return err
	})
	if err == nil {
		var data []byte
		if data, err = json.Marshal(carried{Cursor: r.cursor, To: c.to}); err == nil {
			err = r.home(ctx, func(tx storage.Tx) error { return CheckpointTx(ctx, tx, data) })
		}
	}
	if err != nil {
		r.cursor = ""
		return fmt.Errorf("engine: relay: %w", err)
	}
	for i := range r.row.requests {
		r.row.requests[i].isDelivered = false
	}
	return nil
}

// address has the signals of c be for a task.
func (c *carrier) address(to task.ID) {
	c.to, c.shard = to, to.Shard()
	for i := range c.relay.row.requests {
		c.relay.row.requests[i].to = to
	}
}

// there runs fn in a transaction of the database of the requests.
func (c *carrier) there(ctx context.Context, fn func(storage.Tx) error) error {
	return c.relay.store.updateIn(ctx, c.relay.store.databaseOf(c.shard), fn)
}

const (
	deliverMost  = 1000 // requests of one transaction
	deliverTries = 5    // of one transaction with cursors elsewhere
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
	var gone [][]task.State
	for _, one := range some {
		if to[one.shard()] = one.Number; one.Signal == nil {
			reqs, parents, gone = append(reqs, one.Request), append(parents, one.Parent), append(gone, one.Gone)
		}
	}
	rows, families, err := e.familyRows(reqs, nil, e.catalog.ownRows) // checked when they left
	if err != nil {
		return err
	}
	for i, t := range rows {
		t.Parent = parents[i]
	}
	for _, f := range families {
		if f.after != nil { // they were looked for when it left
			f.after.seen, f.after.goneAs = true, gone[f.at]
		}
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
		receipts, err := d.submitTx(ctx, tx, reqs, rows, families)
		if err != nil && (receipts == nil || errors.Is(err, ErrBacklog)) {
			return err
		}
		return nil // some keys may be taken, or requests late
	})
}

// submitTx adds the rows of requests within a transaction, and the children of those that have some.
func (d *delivery) submitTx(ctx context.Context, tx storage.Tx, reqs []Request, rows []*task.Task, families []*family) ([]Receipt, error) {
	e, shards := d.relay.engine, shardsOf(tx)
	if len(families) == 0 {
		return e.submitRowsTx(ctx, tx, reqs, rows, d.relay.termsOf)
	}
	for _, t := range rows {
		if !shards.Has(t.ID.Shard()) {
			return nil, storage.ErrElsewhere // it was moved, and is not to leave again
		}
	}
	return e.submitFamiliesTx(ctx, tx, reqs, rows, families, d.relay.termsOf)
}

// look reads where the cursors of the shards of requests are, and returns the requests that were not delivered. It returns
// an [ErrAttemptOver] if the attempt does not count any more. A cursor may be before where it was expected, if its database was
// restored. Then it is moved from there: as the attempt counts after the cursor was read, no other has delivered more.
func (d *delivery) look(ctx context.Context, some []*farRequest) (left []*farRequest, err error) {
	shards, isLost := make(map[uint16]bool), false
	for _, one := range some {
		shards[one.shard()] = true
	}
	err = d.relay.store.updateIn(ctx, d.database, func(tx storage.Tx) error { // the rows that it reads are durable
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
