package cells

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/internal/lease"
	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/task"
)

// member is a node that has joined by this connection.
type member struct {
	self    coord.Member  // guarded by Node.mu, except for its incarnation, which never changes
	changed wakeup.Signal // set after every change of the list
	lost    chan error    // receives why the member was expelled; holds one
	gone    chan struct{} // closed when its cell is removed, or it was expelled
	sent    bool          // guarded by Node.mu: its cell may be there
	live    bool          // guarded by Node.mu: its cell is there
	leaving bool          // guarded by Node.mu
	refused bool          // guarded by Node.mu: self is too large for its cell
	list    lease.List    // guarded by Node.mu
}

// memberValue is the value of the cell of a member.
type memberValue struct {
	Session   task.ID           `json:"session"`
	Store     string            `json:"store,omitempty"` // that the node uses
	Name      string            `json:"name"`
	Handlers  []string          `json:"handlers,omitempty"`
	Selectors []string          `json:"selectors,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	Draining  bool              `json:"draining,omitempty"`
	Address   string            `json:"address,omitempty"`
	Version   string            `json:"version,omitempty"`
}

func (n *Node) valueOf(session task.ID, m coord.Member) []byte {
	text, err := json.Marshal(memberValue{
		Session: session, Store: n.options.Store, Name: m.Name, Handlers: m.Handlers, Selectors: m.Selectors, Labels: m.Labels,
		Draining: m.Draining, Address: m.Address, Version: m.Version,
	})
	if err != nil {
		panic(err) // it has only text
	}
	return text
}

// member returns the member with an incarnation that a value describes.
func (v *memberValue) member(id task.ID) coord.Member {
	return coord.Member{
		Incarnation: id, Name: v.Name, Handlers: v.Handlers, Selectors: v.Selectors, Labels: v.Labels,
		Draining: v.Draining, Address: v.Address, Version: v.Version,
	}
}

// Join implements [coord.Membership]. The members are the nodes that use the same store of tasks. After changes during
// a call of fn there is one more call. An incarnation that is a member already is refused. If the store cannot be used
// at the start, Join waits for it. At the end it waits for the withdrawal for at most a third of the lease.
func (n *Node) Join(ctx context.Context, self coord.Member, fn func([]coord.Member)) error {
	if err := checkMember(self); err != nil {
		return err
	}
	m := &member{self: self.Clone(), changed: wakeup.New(), lost: make(chan error, 1), gone: make(chan struct{})}
	if err := n.enter(m); err != nil {
		return err
	}
	defer n.leave(m)
	for {
		select {
		case <-ctx.Done():
			return nil
		case why := <-m.lost:
			return why
		case <-m.changed.C():
			if list, by := n.listFor(m); list != nil && ctx.Err() == nil {
				fn(list)
				n.passedTo(m, by)
			}
		}
	}
}

// Announce implements [coord.Membership].
func (n *Node) Announce(self coord.Member) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if m := n.members[self.Incarnation]; m != nil && checkMember(self) == nil {
		m.self, m.refused = self.Clone(), false
		n.syncSoon.Set()
	}
}

// Proves implements [coord.Membership].
func (n *Node) Proves(incarnation task.ID) bool {
	now := time.Now()
	_, most := lease.Suspended()
	n.mu.Lock()
	defer n.mu.Unlock()
	m := n.members[incarnation]
	return m != nil && m.list.By().Holds(now, most)
}

// Lease implements [coord.Membership].
func (n *Node) Lease() time.Duration { return n.realLease() }

func checkMember(m coord.Member) error {
	if m.Incarnation.IsZero() {
		return errNotNew(m)
	}
	texts := slices.Concat([]string{m.Name, m.Address, m.Version}, m.Handlers, m.Selectors)
	for k, v := range m.Labels {
		texts = append(texts, k, v)
	}
	for _, text := range texts {
		if err := checkText("the node's name, address, version, handler, selector or label", text); err != nil {
			return err
		}
	}
	return nil
}

// checkText returns an error for text that not every store can keep.
func checkText(what, text string) error {
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return fmt.Errorf("%s %q: want valid UTF-8 without NUL", what, text)
	}
	return nil
}

func errNotNew(m coord.Member) error {
	return fmt.Errorf("node %q cannot join as incarnation %v: it must be new with every start", m.Name, m.Incarnation)
}

func (n *Node) enter(m *member) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.start(); err != nil {
		return err
	}
	if n.members[m.self.Incarnation] != nil {
		return errNotNew(m.self)
	}
	n.members[m.self.Incarnation] = m
	n.syncSoon.Set()
	return nil
}

// leave withdraws m unless it was expelled, and waits for that.
func (n *Node) leave(m *member) {
	n.mu.Lock()
	if n.members[m.self.Incarnation] != m {
		n.mu.Unlock()
		return
	}
	m.leaving = true
	n.syncSoon.Set()
	wait := n.lease / 3
	if !m.sent {
		n.withdraw(m)
	}
	n.mu.Unlock()
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-m.gone:
	case <-t.C:
	}
}

// listFor returns the members for m, and the proof that there are no others. The list is nil if m is not one of them, or
// the others are not known yet.
func (n *Node) listFor(m *member) ([]coord.Member, lease.Proof) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.members[m.self.Incarnation] != m || !m.live || !n.seen || n.session == nil {
		return nil, lease.Proof{}
	}
	m.list.Pass(n.session.proof)
	list := []coord.Member{}
	for _, key := range slices.Sorted(maps.Keys(n.cells)) {
		c := n.cells[key]
		part, isMember := strings.CutPrefix(key, memberKey)
		if !isMember || !c.Exists() {
			continue
		}
		id, err := task.ParseID(part)
		var v memberValue
		if err := errors.Join(err, json.Unmarshal(c.Value, &v)); err != nil {
			n.options.Log.Warn("a cell is not that of a member", "key", key, "error", err)
			continue
		}
		if v.Store != n.options.Store {
			continue
		}
		list = append(list, v.member(id))
	}
	return list, n.session.proof
}

// passedTo notes that m has received the members that a proof has confirmed.
func (n *Node) passedTo(m *member, by lease.Proof) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := by
	if n.session != nil && n.members[m.self.Incarnation] == m {
		now = n.session.proof
	}
	m.list.Passed(by, now)
}

// tell makes Join report the members to m. It is called with Node.mu held.
func (m *member) tell() {
	m.list.Change()
	m.changed.Set()
}

// planMembers is called with mu held.
func (n *Node) planMembers(p *plan) {
	for id, m := range n.members {
		c := n.cellOf(memberKey + id.String())
		value := n.valueOf(p.session.id, m.self)
		large := n.isTooLarge(c.Key, value)
		switch {
		case m.leaving && !c.Exists():
			n.withdraw(m)
		case m.leaving:
			p.add(Change{Was: c}, func(bool, error) { n.syncSoon.Set() })
		case c.Exists() && !m.sent:
			n.expel(m, errNotNew(m.self))
		case large != nil && !c.Exists():
			n.expel(m, fmt.Errorf("join with %d handlers and %d labels: %w", len(m.self.Handlers), len(m.self.Labels), large))
			continue
		case large != nil:
			if !m.refused {
				m.refused = true
				n.options.Log.Error("the other nodes do not learn how this one has changed", "handlers", len(m.self.Handlers), "labels", len(m.self.Labels), "error", large)
			}
		case !c.Exists():
			m.sent = true
			p.add(Change{Was: c, Value: value, Ephemeral: true}, func(bool, error) { n.syncSoon.Set() })
		case !bytes.Equal(c.Value, value):
			p.add(Change{Was: c, Value: value}, func(bool, error) { n.syncSoon.Set() })
		}
		if m.sent && c.Exists() && !m.live && !m.leaving {
			m.live = true
			m.tell()
		}
	}
}

// cellOf returns the cell with a key as it is known. It is called with mu held.
func (n *Node) cellOf(key string) Cell {
	c := n.cells[key]
	c.Key = key
	return c
}

// learnMember is called with mu held.
func (n *Node) learnMember(part string, was, now Cell) {
	var v memberValue
	_ = json.Unmarshal(now.Value, &v) // a cell that is not a member's is no stray one
	n.learnStray(now, v.Session.String())
	if id, err := task.ParseID(part); err == nil && was.Exists() && !now.Exists() {
		if m := n.members[id]; m != nil && m.live && !m.leaving && n.session != nil {
			n.lose(ErrLeaseOver)
		}
	}
	n.wakeMembers()
}

// wakeMembers is called with mu held.
func (n *Node) wakeMembers() {
	for _, m := range n.members {
		if m.live {
			m.tell()
		}
	}
}

// loseMembers expels all members that have a cell; after Close it expels all members. It is called with mu held.
func (n *Node) loseMembers(why error) {
	for _, m := range n.members {
		if m.sent || n.isClosed() {
			n.expel(m, why)
		}
	}
}

// expel removes m and ends its Join. It is called with mu held.
func (n *Node) expel(m *member, why error) {
	n.withdraw(m)
	m.lost <- why
}

// withdraw removes m, which has no cell any more, or not for long. It is called with mu held.
func (n *Node) withdraw(m *member) {
	delete(n.members, m.self.Incarnation)
	close(m.gone)
}
