package table

import (
	"cmp"

	"github.com/taskengine/taskengine/task"
)

// This file decides which triggers and queues leave the table when it is full. Their rows stay in the
// store.

// share returns how many triggers a type may have when the table is full: the capacity divided by the
// number of types that have triggers.
func (t *Table) share() int { return max(1, t.config.Capacity/max(1, t.active)) }

// capacityOf returns how many triggers q may have.
func (t *Table) capacityOf(q *queue) int {
	return max(1, min(t.config.QueueCapacity, t.share()/max(1, len(q.kind.queues))))
}

// largeKind returns a kind that has more than its share of the triggers, or nil. The table has too many
// triggers. The hand stays at a kind until it has no more than its share, so a call is cheap on
// average.
func (t *Table) largeKind() *kind {
	if t.size <= t.active {
		return nil // each of them has one
	}
	fair := t.share()
	for range t.order {
		if t.hand >= len(t.order) {
			t.hand = 0
		}
		if k := t.order[t.hand]; k.size > fair {
			return k
		}
		t.hand++
	}
	return nil
}

// largeQueue returns a queue of k that has more than its share of the triggers of k, or nil. It looks
// at up to maxVisited queues.
func (t *Table) largeQueue(k *kind) *queue {
	fair := max(1, t.share()/len(k.queues))
	for range min(maxVisited, len(k.queues)) {
		if k.hand >= len(k.queues) {
			k.hand = 0
		}
		if q := k.queues[k.hand]; q.len() > fair {
			return q
		}
		k.hand++
	}
	return nil
}

// admitQueue reports whether the queue of tr, which is of k, may be added to the table. It makes room
// for it if the queue has a better claim than another one.
func (t *Table) admitQueue(now int64, k *kind, tr task.Trigger) bool {
	if tr.Group == "" || t.makeRoom(now, k) {
		return true
	}
	worst := t.worst(k, nil)
	if worst == nil || !worst.any {
		return false
	}
	if !worst.isStopped() && worst.head.rank.Compare(k.place(tr.Rank)) < 0 && worst.crowd() <= t.crowdOf(k, tr.Group)+1 {
		return false
	}
	t.evict(now, worst)
	return true
}

// makeRoom reports whether there is room for another queue of k. If there is none, it may evict a queue
// of another type.
func (t *Table) makeRoom(now int64, k *kind) bool {
	if t.size >= t.config.Capacity && k.size >= t.share() {
		return false
	}
	return t.idle < t.config.Capacity || t.takeRoomOf(now, k)
}

// takeRoomOf evicts a queue of a type that has more than its share, if k has less than its share.
func (t *Table) takeRoomOf(now int64, k *kind) bool {
	fair := t.config.Capacity / t.idleKindsWith(k)
	if k.idle >= fair {
		return false
	}
	for range t.order {
		if t.hand >= len(t.order) {
			t.hand = 0
		}
		if other := t.order[t.hand]; other != k && other.idle > fair {
			worst := t.worst(other, nil)
			if worst == nil {
				return false
			}
			t.evict(now, worst)
			return true
		}
		t.hand++
	}
	return false
}

// evictExcess evicts a queue if there are too many.
func (t *Table) evictExcess(now int64) {
	if t.idle <= t.config.Capacity {
		return
	}
	for fair := t.config.Capacity / t.idleKinds; ; t.hand++ {
		if t.hand >= len(t.order) {
			t.hand = 0
		}
		if k := t.order[t.hand]; k.idle > fair {
			if worst := t.worst(k, nil); worst != nil {
				t.evict(now, worst)
			}
			return
		}
	}
}

// evict removes q from the table to make room. No task of q runs, and q is not being loaded. The next
// pass over the queues of its type finds it again.
func (t *Table) evict(now int64, q *queue) {
	t.unlist(q.kind)
	t.unload(now, q)
	if t.queues[q.name] == q {
		t.forget(now, q)
	}
}

// worst returns the worst queue of k that may be evicted, except other, or nil. It chooses among up to
// maxTried queues: one that a limit for its values stops, or else one of the value of a fair limit that
// has most queues, or else the one that ranks last. It returns a queue that is empty, and waits to be
// loaded, only if there is no other.
func (t *Table) worst(k *kind, other *queue) *queue {
	var worst *queue
	stopped, tried := false, 0
	for i := 0; i < min(maxVisited, len(k.queues)) && tried < maxTried; i++ {
		if k.hand++; k.hand >= len(k.queues) {
			k.hand = 0
		}
		q := k.queues[k.hand]
		if q == other || q.running > 0 || q.window.Asked() || q.isPermanent() {
			continue
		}
		tried++
		s := q.isStopped()
		switch {
		case worst == nil, !worst.any:
		case !q.any, stopped && !s:
			continue
		case stopped == s && cmp.Or(cmp.Compare(q.crowd(), worst.crowd()), q.head.rank.Compare(worst.head.rank)) < 0:
			continue
		}
		worst, stopped = q, s
	}
	return worst
}

// isStopped reports whether a limit for one of its values stops q.
func (q *queue) isStopped() bool {
	if q.parkedOn != nil {
		return q.parkedOn.keyed
	}
	for n := &q.node; n.queue != nil || n.keyed; n = n.parent {
		if !n.offered {
			return q.any
		}
	}
	return false
}

// couldRun reports whether a queue of k could run if the limits that count for all of k had room. It
// looks at up to maxVisited queues.
func (t *Table) couldRun(k *kind) bool {
	for i := range min(maxVisited, len(k.queues)) {
		if q := k.queues[(k.hand+i)%len(k.queues)]; q.any && !q.isStopped() {
			return true
		}
	}
	return false
}
