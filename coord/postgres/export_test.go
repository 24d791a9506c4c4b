package postgres

import (
	"time"

	"github.com/taskengine/taskengine/task"
)

// Session returns the session by which the process holds leases, or zero if it has none now.
func (c *Coord) Session() task.ID {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.session.open {
		return task.ID{}
	}
	return c.session.id
}

// Listening reports whether the process receives notifications.
func (c *Coord) Listening() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.listening
}

// SweepSoon makes the next Draw remove full buckets.
func (c *Coord) SweepSoon() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.swept = time.Time{}
}

var (
	Pack   = pack
	Unpack = unpack
)

const MaxPayload = maxPayload
