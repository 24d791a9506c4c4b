package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// mayPass reports whether a task waits, with its place among those that run, until an error has passed. Otherwise all that wait
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
