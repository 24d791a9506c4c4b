// Package coord holds the ports through which nodes come to agree: who does a duty,
// who may use a shared limit, who is alive, what is configured, and where ready tasks
// are announced. Package local implements all of them for one node; nothing in the
// engine asks whether it is alone.
//
// None of it is needed for safety: a row is changed by compare-and-swap, so two
// leaders, a lost announcement or a stale member list cost work, never a task.
// Package coordtest holds the suites that every implementation passes.
package coord

import (
	"context"
	"errors"

	"github.com/taskengine/taskengine/engine/task"
)

// ErrClosed says that the coordination backend was closed.
var ErrClosed = errors.New("the coordination backend is closed")

// Elector finds the node that does a duty (a role) for all.
type Elector interface {
	// Lead waits for the leadership of role, calls fn, and returns what fn returned.
	// The context given to fn ends with the leadership, or with ctx; fn must return soon
	// after. When the leadership ended before fn did, Lead waits for it anew and calls fn
	// again. It returns ctx's error once ctx has ended.
	Lead(ctx context.Context, role string, fn func(ctx context.Context) error) error
}

// Semaphore hands out permits of limits that all nodes share.
type Semaphore interface {
	// Acquire waits until n of name's limit permits are free and takes them. All callers
	// give the same limit for a name; the newest one given wins. It returns an error
	// when ctx ends, or at once when n is more than limit or less than one.
	Acquire(ctx context.Context, name string, n, limit int) (Permit, error)
}

// Permit is a number of permits held until Release, or until they are lost.
type Permit interface {
	// Lost is closed when the permits are no longer held though Release was not called.
	Lost() <-chan struct{}
	// Release gives the permits back; more than one call does nothing.
	Release()
}

// Member is a node as the others see it.
type Member struct {
	Incarnation task.ID           // fresh with every process start
	Name        string            // what people call the node; not unique
	Handlers    []string          // types it can run, sorted
	Labels      map[string]string // what people say about it
	Draining    bool              // it is about to stop: it is alive, and begins nothing
}

// Membership says who is alive.
type Membership interface {
	// Join announces self until ctx ends, and calls fn with the list of live members,
	// sorted by incarnation and including self, at once and after every change, one call
	// at a time, each with a slice of its own. It returns when ctx has ended and self is
	// withdrawn, with nil; or early, with an error, when it can no longer prove that self
	// is alive.
	Join(ctx context.Context, self Member, fn func([]Member)) error

	// Announce tells the others what the member with self's incarnation, which has joined
	// by this connection, is from now on. It does not wait for them; if there is no such
	// member it does nothing.
	Announce(self Member)
}

// Prover is implemented by a [Membership] that depends on a lease.
type Prover interface {
	// Proves reports whether the member with this incarnation, which has joined by this
	// connection, is alive at this moment: no other node can think that it is not. The time
	// that the process or the machine was stopped counts. It does not wait.
	Proves(incarnation task.ID) bool
}

// Config keeps settings that may change while nodes run, on two levels: a value for
// one scope, or else the default for all of them.
type Config interface {
	// Set stores value for name in scope ("" is the default scope); nil removes it.
	Set(ctx context.Context, name, scope string, value []byte) error
	// Watch calls fn with the effective value of name in scope (nil if there is none), at
	// once and after every change of it, one call at a time, until ctx ends. Changes in
	// quick succession may be told as one. It returns nil when ctx has ended.
	Watch(ctx context.Context, name, scope string, fn func(value []byte)) error
}

// Bus carries hints of what tasks have become to the nodes that may run them. A hint may be
// lost, doubled or reordered. One without an ID names no task but says where to look for
// some: see [Wake] and [WakeAll]. A bus that knows that hints may have been lost tells its
// subscribers WakeAll by itself.
type Bus interface {
	// Publish passes the hints on. It does not wait for a subscriber.
	Publish(ctx context.Context, hs ...task.Hint) error
	// Subscribe calls fn with what is published, one call at a time, until ctx ends, and
	// then returns nil. The slice is fn's only during the call.
	Subscribe(ctx context.Context, fn func([]task.Hint)) error
}
