package local

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/engine/task"
)

// member is a node that has joined.
type member struct {
	self    coord.Member // guarded by cluster.mu; its incarnation is never changed
	node    *Node
	changed bell       // rung after every change of the list
	lost    chan error // gets why the member was removed without having left; holds one
}

// Join implements [coord.Membership]. Changes that come while fn runs are told as one.
// An incarnation that is a member already is refused.
func (n *Node) Join(ctx context.Context, self coord.Member, fn func([]coord.Member)) error {
	m := &member{self: cloneMember(self), node: n, changed: newBell(), lost: make(chan error, 1)}
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
		case <-m.changed:
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
		m.self = cloneMember(self)
		n.cluster.tellMembers()
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
	c.tellMembers()
	return nil
}

func (c *cluster) leave(m *member) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.members[m.self.Incarnation] == m {
		delete(c.members, m.self.Incarnation)
		c.tellMembers()
	}
}

// list returns who is alive, and whether m is.
func (c *cluster) list(m *member) (list []coord.Member, alive bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range slices.SortedFunc(maps.Keys(c.members), task.ID.Compare) {
		list = append(list, cloneMember(c.members[id].self))
	}
	return list, c.members[m.self.Incarnation] == m
}

// tellMembers is called with mu held.
func (c *cluster) tellMembers() {
	for _, m := range c.members {
		m.changed.ring()
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
	c.tellMembers()
}

func cloneMember(m coord.Member) coord.Member {
	m.Handlers = slices.Clone(m.Handlers)
	m.Labels = maps.Clone(m.Labels)
	return m
}
