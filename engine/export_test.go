package engine

import "time"

// SetWall sets the wall clock of the machine for an engine that is not open yet.
func (c *Config) SetWall(wall func() time.Time) { c.wall = wall }

// InboxLen returns how many events no writer has taken.
func (e *Engine) InboxLen() int { return e.inbox.count() }

// LookedAt returns when the engine last looked at what keeps tasks waiting.
func (e *Engine) LookedAt() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.state.blocks.LookedAt()
}
