package task

import (
	"cmp"
	"iter"
	"time"
)

// Turn says whether a task may run as far as its ordering key is concerned. The numbers are stored and
// must not change.
//
// Tasks that share an ordering key run one at a time, in the order of their [Seat]. At most one task of a
// key is its head. [Change.Apply] decides about the effect of a change on the turn of its own row; on request, a store
// makes another row the head, as [NextHead] says.
type Turn uint8

// The values of Turn.
const (
	Unordered Turn = iota // it has no ordering key, or takes no part in the order of its key any more
	Behind                // it may not run: its key has another head, or none yet
	Head                  // it is the head of its key, from before it runs until it has ended or gives its seat up
)

// Seat is the place of a task among the tasks with its ordering key.
type Seat struct {
	ReadyAt int64 // Unix microseconds
	Seq     uint64
}

// LastTime is the time of the seat of a task that waits without a time: it is behind all others of its key.
var LastTime = time.Date(9999, time.December, 31, 23, 59, 59, 0, time.UTC)

// Compare returns -1 if s comes before other, 1 if it comes after it, and 0 if they are equal.
func (s Seat) Compare(other Seat) int {
	return cmp.Or(cmp.Compare(s.ReadyAt, other.ReadyAt), cmp.Compare(s.Seq, other.Seq))
}

// Seat returns the place of t among the tasks of its ordering key.
func (t *Task) Seat() Seat { return Seat{t.ReadyAt.UnixMicro(), t.Seq} }

// Order returns the ordering key of a task that takes part in the order of its key; "" if it does not.
func (t *Task) Order() string {
	if t.Turn == Unordered {
		return ""
	}
	return t.OrderingKey
}

// HasBegun reports whether the task was ever grabbed.
func (t *Task) HasBegun() bool { return !t.StartedAt.IsZero() }

// Candidates returns the arguments of [NextHead]: of these rows, the head of an ordering key, and the one with the first
// seat among the rows that are Behind; nil if there is none.
func Candidates(rows iter.Seq[*Task], key string) (head, first *Task) {
	for t := range rows {
		switch {
		case key == "" || t.OrderingKey != key:
		case t.Turn == Head:
			head = t
		case t.Turn == Behind && (first == nil || t.Seat().Compare(first.Seat()) < 0):
			first = t
		}
	}
	return head, first
}

// NextHead decides about the head of an ordering key. head is the row of the key that is the
// head, and first is the one with the first seat among the rows that are Behind; nil if there is none. It
// reports whether head becomes Behind, and whether first becomes the head. No version changes with that.
//
// A head that has begun stays, whatever comes. One that has not is overtaken by a task with an earlier
// seat, also by one in [Error]. A first task that waits for its time holds back the tasks behind it, because it is due when
// they are. One in [Error] becomes the head, and its key stops until an operator has decided about it.
func NextHead(head, first *Task) (demote, promote bool) {
	switch {
	case first == nil || first.State == Waiting:
		return false, false
	case head == nil:
		return false, true
	case head.State == Submitted && !head.HasBegun() && (first.State == Submitted || first.State == Error) && first.Seat().Compare(head.Seat()) < 0:
		return true, true
	}
	return false, false
}

// Lends reports whether the head of the ordering key of t may inherit the priority of t: t is ready and held up by
// that head.
func (t *Task) Lends() bool { return t.Inherits && t.Turn == Behind && t.State == Submitted }

// Lent returns the highest priority that tasks of an ordering key lend among these rows; [LowestPriority] if none does.
func Lent(rows iter.Seq[*Task], key string) uint8 {
	lent := LowestPriority
	for t := range rows {
		if t.OrderingKey == key && t.Lends() {
			lent = min(lent, t.Priority)
		}
	}
	return lent
}

// Inherit returns the Boost that t is to have as the head of its ordering key. lent is the highest priority that is lent
// to it, see [Lent]. A head that is ready runs with that priority if it is higher than its own. The others are not asked
// until they are ready. No version changes with that.
//
// It is the priority inheritance of Sha, Rajkumar and Lehoczky (1990), with an ordering key in place of a lock.
func (t *Task) Inherit(lent uint8) uint8 {
	if !t.Inherits || t.Turn != Head || t.State != Submitted {
		return t.Boost
	}
	return t.Priority - min(t.Priority, lent)
}

// turn returns the turn of t after c.
func (c *Change) turn(t *Task) Turn {
	switch {
	case c.Put != nil && c.To == Error:
		return t.Turn
	case t.OrderingKey == "", c.To == Done, c.To == Failed, c.To == Cancelled, c.To == Error && c.Leaves:
		return Unordered
	case t.Turn == Unordered && t.State.Live(): // it has taken no part in the order since it was added
		return Unordered
	case t.Turn == Unordered: // it takes part again
		return Behind
	case (c.To == Waiting || c.To == Submitted) && !c.ReadyAt.IsZero(): // it takes another seat
		return Behind
	}
	return t.Turn
}
