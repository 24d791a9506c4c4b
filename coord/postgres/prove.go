package postgres

import (
	"time"

	"github.com/taskengine/taskengine/coord/internal/lease"
	"github.com/taskengine/taskengine/engine/task"
)

// Proves implements [coord.Prover].
func (c *Coord) Proves(incarnation task.ID) bool {
	now := time.Now()
	_, most := lease.Suspended()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.members[incarnation] != nil && c.session.holds(now, most)
}

// Lease implements [coord.Leased]. It is that of the [Options].
func (c *Coord) Lease() time.Duration { return c.lease }

// holds reports whether the session has not ended at a time of the monotonic clock. That clock
// stops while the machine is suspended, and the database's clock does not: suspended is for how
// long the machine was suspended since it was started.
func (s *session) holds(now time.Time, suspended time.Duration) bool {
	return s.open && now.Add(suspended-s.suspended).Before(s.until)
}
