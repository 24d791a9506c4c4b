package table

import (
	"fmt"
	"math"
)

// A task is booked before the store is asked to grab it, and begins when the store has answered. That may
// take long. Rates hold for the begin times of attempts, and a change of a limit in that time holds for
// tasks that have not begun. So Begin decides once more:
//
//   - Each rate has a second bucket, of beginnings. A task that comes too early by it waits with its slot.
//   - The number of booked tasks that have not begun is bounded, and no task is booked if its beginning
//     would be due later than in lookAhead. So tasks wait little, and the rate does not make up for a stall
//     of the store.
//   - A task that was booked before one of its limits was paused or lowered is refused if it has no room
//     there now.
type begin struct {
	begins  bucket // of the beginnings of tasks
	pending int    // number of booked tasks that have not begun
	begun   int    // slots taken by tasks that have begun
	lowered uint64 // Table.overrides when max was lowered last
}

// lookAhead is how long before it may begin a task may be booked, in nanoseconds. It has to cover the time that
// the store takes for a grab.
const lookAhead = drawAhead

// Never is the time that Begin returns for a task that waits for an answer.
const Never = math.MaxInt64

// opensAt reports whether the rate of n allows to book a task now. If it does not, it returns when it will,
// or a time that is not after now if that depends on booked tasks.
func (n *node) opensAt(now int64) (at int64, ok bool) {
	at = n.bucket.next()
	if b := &n.begins; b.interval > 0 && n.pending > 0 || b.due > now {
		ahead := satMul(b.interval, int64(n.pending)) - b.slack - lookAhead
		if ahead > 0 {
			return 0, false
		}
		at = max(at, b.due+ahead)
	}
	return at, at <= now
}

// satMul returns a * b, and at most maxSlack, for numbers that are not negative.
func satMul(a, b int64) int64 {
	if b > 0 && a > maxSlack/b {
		return maxSlack
	}
	return a * b
}

// Begin decides whether the task with slot s begins now, and counts it if it does. If it may begin later, Begin
// returns a time after now at which the caller has to ask again; it is [Never] if the task waits for an answer
// to a Draw. The error says why the task may not begin: the caller has to return the slot.
func (t *Table) Begin(now int64, s *Slot) (at int64, err error) {
	t.now = now
	q := s.queue
	if q.kind.closed {
		return 0, fmt.Errorf("its type %s was paused while the store wrote that it starts", q.kind.name)
	}
	for n := range q.limits {
		if err := n.mayBegin(s); err != nil {
			return 0, err
		}
		at = max(at, n.begins.next())
		if n.isStale(now, *s) && n.permits.left == 0 {
			t.draw(now, n)
			at = max(at, n.permits.wait(now))
		}
	}
	if at > now {
		return at, nil
	}
	s.begun = true
	weight, rates := q.kind.policy.Weight, false
	for n := range q.limits {
		if n.isStale(now, *s) {
			n.permits.left--
		}
		n.begins.take(now)
		n.begun += n.cost(weight)
		n.pending--
		rates = rates || n.begins.interval > 0
	}
	if rates {
		t.repositionAll(now, q)
		for n := range q.limits {
			t.markRoomy(now, n)
		}
	}
	return now, nil
}

// limits calls yield with every limit that counts for the tasks of q, the limits in the tree first.
func (q *queue) limits(yield func(*node) bool) {
	for n := &q.node; n != nil; n = n.parent {
		if !yield(n) {
			return
		}
	}
	for _, n := range q.across {
		if !yield(n) {
			return
		}
	}
}

// mayBegin returns why the task with slot s has no room in n any more. It ignores the slots of a pool: a
// pool that has become smaller queues its tasks.
func (n *node) mayBegin(s *Slot) error {
	switch {
	case n.paused:
		return fmt.Errorf("the limit %s was paused while the store wrote that it starts", n.limitName())
	case n.isPool || n.max == 0:
		return nil
	case n.permits != nil && n.lowered > s.overrides, n.begun+n.cost(s.queue.kind.policy.Weight) > n.capacity():
		return fmt.Errorf("the limit %s was lowered while the store wrote that it starts", n.limitName())
	}
	return nil
}

// isStale reports whether the token that the task with slot s has of the rate of n is too old to begin
// with. A coordinator has granted others since.
func (n *node) isStale(now int64, s Slot) bool {
	p := n.permits
	return p != nil && p.interval > 0 && now-s.at > max(tokenTime, p.interval)
}

// wait returns when there may be a token.
func (k *tokens) wait(now int64) int64 {
	if k.drawing || k.drawAt <= now {
		return Never
	}
	return k.drawAt
}

// leave counts that a task with slot s has left n and its slots there.
func (n *node) leave(s Slot, slots int) {
	if s.begun {
		n.begun -= slots
	} else {
		n.pending--
	}
}
