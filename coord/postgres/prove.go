package postgres

import (
	"time"

	"github.com/taskengine/taskengine/engine/task"
)

// Proves implements [coord.Prover].
func (c *Coord) Proves(incarnation task.ID) bool {
	now := time.Now()
	_, slept := asleep()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.members[incarnation] != nil && c.session.holds(now, slept)
}

// holds reports whether a session has not ended at a moment of the monotonic clock. That clock
// stands still while the machine sleeps, and the database's does not: slept is for how long the
// machine has slept since it was started.
func (s *session) holds(now time.Time, slept time.Duration) bool {
	return s.open && now.Add(slept-s.slept).Before(s.until)
}
