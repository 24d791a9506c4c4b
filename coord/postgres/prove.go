package postgres

import (
	"time"

	"github.com/taskengine/taskengine/coord/internal/lease"
	"github.com/taskengine/taskengine/task"
)

// Proves implements [coord.Membership].
func (c *Coord) Proves(incarnation task.ID) bool {
	now := time.Now()
	_, most := lease.Suspended()
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.members[incarnation]
	return m != nil && m.list.By().Holds(now, most)
}

// Lease implements [coord.Membership]. It is that of the [Options].
func (c *Coord) Lease() time.Duration { return c.lease }

// holds reports whether the session lasts: see [lease.Proof].
func (s *session) holds(now time.Time, suspended time.Duration) bool {
	return s.open && s.proof.Holds(now, suspended)
}
