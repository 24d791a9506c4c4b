package table

import (
	"github.com/taskengine/taskengine/engine/task"
)

// Slot is what a booked task takes of every limit that counts for it. Whoever booked
// it frees it, exactly once. The zero Slot is none.
type Slot struct {
	queue *queue
	at    int64 // when it was booked
}

// Book takes the best trigger that every limit admits out of the table and takes a
// slot for it; false if there is none.
func (t *Table) Book(now int64) (task.Trigger, Slot, bool) {
	for {
		l := t.next(now)
		if l == nil {
			return task.Trigger{}, Slot{}, false
		}
		if full := t.fullAcross(now, l, l.head.rank); full != nil {
			t.park(now, l, full)
			continue
		}
		i := l.pop()
		t.grow(l, -1)
		t.take(now, l)
		t.refill(l)
		return task.Trigger{Ref: i.ref, Queue: l.name, Rank: i.rank, Shard: i.shard}, Slot{l, now}, true
	}
}

// next returns the queue whose head is the best of all that the tree admits, or nil.
func (t *Table) next(now int64) *queue {
	if len(t.roomy) > 0 && t.room(now, t.root, 1) {
		t.wakeParked(now)
	}
	top, ok := t.root.kids.Min()
	if !ok || !t.room(now, t.root, top.need) {
		return nil
	}
	n := top.node
	for n.queue == nil {
		k, _ := n.kids.Min()
		n = k.node
	}
	return n.queue
}

// Claim takes a slot for a task that is ready but not in the table, if Book would have
// returned that task next had it been added: it overtakes nobody. What the table does
// not know for certain counts against it.
func (t *Table) Claim(now int64, name task.Queue, rank task.Rank) (Slot, bool) {
	if !t.IsOpen(name.Type) || !t.isKnown(now) {
		return Slot{}, false
	}
	t.wakeParked(now)
	l, known := t.queues[name]
	if !known {
		if t.kinds[name.Type].unlisted {
			return Slot{}, false
		}
		l = t.newQueue(name)
	}
	if l.any || !l.window.Complete() || !t.admits(now, l, rank) {
		t.release(now, l)
		return Slot{}, false
	}
	t.take(now, l)
	return Slot{l, now}, true
}

// admits reports whether every limit of l has room for one of its tasks, and none of
// them has somebody waiting whose claim is better than rank.
func (t *Table) admits(now int64, l *queue, rank task.Rank) bool {
	need := l.kind.policy.Weight
	for n := &l.node; n != nil; n = n.parent {
		if !t.room(now, n, need) {
			return false
		}
		if first, ok := n.kids.Min(); ok && first.rank.Compare(rank) < 0 {
			return false
		}
	}
	return t.fullAcross(now, l, rank) == nil
}

// take books one task of l in every limit.
func (t *Table) take(now int64, l *queue) {
	weight := l.kind.policy.Weight
	for n := &l.node; n != nil; n = n.parent {
		n.used += weight
		n.bucket.take(now)
	}
	for _, n := range l.across {
		n.used += n.cost(weight)
		n.bucket.take(now)
	}
	if l.running == 0 {
		t.countIdle(l, -1)
	}
	l.running++
	t.running++
	t.settleAll(now, l)
}

// settleAll settles the limits of l after one of its tasks took a slot or gave one back:
// a limit that cuts across it may be the tree for others.
func (t *Table) settleAll(now int64, l *queue) {
	t.settle(now, &l.node)
	for _, n := range l.across {
		if n.kids.Len() > 0 {
			t.settle(now, n)
		}
	}
}

// Free gives back the slot of a task that has ended, or was never begun.
func (t *Table) Free(now int64, s Slot) { t.free(now, s, false) }

// Return gives back the slot of a task that was never begun: it does not count for
// rates either.
func (t *Table) Return(now int64, s Slot) { t.free(now, s, true) }

func (t *Table) free(now int64, s Slot, refund bool) {
	l := s.queue
	weight := l.kind.policy.Weight
	for n := &l.node; n != nil; n = n.parent {
		n.used -= weight
		if refund {
			n.bucket.refund(s.at)
		}
		t.offerRoom(now, n)
	}
	for _, n := range l.across {
		n.used -= n.cost(weight)
		if refund {
			n.bucket.refund(s.at)
		}
		t.offerRoom(now, n)
	}
	l.running--
	t.running--
	if l.running == 0 {
		t.countIdle(l, 1)
	}
	t.settleAll(now, l)
	if !t.release(now, l) {
		t.trim(now)
	}
}

// fullAcross returns the first limit cutting across l that has no room for a task of
// that rank, or nil. What is parked there with a better rank comes first, so that a
// heavy task is not passed by light ones for ever.
func (t *Table) fullAcross(now int64, l *queue, rank task.Rank) *node {
	for _, n := range l.across {
		if !t.room(now, n, l.kind.policy.Weight) {
			return n
		}
		if first, ok := n.parked.Min(); ok && first.rank.Compare(rank) < 0 {
			return n
		}
	}
	return nil
}

// park takes l out of the tree until n has room.
func (t *Table) park(now int64, l *queue, n *node) {
	offer, _ := l.best()
	offer.node = &l.node
	l.parkedOn = n
	t.settle(now, &l.node)
	l.shown = offer
	n.parked.insert(t.lists, offer)
}

// unpark puts l back into the tree. Those parked behind it may have room.
func (t *Table) unpark(now int64, l *queue) {
	n := l.parkedOn
	t.bringBack(now, l)
	t.offerRoom(now, n)
}

// bringBack is unpark for those who see to the others themselves.
func (t *Table) bringBack(now int64, l *queue) {
	l.parkedOn.parked.remove(l.shown)
	l.parkedOn = nil
	t.settle(now, &l.node)
}

// changed makes the order right again after the head of l has changed.
func (t *Table) changed(now int64, l *queue) {
	switch {
	case l.parkedOn == nil:
		t.settle(now, &l.node)
	case !l.any || l.head.rank != l.shown.rank:
		t.unpark(now, l)
	}
}

// offerRoom notes that n may have room for queues parked on it.
func (t *Table) offerRoom(now int64, n *node) {
	if n.roomy {
		return
	}
	if first, ok := n.parked.Min(); ok && t.room(now, n, first.need) {
		n.roomy = true
		t.roomy = append(t.roomy, n)
	}
}

// wakeParked brings back, for every limit that got room, the best queues parked on it
// until one of them can be booked: if none can, their claims stand in the tree.
func (t *Table) wakeParked(now int64) {
	kept := t.roomy[:0]
	for _, n := range t.roomy {
		n.roomy = false
		for {
			first, ok := n.parked.Min()
			if !ok || !t.room(now, n, first.need) {
				break
			}
			l := first.node.queue
			t.bringBack(now, l)
			if l.reachable() {
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

// reachable reports whether every limit between the queue and the root offers it, or
// something better.
func (l *queue) reachable() bool {
	for n := &l.node; n.parent != nil; n = n.parent {
		if !n.listed {
			return false
		}
	}
	return true
}
