// Package coord has the ports by which nodes coordinate: which node does a duty, which may use
// a shared limit, which are alive, what is configured, and where tasks are ready. Package local
// implements all of them in one process, package postgres among processes.
//
// None of it is needed for safety: a row is changed by compare-and-swap, so two leaders, a lost
// hint or an outdated member list cost work, never a task. Package coordtest has the suites that
// every implementation passes.
package coord

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/taskengine/taskengine/engine/task"
)

// ErrClosed is returned by a coordination backend that was closed.
var ErrClosed = errors.New("the coordination backend is closed")

// Elector elects the node that does a duty, the leader of a role.
type Elector interface {
	// Lead waits for the leadership of role, calls fn, and returns what fn returned. The
	// context of fn ends with the leadership or with ctx; fn must return soon after. If the
	// leadership ended before fn did, Lead waits for it again and calls fn again. It returns
	// ctx's error once ctx has ended.
	Lead(ctx context.Context, role string, fn func(ctx context.Context) error) error
}

// Semaphore grants permits of limits that all nodes share.
type Semaphore interface {
	// Acquire waits until n of the limit permits of name are free and takes them. All callers
	// give the same limit for a name; if they do not, the newest applies. Acquire returns an
	// error when ctx ends, or at once if n is more than limit or less than one.
	Acquire(ctx context.Context, name string, n, limit int) (Permit, error)
}

// Permit is a number of permits, held until Release or until they are lost.
type Permit interface {
	// Lost is closed when the permits are no longer held though Release was not called.
	Lost() <-chan struct{}
	// Release returns the permits. Calls after the first do nothing.
	Release()
}

// Member is a node as the others see it.
type Member struct {
	Incarnation task.ID           // new with every start of the process
	Name        string            // of the node, for people; not unique
	Handlers    []string          // types it can run, sorted
	Labels      map[string]string // of the node, for people
	Draining    bool              // it is alive, starts no tasks and is about to stop
}

// Clone returns a copy of m that shares no memory with it.
func (m Member) Clone() Member {
	m.Handlers = slices.Clone(m.Handlers)
	m.Labels = maps.Clone(m.Labels)
	return m
}

// Membership says which nodes are alive.
type Membership interface {
	// Join makes self a member until ctx ends. It calls fn with the list of live members,
	// sorted by incarnation and including self, at once and after every change, one call at a
	// time, each with a slice that fn may keep. Join returns nil when ctx has ended and self
	// is withdrawn. It returns an error before that if it can no longer prove that self is
	// alive.
	Join(ctx context.Context, self Member, fn func([]Member)) error

	// Announce replaces the member with the incarnation of self, which has joined by this
	// connection, and tells the others. It does not wait for them. If there is no such
	// member, it does nothing.
	Announce(self Member)
}

// Prover is implemented by a [Membership] that depends on a lease.
type Prover interface {
	// Proves reports whether the member with this incarnation, which has joined by this
	// connection, is certainly alive now, so that no other node can take it for dead. Time
	// during which the process or the machine was stopped counts. Proves does not wait.
	Proves(incarnation task.ID) bool
}

// Identified is implemented by a [Membership] that can tell its cluster from others. Nodes that use
// one store must be members of one cluster: members of two take each other for dead.
type Identified interface {
	// Identity returns the identity of the cluster. All nodes of a cluster get the same Driver and
	// ID, also after all of them were restarted.
	Identity(ctx context.Context) (Identity, error)
}

// Identity tells the cluster of a [Membership] from others.
type Identity struct {
	Driver string `json:"driver"`         // the kind of membership, such as "postgres"
	ID     string `json:"id,omitempty"`   // of the cluster, among those of the same driver
	Name   string `json:"name,omitempty"` // where the cluster is, for people; it may differ between nodes
}

// LocalIdentity is the identity of a cluster whose members are in one process.
var LocalIdentity = Identity{Driver: "local", Name: "one process"}

// Is reports whether i and other are identities of the same cluster.
func (i Identity) Is(other Identity) bool { return i.Driver == other.Driver && i.ID == other.ID }

// String returns the identity for people.
func (i Identity) String() string {
	text := i.Driver
	if i.Name != "" {
		text += ", " + i.Name
	}
	if i.ID != "" {
		text += ", id " + i.ID
	}
	return text
}

// Config keeps settings that may change while nodes run. A setting has a value for one scope,
// or else the default for all scopes.
type Config interface {
	// Set stores value for name in scope ("" is the default scope); nil removes it.
	Set(ctx context.Context, name, scope string, value []byte) error
	// Watch calls fn with the effective value of name in scope (nil if there is none), at
	// once and after every change of it, one call at a time, until ctx ends. There may be one
	// call for several changes in quick succession. Watch returns nil when ctx has ended.
	Watch(ctx context.Context, name, scope string, fn func(value []byte)) error
}

// Bus carries hints about changes of tasks to the nodes that may run them. A hint may be lost,
// doubled or reordered. A hint without an ID names no task but says where to look for some: see
// [Wake] and [WakeAll]. A bus whose connection was interrupted passes WakeAll to its subscribers
// when it receives hints again.
type Bus interface {
	// Publish passes the hints on. It does not wait for a subscriber.
	Publish(ctx context.Context, hs ...task.Hint) error
	// Subscribe calls fn with what is published, one call at a time, until ctx ends, and
	// then returns nil. fn must not keep the slice.
	Subscribe(ctx context.Context, fn func([]task.Hint)) error
}
