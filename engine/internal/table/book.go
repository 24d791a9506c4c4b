package table

import (
	"github.com/taskengine/taskengine/task"
)

// Slot is the share that a booked task takes of every limit that counts for it. The caller that booked
// it must free or return it exactly once. The zero Slot is no slot.
type Slot struct {
	queue     *queue
	at        int64  // when it was booked
	overrides uint64 // Table.overrides when it was booked
	begun     bool   // Begin has admitted the task
}

// Book removes the best trigger with room in all its limits from the table, and takes a slot for it.
// It returns false if there is none.
func (t *Table) Book(now int64) (task.Trigger, Slot, bool) {
	t.now = now
	t.review(now)
	for {
		q := t.next(now)
		if q == nil {
			return task.Trigger{}, Slot{}, false
		}
		if full := t.fullAcross(now, q, q.head.rank); full != nil {
			t.park(now, q, full)
			continue
		}
		if len(q.values) > 0 {
			if other := q.ahead(q.head.rank); other != nil {
				t.unpark(now, other)
				continue
			}
		}
		i := q.pop()
		t.countTriggers(q, -1)
		slot := t.takeSlot(now, q)
		t.refill(q)
		return task.Trigger{Ref: i.ref, Queue: q.name, Rank: q.kind.rank(i), Shard: i.shard}, slot, true
	}
}

// next returns the queue with the best head that the limits in the tree have room for. It returns nil
// if there is none.
func (t *Table) next(now int64) *queue {
	if len(t.roomy) > 0 && (t.slotless.users > 0 || t.room(now, t.root, 1)) {
		t.wakeParked(now)
	}
	top, ok := t.root.children.Min()
	ok = ok && t.room(now, t.root, top.need)
	if other, any := t.slotless.children.Min(); any && (!ok || other.before(top)) {
		top, ok = other, true
	}
	if !ok {
		return nil
	}
	return top.node.leaf()
}

// Claim takes a slot for a task that is ready but not in the table. It does so only if Book would
// return that task next if it were added, so the task overtakes no other. If the table cannot know
// that, because rows are in the store only, Claim returns false.
func (t *Table) Claim(now int64, name task.Queue, rank task.Rank) (Slot, bool) {
	k, ok := t.kinds[name.Type]
	if !ok || k.closed || !t.isKnown(now) {
		return Slot{}, false
	}
	rank = k.place(rank)
	t.now = now
	t.review(now)
	t.wakeParked(now)
	q, known := t.queues[name]
	if !known {
		if k.unlisted {
			return Slot{}, false
		}
		q = t.newQueue(name)
	}
	if q.any || !q.window.Complete() || !t.admits(now, q, rank) {
		t.release(now, q)
		return Slot{}, false
	}
	return t.takeSlot(now, q), true
}

// admits reports whether every limit of q has room for one of its tasks, and no task with a better
// rank waits for one of these limits.
func (t *Table) admits(now int64, q *queue, rank task.Rank) bool {
	need := q.kind.policy.Weight
	var below *node
	for n := &q.node; n != nil; below, n = n, n.parent {
		if !t.room(now, n, need) {
			return false
		}
		if n.children.any && n.goesFirst(below, rank) {
			return false
		}
	}
	return t.fullAcross(now, q, rank) == nil && (len(q.values) == 0 || q.ahead(rank) == nil)
}

// goesFirst reports whether a child of n goes before a task of the given rank, which is below the child
// below. n has a child.
func (n *node) goesFirst(below *node, rank task.Rank) bool {
	first := &n.children.first
	if n.fair != nil && n.fair.isGroup && first.node != below {
		return first.rank.Priority <= rank.Priority // a value that waits already has its turn before
	}
	return first.rank.Compare(rank) < 0
}

// takeSlot books one task of q in every limit.
func (t *Table) takeSlot(now int64, q *queue) Slot {
	weight := q.kind.policy.Weight
	for n := &q.node; n != nil; n = n.parent {
		n.use(weight)
		n.pending++
		n.bucket.take(now)
		if n.permits != nil {
			t.takePermit(now, n)
		}
	}
	for _, n := range q.across {
		n.use(n.cost(weight))
		n.pending++
		n.bucket.take(now)
		if n.permits != nil {
			t.takePermit(now, n)
		}
	}
	if len(q.values) > 0 {
		t.spendTurns(now, q)
	}
	if q.running == 0 {
		t.countIdle(q, -1)
	}
	q.running++
	t.repositionAll(now, q)
	return Slot{queue: q, at: now, overrides: t.overrides}
}

// repositionAll repositions the limits of q after one of its tasks took a slot or freed one. A limit
// that cuts across q may be in the tree above other queues.
func (t *Table) repositionAll(now int64, q *queue) {
	t.reposition(now, &q.node)
	for _, n := range q.across {
		if n.children.Len() > 0 {
			t.reposition(now, n)
		}
	}
}

// Free frees the slot of a task that has ended.
func (t *Table) Free(now int64, s Slot) { t.freeSlot(now, s, false) }

// Return frees the slot of a task that did not begin: it does not count for rates either. s was not
// admitted by Begin.
func (t *Table) Return(now int64, s Slot) { t.freeSlot(now, s, true) }

func (t *Table) freeSlot(now int64, s Slot, refund bool) {
	t.now = now
	q := s.queue
	weight := q.kind.policy.Weight
	for n := &q.node; n != nil; n = n.parent {
		n.use(-weight)
		n.leave(s, weight)
		t.freed(now, n, s, refund)
	}
	for _, n := range q.across {
		n.use(-n.cost(weight))
		n.leave(s, n.cost(weight))
		t.freed(now, n, s, refund)
	}
	q.running--
	if q.running == 0 {
		t.countIdle(q, 1)
	}
	t.repositionAll(now, q)
	if !t.release(now, q) {
		t.evictExcess(now)
	}
}

// freed is called when a slot of n was freed.
func (t *Table) freed(now int64, n *node, s Slot, refund bool) {
	if refund {
		n.bucket.refund(s.at)
	}
	if n.permits != nil {
		t.freePermit(now, n, refund && !n.isStale(now, s))
	}
	t.markRoomy(now, n)
}

// fullAcross returns the first limit that cuts across q and has no room for a task of the given rank,
// or nil. A queue that is parked there and comes first has the room, even if the room is too small for
// it. Otherwise light tasks could overtake a heavy one forever.
func (t *Table) fullAcross(now int64, q *queue, rank task.Rank) *node {
	for _, n := range q.across {
		if !t.room(now, n, q.kind.policy.Weight) {
			return n
		}
		if first, ok := n.parked.Min(); ok && t.isBehind(now, q, rank, n, first) {
			return n
		}
	}
	return nil
}

// park removes q from the tree until n has room.
func (t *Table) park(now int64, q *queue, n *node) {
	offer, _ := q.best()
	offer.node = &q.node
	q.parkedOn = n
	t.reposition(now, &q.node)
	q.shown = offer
	if len(q.values) == 0 {
		n.parked.insert(t.freeChildren, offer)
	} else {
		stand := t.standOf(n, q.values[0])
		stand.children.insert(t.freeChildren, offer)
		t.raise(n, stand)
	}
	t.lack(now, n, offer)
}

// unpark puts q back into the tree. n may have room for the queues that are parked behind it.
func (t *Table) unpark(now int64, q *queue) {
	n := q.parkedOn
	t.bringBack(now, q)
	t.markRoomy(now, n)
}

// bringBack is unpark for a caller that handles the other parked queues itself.
func (t *Table) bringBack(now int64, q *queue) {
	n := q.parkedOn
	q.parkedOn = nil
	if len(q.values) == 0 {
		n.parked.remove(q.shown)
	} else {
		stand := q.values[0].fair.stand(n)
		stand.children.remove(q.shown)
		t.raise(n, stand)
	}
	t.reposition(now, &q.node)
}

// headChanged restores the order after the head of q has changed.
func (t *Table) headChanged(now int64, q *queue) {
	switch {
	case q.parkedOn == nil:
		t.reposition(now, &q.node)
	case !q.any || q.head.rank != q.shown.rank:
		t.unpark(now, q)
	}
}

// markRoomy adds n to Table.roomy if it has room for the first queue that is parked on it.
func (t *Table) markRoomy(now int64, n *node) {
	if n.roomy {
		return
	}
	first, ok := n.parked.Min()
	switch {
	case !ok:
	case t.room(now, n, first.need):
		n.roomy = true
		t.roomy = append(t.roomy, n)
	default:
		t.lack(now, n, first)
	}
}

// wakeParked brings parked queues back into the tree: for every limit that got room, the best ones
// until one of them can be booked. The ones that cannot be booked are in the tree then, and wait
// there.
func (t *Table) wakeParked(now int64) {
	kept := t.roomy[:0]
	for _, n := range t.roomy {
		n.roomy = false
		for {
			first, ok := n.parked.Min()
			if !ok {
				break
			}
			if !t.room(now, n, first.need) {
				t.lack(now, n, first)
				break
			}
			q := first.node.leaf()
			t.bringBack(now, q)
			if q.reachable() {
				if n.parked.Len() > 0 {
					n.roomy = true
					kept = append(kept, n)
				}
				break
			}
		}
	}
	clear(t.roomy[len(kept):])
	t.roomy = kept
}

// reachable reports whether q and every node above it is offered to its parent, so that Book may find
// q or a better queue.
func (q *queue) reachable() bool {
	for n := &q.node; n.parent != nil; n = n.parent {
		if !n.offered {
			return false
		}
	}
	return true
}
