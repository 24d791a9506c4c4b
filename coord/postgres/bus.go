package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/taskengine/taskengine/coord/internal/retry"
	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/task"
)

// Backlog is how many hints may wait to be sent before the newest are dropped.
const Backlog = 1 << 14

const (
	linger      = 500 * time.Microsecond // how long a hint waits for more hints to share its statement
	perSend     = 32                     // payloads in one statement
	sendTimeout = time.Second            // of a statement; then its hints are lost
)

// Publish implements [coord.Bus]. It does not wait. Subscribers of this Coord get the hints at
// once, and subscribers of other processes get them a few milliseconds later, by one statement for many hints. No
// statement is sent if there are no other processes. Hints are dropped if the database cannot be
// used.
func (c *Coord) Publish(ctx context.Context, ts ...task.Hint) error {
	if err := c.inProcess.Publish(ctx, ts...); err != nil {
		return err
	}
	if len(ts) == 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.start(); err != nil {
		return err
	}
	if !c.peers {
		return nil
	}
	c.outbox = append(c.outbox, ts[:min(len(ts), Backlog-len(c.outbox))]...)
	c.outboxFilled.Set()
	return nil
}

// Subscribe implements [coord.Bus]. A statement can publish without a Coord, for example in a
// transaction that adds tasks: NOTIFY on [Channel] with the payload "w:3,17" is passed to
// subscribers as [coord.Wake] of the shards 3 and 17. Each time Coord begins to listen, it passes
// [coord.WakeAll] to subscribers. Without LISTEN they only get the hints that this Coord publishes.
func (c *Coord) Subscribe(ctx context.Context, fn func([]task.Hint)) error {
	c.mu.Lock()
	err := c.start()
	c.mu.Unlock()
	if err != nil {
		return err
	}
	return c.inProcess.Subscribe(ctx, fn)
}

// sendLoop sends hints and messages until Close, and then the remaining ones.
func (c *Coord) sendLoop() {
	if !c.waitStart() {
		return
	}
	pause := retry.Backoff{Most: c.maxPause}
	for !c.isClosed() {
		c.sleep(time.Hour, c.outboxFilled)
		c.sleep(linger, wakeup.Signal{})
		for payloads := range slices.Chunk(c.takeOutbox(), perSend) {
			if err := c.send(payloads); err != nil {
				c.log.Debug("hints and messages are lost", "error", err) // at debug only: a failing heartbeat is logged as well
				c.sleep(pause.Next(), wakeup.Signal{})
				break
			}
			pause.Reset()
		}
	}
	for payloads := range slices.Chunk(c.takeOutbox(), perSend) { // such as the message that a leader resigns
		if c.send(payloads) != nil {
			return
		}
	}
}

// takeOutbox returns the payloads of the messages and hints that are to be sent. Messages are first: they are few, and
// nothing replaces them.
func (c *Coord) takeOutbox() []string {
	c.mu.Lock()
	unsent, ts := c.unsent, c.outbox
	c.unsent, c.outbox = nil, nil
	c.mu.Unlock()
	return append(unsent, pack(c.self, ts)...)
}

func (c *Coord) send(payloads []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), sendTimeout)
	defer cancel()
	// Losing one is cheaper than a sync.
	_, err := c.pool.Exec(ctx, "SELECT set_config('synchronous_commit', 'off', true), pg_notify($1::text, p) FROM unnest($2::text[]) p", Channel(c.schema), payloads)
	return err
}
