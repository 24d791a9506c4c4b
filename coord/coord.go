// Package coord defines the ports by which nodes coordinate: leadership of duties, shares of common
// limits and rates, membership, settings, hints about ready tasks, and messages. A [Coordinator] is one value with
// all of them. Package local implements them in one process,
// package postgres among processes, and packages etcd and zk all but the [Bus] and the [Clock]. Package kafka carries hints
// and messages by topics, and package guid elects leaders by [Messages] alone.
//
// None of it is needed for the safety of tasks: a row is changed by compare-and-swap, so two leaders,
// a lost hint or an outdated member list cost work, never a task. Limits that all nodes share are as
// exact as [Semaphore] and [Rates]. Package coordtest has the suites that every implementation passes.
package coord

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/taskengine/taskengine/task"
)

// ErrClosed is returned by a coordination backend that was closed.
var ErrClosed = errors.New("the coordination backend is closed")

// ErrRefused says that a coordinator refuses a node, or the node its coordinator, because of a certificate, a user or
// the rights of the user. A retry fails until the configuration of one of them has changed.
var ErrRefused = errors.New("the coordinator refuses this node")

// Elector elects the node that does a duty, the leader of a role.
type Elector interface {
	// Lead waits for the leadership of role, calls fn, and returns the error of fn. The
	// context of fn ends with the leadership or with ctx; fn must return soon after. If the
	// leadership ended before fn did, Lead waits for it again and calls fn again. It returns
	// ctx's error once ctx has ended.
	Lead(ctx context.Context, role string, fn func(ctx context.Context) error) error
}

// Member is a node as the others see it.
type Member struct {
	Incarnation task.ID           // new with every start of the process
	Name        string            // of the node, for display; not unique
	Handlers    []string          // the types of tasks that it can run; sorted
	Selectors   []string          // keys of the selectors of values that it matches, for instance by its region; sorted
	Labels      map[string]string // of the node; types choose their nodes by them
	Draining    bool              // it is alive, starts no tasks and is about to stop
	Address     string            // the URL of its API for other nodes; "" if it has none, or none yet
	Version     string            // of its program, for display; "" if it is not known
}

// Derived returns an id that a node uses beside its incarnation, such as that of a holder of permits. The ids for
// different n differ in their last four bytes alone, and the id for 0 is the incarnation: see [Member.Uses].
func Derived(incarnation task.ID, n uint32) task.ID {
	last := binary.BigEndian.Uint32(incarnation[12:])
	binary.BigEndian.PutUint32(incarnation[12:], last+n)
	return incarnation
}

// Uses reports whether id is derived from the incarnation of m, see [Derived].
func (m *Member) Uses(id task.ID) bool { return bytes.Equal(m.Incarnation[:12], id[:12]) }

// Clone returns a copy of m that shares no memory with it.
func (m Member) Clone() Member {
	m.Handlers = slices.Clone(m.Handlers)
	m.Selectors = slices.Clone(m.Selectors)
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
	// connection, and informs the others. It does not wait for them. If there is no such
	// member, it does nothing.
	Announce(self Member)

	// Proves reports whether the member with this incarnation, which has joined by this
	// connection, is certainly alive now, so that no other node can take it for dead. It also
	// proves that the list of members is current: each member that had joined one lease ago,
	// and has not left, was in a list with which the function that was passed to Join has been
	// called and has returned, the first call excepted. A server of the coordinator that may be
	// cut off from the others proves neither. Time during which the process or the machine was
	// stopped counts. A membership without leases always proves. Proves does not wait.
	Proves(incarnation task.ID) bool

	// Lease returns the time for which the others believe that a member that has joined by this connection
	// is alive after it last proved it. It is the actual lease of the coordinator, which may differ
	// from the configured one: some coordinators have leases of whole seconds, or from a range. It
	// returns 0 before that is known, and always if members have no leases. From the first call of the
	// function that is passed to Join on, it is known. Lease does not wait.
	Lease() time.Duration

	// Identity distinguishes the cluster from others: nodes that use one store must be members of one cluster, because
	// members of two take each other for dead. All nodes of a cluster get the same Driver and ID, also after all of
	// them were restarted.
	Identity(ctx context.Context) (Identity, error)
}

// Clock is a clock that nodes share, such as that of their database.
type Clock interface {
	// ClockAt returns the time of the shared clock at the moment t of this process, and the bound of its
	// error. t is a result of [time.Now], or a time derived from one, with its monotonic reading:
	// setting the wall clock of the process does not change what ClockAt returns. It reports false
	// before the clock was read for the first time, and true from then on. If the clock is that of a
	// [Membership], it is read before the first call of the function that is passed to Join.
	// ClockAt does not wait.
	ClockAt(t time.Time) (shared time.Time, within time.Duration, ok bool)
}

// Identity distinguishes the cluster of a [Membership] from others.
type Identity struct {
	Driver string `json:"driver"`         // the kind of membership, such as "postgres"
	ID     string `json:"id,omitempty"`   // of the cluster, unique among the clusters of its driver
	Name   string `json:"name,omitempty"` // the location of the cluster, for display; it may differ between nodes
}

// LocalIdentity is the identity of a cluster within one process.
var LocalIdentity = Identity{Driver: "local", Name: "one process"}

// Is reports whether i and other are identities of the same cluster.
func (i Identity) Is(other Identity) bool { return i.Driver == other.Driver && i.ID == other.ID }

// String returns the identity for display.
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

// Setting is the value of a setting for one scope.
type Setting struct {
	Scope   string
	Value   []byte // an empty one is a value; nil: there is no setting
	Version uint64 // it grows with every change of the settings of a name, also over a removal; 0: there is no setting
}

// Clone returns a copy of s that shares no memory with it.
func (s Setting) Clone() Setting {
	s.Value = bytes.Clone(s.Value)
	return s
}

// LimitsSetting is the name of the settings by which operators change limits while nodes run. Package
// engine defines their scopes and values.
const LimitsSetting = "limits"

// SecretSetting is the name of the setting with the secret by which the nodes of a cluster recognize each other. It is not for
// display.
const SecretSetting = "secret"

// SessionsSetting is the name of the setting with the secret of the sessions of the dashboard. It is not for display.
const SessionsSetting = "sessions"

// EndedSetting is the name of the setting with the sessions of the dashboard that were ended before their time. Package server/sessions
// defines its value. It is not for display.
const EndedSetting = "ended-sessions"

// TokensSetting is the name of the setting with the tokens of clients. Package server/tokens defines its value. It is not for display.
const TokensSetting = "tokens"

// Config keeps settings that may change while nodes run. A setting has a name, and a value for each
// of some scopes. A name and a scope may be any valid UTF-8 without NUL, "" included.
type Config interface {
	// Settings returns the settings of a name for all scopes, sorted by scope. They belong to the
	// caller.
	Settings(ctx context.Context, name string) ([]Setting, error)

	// Swap stores a copy of value for name in scope if the setting has the given version (0: there
	// is none), and returns the new setting. A value of nil removes the setting; then the new one
	// is none, with the version 0. If the setting has another version, Swap changes nothing, and
	// reports false with the setting as it is. To remove a missing setting changes nothing, and
	// reports true. After an error the value may have been stored.
	Swap(ctx context.Context, name, scope string, version uint64, value []byte) (now Setting, swapped bool, err error)

	// Watch calls fn with the settings of a name for all scopes, sorted by scope, at once and after
	// every change, one call at a time, each with a slice that fn may keep, until ctx ends. There
	// may be one call for several changes in quick succession. No call has an older setting than
	// the call before, unless the coordinator has lost the newer one. Watch returns nil when ctx has ended. It returns an error before that if it
	// cannot go on.
	Watch(ctx context.Context, name string, fn func([]Setting)) error
}

// Bus carries hints about changes of tasks to the nodes that may run them. A hint may be lost,
// doubled or reordered. A hint may be about a task, an ordering key, a shard, all shards or the settings: see
// [task.Subject]. After an interruption of its connection, a bus passes WakeAll to its subscribers
// when it receives hints again.
type Bus interface {
	// Publish passes the hints on. It does not wait for a subscriber.
	Publish(ctx context.Context, hs ...task.Hint) error
	// Subscribe calls fn with the published hints, one call at a time, until ctx ends, and
	// then returns nil. fn must not keep the slice.
	Subscribe(ctx context.Context, fn func([]task.Hint)) error
}

// Selective is implemented by a [Bus] that can spare a node hints that it does not need.
type Selective interface {
	// Want sets the shards about which the subscribers of this connection need hints from now on; nil is
	// all shards, as before the first call. Hints about all shards always reach them, and hints about
	// other shards may. When the bus has begun to receive hints of
	// a shard, it passes its [Wake] to the subscribers: hints from before may be lost. Want does not wait.
	Want(shards *task.Shards)
}

// Reporter is implemented by a [Bus] that may fail while the nodes go on.
type Reporter interface {
	// BusStatus returns the state of the connection of this node. It does not wait.
	BusStatus() BusStatus
}

// BusStatus is the state of the connection of a node to a [Bus], with counts since the connection was made.
type BusStatus struct {
	Name        string    // for display, such as "kafka.main, topic hints"
	Down        error     // why hints do not reach others, or do not come from them, and the remedy; nil: they do
	Since       time.Time // when it went down, or up; zero if it is neither yet
	Sent        uint64    // hints that the servers have confirmed
	Received    uint64    // hints that were passed to subscribers
	Dropped     uint64    // hints that were published and not sent, or not confirmed
	Undecodable uint64    // records that no node wrote, or a node of a version that this program does not know
}
