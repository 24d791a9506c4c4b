package local

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/task"
)

// member is a node that has joined.
type member struct {
	self    coord.Member // guarded by cluster.mu, except for its incarnation, which never changes
	node    *Node
	changed wakeup.Signal // set after every change of the list
	lost    chan error    // receives why the member was removed if it did not leave; holds one
}

// Join implements [coord.Membership]. After changes during a call of fn there is one more call.
// An incarnation that is a member already is refused.
func (n *Node) Join(ctx context.Context, self coord.Member, fn func([]coord.Member)) error {
	m := &member{self: self.Clone(), node: n, changed: wakeup.New(), lost: make(chan error, 1)}
	if err := n.cluster.enter(m); err != nil {
		return err
	}
	defer n.cluster.leave(m)
	for ctx.Err() == nil {
		if list, alive := n.cluster.list(m); alive {
			fn(list)
		}
		select {
		case <-ctx.Done():
		case <-m.changed.C():
		case why := <-m.lost:
			return why
		}
	}
	return nil
}

// Announce implements [coord.Membership].
func (n *Node) Announce(self coord.Member) {
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	if m := n.cluster.members[self.Incarnation]; m != nil && m.node == n {
		m.self = self.Clone()
		n.cluster.notifyMembers()
	}
}

func (c *cluster) enter(m *member) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := m.self.Incarnation
	if m.node.isClosed() {
		return coord.ErrClosed
	}
	if _, ok := c.members[id]; ok || id.IsZero() {
		return fmt.Errorf("node %q cannot join as incarnation %v: it must be new with every start", m.self.Name, id)
	}
	c.members[id] = m
	c.notifyMembers()
	return nil
}

func (c *cluster) leave(m *member) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.members[m.self.Incarnation] == m {
		delete(c.members, m.self.Incarnation)
		c.notifyMembers()
	}
}

// list returns the members, and reports whether m is one of them.
func (c *cluster) list(m *member) (list []coord.Member, alive bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range slices.SortedFunc(maps.Keys(c.members), task.ID.Compare) {
		list = append(list, c.members[id].self.Clone())
	}
	return list, c.members[m.self.Incarnation] == m
}

// notifyMembers is called with mu held.
func (c *cluster) notifyMembers() {
	for _, m := range c.members {
		m.changed.Set()
	}
}

// loseMembers is called with mu held.
func (c *cluster) loseMembers(n *Node, why error) {
	for id, m := range c.members {
		if m.node == n {
			delete(c.members, id)
			m.lost <- why
		}
	}
	c.notifyMembers()
}
