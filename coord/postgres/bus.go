package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/taskengine/taskengine/engine/task"
)

// Backlog is how many hints may wait to be sent before the newest are dropped.
const Backlog = 1 << 14

const (
	linger      = 500 * time.Microsecond // how long a hint waits for others to share a statement
	perSend     = 32                     // payloads in one statement
	sendPatient = time.Second            // how long a statement may take; then its hints are lost
)

// Publish implements [coord.Bus]. It waits for nobody: subscribers of this Coord are told
// at once, those of others a few milliseconds later by a statement for many hints, and
// none is sent when there are no others. Hints are dropped when the database is out of
// reach.
func (c *Coord) Publish(ctx context.Context, ts ...task.Hint) error {
	if err := c.near.Publish(ctx, ts...); err != nil {
		return err
	}
	if len(ts) == 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.use(); err != nil {
		return err
	}
	if !c.peers {
		return nil
	}
	fit := min(len(ts), Backlog-len(c.outbox))
	c.outbox = append(c.outbox, ts[:fit]...)
	c.dropped += uint64(len(ts) - fit)
	c.letters.ring()
	return nil
}

// Subscribe implements [coord.Bus]. Any statement may publish without a Coord, and so
// from within a transaction that adds tasks: NOTIFY on [Channel] with the payload "w:3,17"
// is told as [coord.Wake] of the shards 3 and 17. When it has begun to listen, first or
// again, subscribers are told [coord.WakeAll]. Without LISTEN they are told what is
// published by this Coord only.
func (c *Coord) Subscribe(ctx context.Context, fn func([]task.Hint)) error {
	c.mu.Lock()
	err := c.use()
	c.mu.Unlock()
	if err != nil {
		return err
	}
	return c.near.Subscribe(ctx, fn)
}

// Dropped returns how many hints were lost so far because too many were waiting, to be
// sent or for a slow subscriber.
func (c *Coord) Dropped() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dropped + c.near.Dropped()
}

// keepSending sends what is published until Close.
func (c *Coord) keepSending() {
	if !c.begin() {
		return
	}
	pause := backoff{most: c.slowest}
	for !c.isClosed() {
		c.rest(time.Hour, c.letters)
		c.rest(linger, nil)
		for payloads := range slices.Chunk(pack(c.self, c.takeOutbox()), perSend) {
			if err := c.send(payloads); err != nil {
				c.out.log.Debug("hints are lost", "error", err) // the heartbeat says the same, and hints may be lost
				c.rest(pause.next(), nil)
				break
			}
			pause.reset()
		}
	}
}

func (c *Coord) takeOutbox() []task.Hint {
	c.mu.Lock()
	defer c.mu.Unlock()
	ts := c.outbox
	c.outbox = nil
	return ts
}

func (c *Coord) send(payloads []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), sendPatient)
	defer cancel()
	// A hint is not worth a sync.
	_, err := c.pool.Exec(ctx, "SELECT set_config('synchronous_commit', 'off', true), pg_notify($1::text, p) FROM unnest($2::text[]) p", Channel(c.schema), payloads)
	return err
}
