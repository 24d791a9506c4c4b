// Package election decides about the candidacy of one node for one role. It has no clock, lock, goroutine or I/O: events
// go in as method calls with the time, and messages and the [State] come out.
//
// Candidates announce themselves to each other again and again. The one with the lowest id leads, once it has been the
// lowest for the time to settle. A candidacy ends with its leadership: a leader that leads again does so as another candidate,
// with a new id. Since ids grow, the oldest candidate leads, and one that comes back disturbs none.
package election

import (
	"errors"
	"time"

	"github.com/taskengine/taskengine/task"
)

// State is the state of a candidate.
type State uint8

// The states of a candidate, in their order: none is left for one before it.
const (
	Waiting State = iota
	Leading
	Over
)

// The reasons for which a candidacy is over.
var (
	ErrOlder     = errors.New("an older candidate has announced itself")
	ErrIsolated  = errors.New("the node does not receive its own messages, so it cannot know whether another one leads")
	ErrLate      = errors.New("the node was silent for longer than its lease, so another one may lead")
	ErrDuplicate = errors.New("another process announces itself by the id of this candidate, as a copy of a running machine does")
)

// Rules are the rules of a candidate. Candidates with different rules may stand for one role.
type Rules struct {
	// Lease is for how long others believe in a candidate after they have received an announcement of it.
	Lease time.Duration

	// MustHear says that a candidate leads only while it receives its own announcements. Without it, a candidate that
	// receives nothing leads: it is alone as far as it knows.
	MustHear bool
}

// announce returns the mean time between two announcements. It is varied by a tenth, so two of them may be lost in
// succession before the lease is over.
func (r Rules) announce() time.Duration { return r.Lease / 4 }

// settle returns for how long a candidate is the first before it leads. In that time it asks the others to announce
// themselves, and their answers arrive.
func (r Rules) settle() time.Duration { return r.Lease / 6 }

// gap returns the time between two announcements, at least, of which the second is an answer.
func (r Rules) gap() time.Duration { return r.settle() / 4 }

// forget returns for how long the number of the last message of a candidate that is gone is kept: a late announcement
// must not bring it back.
func forget(lease time.Duration) time.Duration { return 2 * lease }

// Kind is the purpose of a message.
type Kind uint8

// The kinds of messages.
const (
	Here  Kind = 'h' // the sender is a candidate
	Hello Kind = 'q' // the sender is a candidate, and asks the others to announce themselves
	Bye   Kind = 'b' // the sender is a candidate no more
)

// Message is a message of a candidate to the others.
type Message struct {
	Kind  Kind
	From  task.ID
	Seq   uint64        // it grows with every message of a candidate
	Lease time.Duration // for how long the others believe in the sender; more than 0, at most MaxLease
}
