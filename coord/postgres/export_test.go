package postgres

import (
	"github.com/taskengine/taskengine/engine/task"
)

// Session returns what the process holds things by, or zero if it holds nothing now.
func (c *Coord) Session() task.ID {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.session.open {
		return task.ID{}
	}
	return c.session.id
}

// Listening returns whether notifications come.
func (c *Coord) Listening() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.listening
}

var (
	Pack   = pack
	Unpack = unpack
)

const MaxPayload = maxPayload
