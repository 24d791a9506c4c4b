package postgres

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/engine/task"
)

// member is a node that this process announces.
type member struct {
	self    coord.Member  // guarded by Coord.mu; its incarnation is never changed
	changed bell          // rung after every change of the list
	lost    chan error    // gets why the member died; holds one
	gone    chan struct{} // closed when the database knows that it left, or it died
	sent    bool          // guarded by Coord.mu: the database may know of it
	live    bool          // guarded by Coord.mu: the database knows it
	leaving bool          // guarded by Coord.mu
}

// memberEntry is a member as schema.sql's functions spell it.
type memberEntry struct {
	Incarnation task.ID           `json:"incarnation"`
	Name        string            `json:"name"`
	Handlers    []string          `json:"handlers"`
	Labels      map[string]string `json:"labels"`
	Draining    bool              `json:"draining"`
}

func entryOf(m coord.Member) memberEntry {
	e := memberEntry(m)
	if e.Handlers == nil {
		e.Handlers = []string{}
	}
	if e.Labels == nil {
		e.Labels = map[string]string{}
	}
	return e
}

// Join implements [coord.Membership]. Changes that come while fn runs are told as one. An
// incarnation that was a member before is refused. While the database is out of reach at
// the start, Join waits for it. At the end it waits for the withdrawal no longer than a
// third of the lease.
func (c *Coord) Join(ctx context.Context, self coord.Member, fn func([]coord.Member)) error {
	if err := checkMember(self); err != nil {
		return err
	}
	m := &member{self: cloneMember(self), changed: newBell(), lost: make(chan error, 1), gone: make(chan struct{})}
	if err := c.enter(m); err != nil {
		return err
	}
	defer c.leave(m)
	for {
		select {
		case <-ctx.Done():
			return nil
		case why := <-m.lost:
			return why
		case <-m.changed:
			if list := c.listFor(m); list != nil && ctx.Err() == nil {
				fn(list)
			}
		}
	}
}

// Announce implements [coord.Membership].
func (c *Coord) Announce(self coord.Member) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.members[self.Incarnation]; m != nil && checkMember(self) == nil {
		m.self, m.live = cloneMember(self), false
		c.beats.ring()
	}
}

func checkMember(m coord.Member) error {
	if m.Incarnation.IsZero() {
		return errNotNew(m)
	}
	if err := checkText("the node's name", m.Name); err != nil {
		return err
	}
	if err := checkText("the handler", m.Handlers...); err != nil {
		return err
	}
	for k, v := range m.Labels {
		if err := checkText("the node's label", k, v); err != nil {
			return err
		}
	}
	return nil
}

func errNotNew(m coord.Member) error {
	return fmt.Errorf("node %q cannot join as incarnation %v: it must be new with every start", m.Name, m.Incarnation)
}

func (c *Coord) enter(m *member) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.use(); err != nil {
		return err
	}
	if c.members[m.self.Incarnation] != nil {
		return errNotNew(m.self)
	}
	c.members[m.self.Incarnation] = m
	c.beats.ring()
	return nil
}

// leave withdraws m, should it not have died, and waits for that.
func (c *Coord) leave(m *member) {
	c.mu.Lock()
	if c.members[m.self.Incarnation] != m {
		c.mu.Unlock()
		return
	}
	m.leaving = true
	if !m.sent {
		delete(c.members, m.self.Incarnation)
		close(m.gone)
	}
	c.beats.ring()
	c.mu.Unlock()
	t := time.NewTimer(c.lease / 3)
	defer t.Stop()
	select {
	case <-m.gone:
	case <-t.C:
	}
}

// listFor returns a copy of the list for m, or nil if m died.
func (c *Coord) listFor(m *member) []coord.Member {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.members[m.self.Incarnation] != m {
		return nil
	}
	list := make([]coord.Member, 0, len(c.list))
	for _, o := range c.list {
		list = append(list, cloneMember(o))
	}
	return list
}

// loseMembers expels all but those that the database cannot know yet. It is called with
// mu held.
func (c *Coord) loseMembers(why error) {
	for _, m := range c.members {
		if m.sent || c.isClosed() {
			c.expel(m, why)
		}
	}
}

// expel tells m that it died. It is called with mu held.
func (c *Coord) expel(m *member, why error) {
	delete(c.members, m.self.Incarnation)
	m.lost <- why
	close(m.gone)
}

func cloneMember(m coord.Member) coord.Member {
	m.Handlers = slices.Clone(m.Handlers)
	m.Labels = maps.Clone(m.Labels)
	return m
}
