package table

import "github.com/taskengine/taskengine/engine/task"

// The table holds of each queue a window of its rows in the store: those that rank first. Package
// window says which rows are in memory and proves that none is lost: a trigger is a notice in its
// words, and the table drops the triggers of rows that are not in the window. The window moves on
// when it runs low.
//
// A queue that is not in the table has no ready rows, unless its type is unlisted (see list.go) or
// is not configured.

// Load asks for the rows of a queue that rank after After, at most Limit. It is
// answered by exactly one call of [Table.Loaded].
type Load struct {
	Queue task.Queue
	After task.Rank // the zero Rank: from the start
	Limit int
}

// maxLoads is how many Loads are under way at most. Those of the types that want some
// take turns, so that a type waits for a few of another type's and not for all.
const maxLoads = 16

// Add puts a trigger in its place. It returns false if the table is full there, or the
// type is not open: the trigger is dropped, and will be loaded from the store when its
// turn comes. The row must be in the store before its trigger is added.
func (t *Table) Add(now int64, tr task.Trigger) bool {
	t.now = now
	l, known := t.queues[tr.Queue]
	if !known {
		k, ok := t.kinds[tr.Type]
		if !ok || k.closed {
			return false
		}
		if !t.admitsQueue(now, k, tr) {
			t.unlist(k)
			return false
		}
		l = t.newQueue(tr.Queue)
	}
	if !l.window.Admit(tr.Rank) { // of a type that is closed, all are left to the store
		t.refill(l)
		return false
	}
	had, head := l.any, l.head.rank
	kept := t.insert(now, l, item{tr.Rank, tr.Ref, tr.Shard})
	if !had || l.head.rank != head {
		t.changed(now, l)
	}
	t.refill(l)
	return kept
}

// Drop takes out a trigger of an older version than tr is of: that version is not ready
// any more.
func (t *Table) Drop(now int64, tr task.Trigger) {
	l, ok := t.queues[tr.Queue]
	if !ok {
		return
	}
	outdated := func(i item) bool { return i.ref.ID == tr.ID && i.ref.Version < tr.Version }
	switch {
	case l.any && l.head.rank == tr.Rank:
		if !outdated(l.head) {
			return
		}
		l.pop()
	case l.rest == nil:
		return
	default:
		if i, ok := l.rest.Get(item{rank: tr.Rank}); !ok || !outdated(i) {
			return
		}
		l.rest.Delete(item{rank: tr.Rank})
	}
	t.grow(l, -1)
	t.changed(now, l)
	t.refill(l)
	t.release(now, l)
}

// Knows reports whether a trigger is in the table, or will be loaded when its turn comes.
func (t *Table) Knows(tr task.Trigger) bool {
	l, ok := t.queues[tr.Queue]
	if !ok {
		k, known := t.kinds[tr.Type]
		return !known || k.unlisted
	}
	if !l.window.Covers(tr.Rank) {
		return true
	}
	if l.any && l.head.rank == tr.Rank {
		return l.head.ref.Version >= tr.Version
	}
	if l.rest == nil {
		return false
	}
	i, ok := l.rest.Get(item{rank: tr.Rank})
	return ok && i.ref.Version >= tr.Version
}

// Behind reports whether a trigger ranks behind what the table holds of its queue: it, and
// all that rank behind it, will be loaded when their turn comes.
func (t *Table) Behind(tr task.Trigger) bool {
	l, ok := t.queues[tr.Queue]
	if !ok {
		k, known := t.kinds[tr.Type]
		return !known || k.unlisted || k.closed
	}
	return !l.window.Covers(tr.Rank)
}

// insert puts i into l and keeps the table within its bounds.
func (t *Table) insert(now int64, l *queue, i item) bool {
	if !l.put(t, i) {
		return true
	}
	t.grow(l, 1)
	if l.len() > t.config.QueueCapacity {
		last, _ := l.last()
		t.shrink(l)
		return last != i
	}
	for t.size > t.config.Capacity {
		k := t.greediest()
		if k == nil {
			return true
		}
		victim := t.fattest(k)
		if victim == nil {
			if victim = t.worst(k, l); victim == nil {
				return true // all that is left is pinned by what runs and by l
			}
			t.evict(now, victim)
			continue
		}
		last, _ := victim.last()
		t.shrink(victim)
		if victim == l && last == i {
			return false
		}
	}
	return true
}

// shrink drops the last trigger of l, which has at least two: it stays in the store.
func (t *Table) shrink(l *queue) {
	l.dropLast()
	t.grow(l, -1)
	last, _ := l.last()
	l.window.Shrink(last.rank)
}

// share is how many triggers each type may have of those that have some, when the table is
// full.
func (t *Table) share() int { return max(1, t.config.Capacity/max(1, t.active)) }

// windowOf is how many triggers l may have.
func (t *Table) windowOf(l *queue) int {
	return max(1, min(t.config.QueueCapacity, t.share()/max(1, len(l.kind.queues))))
}

// greediest returns a type that has more than its share of the triggers in a table that
// has too many, or nil. The hand rests on one until that is no longer so, which makes a
// call cheap on average.
func (t *Table) greediest() *kind {
	if t.size <= t.active {
		return nil // one for each
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

// fattest returns a queue of k, of some that it looks at, that has more than its share of
// the triggers of k, or nil.
func (t *Table) fattest(k *kind) *queue {
	fair := max(1, t.share()/len(k.queues))
	for range min(maxVisited, len(k.queues)) {
		if k.hand >= len(k.queues) {
			k.hand = 0
		}
		if l := k.queues[k.hand]; l.len() > fair {
			return l
		}
		k.hand++
	}
	return nil
}

// refill wants more of l once half of its window is used up.
func (t *Table) refill(l *queue) {
	t.noteStarved(l)
	k := l.kind
	if l.window.Complete() || l.wants || l.window.Asked() || k.closed {
		return
	}
	n := l.len()
	if n > t.windowOf(l)/2 || n > 0 && t.size >= t.config.Capacity && k.size >= t.share() {
		return
	}
	l.wants = true
	k.wanting.push(l)
	if !k.hungry {
		k.hungry = true
		t.look.hungry.push(k)
	}
}

func (t *Table) noteStarved(l *queue) {
	if starved := !l.window.Complete() && !l.any && !l.kind.closed; starved != l.starved {
		l.starved = starved
		if starved {
			l.kind.starved++
		} else {
			l.kind.starved--
		}
		t.note(l.kind)
	}
}

// TakeLoads returns what is to be loaded now, appended to buf.
func (t *Table) TakeLoads(buf []Load) []Load {
	for t.look.loading < maxLoads {
		k, ok := t.look.hungry.pop()
		if !ok {
			break
		}
		l, ok := k.wanting.pop()
		if !ok {
			k.hungry = false
			continue
		}
		t.look.hungry.push(k)
		if !l.wants { // forgotten meanwhile
			continue
		}
		l.wants = false
		t.look.loading++
		buf = append(buf, Load{Queue: l.name, After: l.window.Ask(), Limit: max(1, t.windowOf(l)-l.len())})
	}
	return buf
}

// Loaded answers a Load: these are the rows, and end says that there were no others.
// A Load that failed is answered with nothing and end false; it is asked for again.
func (t *Table) Loaded(now int64, name task.Queue, page []task.Trigger, end bool) {
	t.now = now
	l, ok := t.queues[name]
	if !ok || !l.window.Asked() {
		return
	}
	t.look.loading--
	if l.kind.closed {
		l.window.Answer(false)
		t.release(now, l)
		return
	}
	l.window.Answer(end)
	for _, tr := range page {
		if !l.window.Extend(tr.Rank) || !t.insert(now, l, item{tr.Rank, tr.Ref, tr.Shard}) {
			break // this row and those behind it stay in the store
		}
	}
	t.changed(now, l)
	t.refill(l)
	if !t.release(now, l) {
		t.trim(now)
	}
}

// fifo is a first-in, first-out line.
type fifo[T any] struct {
	items []T
	head  int
}

func (q *fifo[T]) push(v T) {
	if q.head > 0 && len(q.items) == cap(q.items) {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, v)
}

func (q *fifo[T]) pop() (v T, ok bool) {
	if q.head == len(q.items) {
		return v, false
	}
	var none T
	v, q.items[q.head] = q.items[q.head], none
	if q.head++; q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	}
	return v, true
}
