package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/internal/lease"
	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/task"
)

// member is a node that has joined by this connection.
type member struct {
	self    coord.Member  // guarded by Coord.mu, except for its incarnation, which never changes
	changed wakeup.Signal // set after every change of the list
	lost    chan error    // receives why the member was expelled; holds one
	gone    chan struct{} // closed when the database has removed it, or it was expelled
	sent    bool          // guarded by Coord.mu: the database may have it
	live    bool          // guarded by Coord.mu: the database has it as it is in self
	leaving bool          // guarded by Coord.mu
	list    lease.List    // guarded by Coord.mu
}

// memberEntry is a member in the JSON of functions.sql.
type memberEntry struct {
	Incarnation task.ID           `json:"incarnation"`
	Name        string            `json:"name"`
	Handlers    []string          `json:"handlers"`
	Selectors   []string          `json:"selectors"`
	Labels      map[string]string `json:"labels"`
	Draining    bool              `json:"draining"`
	Address     string            `json:"address"`
	Version     string            `json:"version"`
}

func entryOf(m coord.Member) memberEntry {
	e := memberEntry(m)
	if e.Handlers == nil {
		e.Handlers = []string{}
	}
	if e.Selectors == nil {
		e.Selectors = []string{}
	}
	if e.Labels == nil {
		e.Labels = map[string]string{}
	}
	return e
}

// Join implements [coord.Membership]. After changes during a call of fn there is one more call.
// An incarnation that was a member before is refused. If the database cannot be reached at the
// start, Join waits for it. At the end it waits for the withdrawal for at most a third of the
// lease.
func (c *Coord) Join(ctx context.Context, self coord.Member, fn func([]coord.Member)) error {
	if err := checkMember(self); err != nil {
		return err
	}
	m := &member{self: self.Clone(), changed: wakeup.New(), lost: make(chan error, 1), gone: make(chan struct{})}
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
		case <-m.changed.C():
			if list, by := c.listFor(m); list != nil && ctx.Err() == nil {
				fn(list)
				c.passedTo(m, by)
			}
		}
	}
}

// Announce implements [coord.Membership].
func (c *Coord) Announce(self coord.Member) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.members[self.Incarnation]; m != nil && checkMember(self) == nil {
		m.self, m.live = self.Clone(), false
		c.beatSoon.Set()
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
	if err := checkText("the node's address or version", m.Address, m.Version); err != nil {
		return err
	}
	if err := checkText("the selector", m.Selectors...); err != nil {
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
	if err := c.start(); err != nil {
		return err
	}
	if c.members[m.self.Incarnation] != nil {
		return errNotNew(m.self)
	}
	c.members[m.self.Incarnation] = m
	c.beatSoon.Set()
	return nil
}

// leave withdraws m unless it was expelled, and waits for that.
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
	c.beatSoon.Set()
	c.mu.Unlock()
	t := time.NewTimer(c.lease / 3)
	defer t.Stop()
	select {
	case <-m.gone:
	case <-t.C:
	}
}

// listFor returns a copy of the list for m, and the proof that there are no other members. The list is nil if m was
// expelled.
func (c *Coord) listFor(m *member) ([]coord.Member, lease.Proof) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.members[m.self.Incarnation] != m {
		return nil, lease.Proof{}
	}
	m.list.Pass(c.session.proof)
	list := make([]coord.Member, 0, len(c.list))
	for _, o := range c.list {
		list = append(list, o.Clone())
	}
	return list, c.session.proof
}

// passedTo notes that m has received the members that a proof has confirmed.
func (c *Coord) passedTo(m *member, by lease.Proof) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := by
	if c.members[m.self.Incarnation] == m {
		now = c.session.proof
	}
	m.list.Passed(by, now)
}

// tell makes Join report the members to m. It is called with Coord.mu held.
func (m *member) tell() {
	m.list.Change()
	m.changed.Set()
}

// loseMembers expels all members that the database may have; after Close it expels all members.
// It is called with mu held.
func (c *Coord) loseMembers(why error) {
	for _, m := range c.members {
		if m.sent || c.isClosed() {
			c.expel(m, why)
		}
	}
}

// expel removes m and ends its Join. It is called with mu held.
func (c *Coord) expel(m *member, why error) {
	delete(c.members, m.self.Incarnation)
	m.lost <- why
	close(m.gone)
}
