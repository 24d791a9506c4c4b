package table

import (
	"time"

	"github.com/taskengine/taskengine/task"
)

// The table holds a window of the rows of each queue in the store: the rows that rank first. Package
// window says which rows are in memory and proves that none is lost: a trigger is a notice in its
// words, and the table drops the triggers of rows that are not in the window. The window moves on when
// it runs low.
//
// A queue that is not in the table has no ready rows, unless its type is unlisted (see list.go) or
// is not configured.

// Load asks for the rows of a queue that come behind After in the order of the table, at most Limit.
// [Load.Read] reads them. It is answered by exactly one call of [Table.Loaded].
type Load struct {
	Queue  task.Queue
	After  task.Rank // the zero Rank is before all rows
	Limit  int
	Ageing time.Duration // of the type; 0 is none: the order of the table is that of the store
}

// maxLoads is the maximum number of Loads under way. The types take turns, so that a type waits for a
// few Loads of another type and not for all of them.
const maxLoads = 16

// Add adds a trigger. It returns false if the trigger was dropped, because its type is not open or
// there is no room for it: the table will load it from the store when its turn comes. The row must be
// in the store before its trigger is added.
func (t *Table) Add(now int64, tr task.Trigger) bool {
	t.now = now
	q, known := t.queues[tr.Queue]
	if !known {
		k, ok := t.kinds[tr.Type]
		if !ok || k.closed {
			return false
		}
		if !t.admitQueue(now, k, tr) {
			t.unlist(k)
			return false
		}
		q = t.newQueue(tr.Queue)
	}
	place := q.kind.place(tr.Rank)
	if !q.window.Admit(place) { // the window of a queue of a closed type is at its start
		t.refill(q)
		return false
	}
	had, head := q.any, q.head.rank
	kept := t.insert(now, q, itemAt(place, tr))
	if !had || q.head.rank != head {
		t.headChanged(now, q)
	}
	t.refill(q)
	return kept
}

// Drop removes the trigger of the task of tr if it is of an older version than tr. That version is not
// ready any more.
func (t *Table) Drop(now int64, tr task.Trigger) {
	q, ok := t.queues[tr.Queue]
	if !ok {
		return
	}
	outdated := func(i item) bool { return i.ref.ID == tr.ID && i.ref.Version < tr.Version }
	place := q.kind.place(tr.Rank)
	switch {
	case q.any && q.head.rank == place:
		if !outdated(q.head) {
			return
		}
		q.pop()
	case q.rest == nil:
		return
	default:
		if i, ok := q.rest.Get(item{rank: place}); !ok || !outdated(i) {
			return
		}
		q.rest.Delete(item{rank: place})
	}
	t.countTriggers(q, -1)
	t.headChanged(now, q)
	t.refill(q)
	t.release(now, q)
}

// Knows reports whether a trigger, or one of a newer version, is in the table, or will be loaded when
// its turn comes.
func (t *Table) Knows(tr task.Trigger) bool {
	q, ok := t.queues[tr.Queue]
	if !ok {
		k, known := t.kinds[tr.Type]
		return !known || k.unlisted
	}
	place := q.kind.place(tr.Rank)
	if !q.window.Covers(place) {
		return true
	}
	if q.any && q.head.rank == place {
		return q.head.ref.Version >= tr.Version
	}
	if q.rest == nil {
		return false
	}
	i, ok := q.rest.Get(item{rank: place})
	return ok && i.ref.Version >= tr.Version
}

// Behind reports whether a trigger is behind the window of its queue: it, and the rows that follow it in
// the store up to SkipTo, will be loaded when their turn comes.
func (t *Table) Behind(tr task.Trigger) bool {
	q, ok := t.queues[tr.Queue]
	if !ok {
		k, known := t.kinds[tr.Type]
		return !known || k.unlisted || k.closed
	}
	return !q.window.Covers(q.kind.place(tr.Rank))
}

// Wants reports whether a task that is not ready yet would have a trigger in the table soon after it is: the table has few
// triggers of its queue, and the store has no others, or the task comes before one of them by its priority and time.
func (t *Table) Wants(tr task.Trigger) bool {
	k, ok := t.kinds[tr.Type]
	if !ok || k.closed {
		return false
	}
	q, known := t.queues[tr.Queue]
	if !known || !q.any {
		return !known || q.window.Complete()
	}
	if q.window.Complete() && q.len() <= t.capacityOf(q)/2 {
		return true
	}
	last, _ := q.last()
	place := q.kind.place(tr.Rank)
	place.Seq = last.rank.Seq
	return place.Compare(last.rank) < 0
}

// insert adds i to q and keeps the table within its bounds. It reports whether i stays.
func (t *Table) insert(now int64, q *queue, i item) bool {
	if !q.put(t, i) {
		return true
	}
	t.countTriggers(q, 1)
	if q.len() > t.config.QueueCapacity {
		last, _ := q.last()
		t.shrink(q)
		return last != i
	}
	for t.size > t.config.Capacity {
		k := t.largeKind()
		if k == nil {
			return true
		}
		victim := t.largeQueue(k)
		if victim == nil {
			if victim = t.worst(k, q); victim == nil {
				return true // no other queue may be evicted
			}
			t.evict(now, victim)
			continue
		}
		last, _ := victim.last()
		t.shrink(victim)
		if victim == q && last == i {
			return false
		}
	}
	return true
}

// shrink leaves the last trigger of q to the store. q has at least two.
func (t *Table) shrink(q *queue) {
	q.dropLast()
	t.countTriggers(q, -1)
	last, _ := q.last()
	q.window.Shrink(last.rank)
}

// refill asks for a load of q when half of its triggers are used up.
func (t *Table) refill(q *queue) {
	t.updateStarved(q)
	k := q.kind
	if q.window.Complete() || q.wantsLoad || q.window.Asked() || k.closed {
		return
	}
	n := q.len()
	if n > t.capacityOf(q)/2 || n > 0 && t.size >= t.config.Capacity && k.size >= t.share() {
		return
	}
	q.wantsLoad = true
	k.toLoad.push(q)
	if !k.inTurns {
		k.inTurns = true
		t.reads.turns.push(k)
	}
}

func (t *Table) updateStarved(q *queue) {
	if starved := !q.window.Complete() && !q.any && !q.kind.closed; starved != q.starved {
		q.starved = starved
		if starved {
			q.kind.starved++
		} else {
			q.kind.starved--
		}
		t.trackIncomplete(q.kind)
	}
}

// TakeLoads appends the Loads to be made now to buf.
func (t *Table) TakeLoads(buf []Load) []Load {
	for t.reads.loading < maxLoads {
		k, ok := t.reads.turns.pop()
		if !ok {
			break
		}
		q, ok := k.toLoad.pop()
		if !ok {
			k.inTurns = false
			continue
		}
		t.reads.turns.push(k)
		if !q.wantsLoad { // it was removed from the table since
			continue
		}
		q.wantsLoad = false
		t.reads.loading++
		buf = append(buf, Load{Queue: q.name, After: q.window.Ask(), Limit: max(1, t.capacityOf(q)-q.len()), Ageing: q.kind.policy.Ageing})
	}
	return buf
}

// Loaded answers a Load. page has the rows, in the order of the table, and end says that the store has no
// rows behind them. A Load that failed is answered with no rows and end false; the table asks for it again.
func (t *Table) Loaded(now int64, name task.Queue, page []task.Trigger, end bool) {
	t.now = now
	q, ok := t.queues[name]
	if !ok || !q.window.Asked() {
		return
	}
	t.reads.loading--
	if q.kind.closed {
		q.window.Answer(false)
		t.release(now, q)
		return
	}
	q.window.Answer(end)
	for _, tr := range page {
		if place := q.kind.place(tr.Rank); !q.window.Extend(place) || !t.insert(now, q, itemAt(place, tr)) {
			break // this row and the rows behind it stay in the store
		}
	}
	t.headChanged(now, q)
	t.refill(q)
	if !t.release(now, q) {
		t.evictExcess(now)
	}
}
