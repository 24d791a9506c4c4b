package table

import "github.com/taskengine/taskengine/engine/task"

// Explanation says what stands between a ready task and its slot.
type Explanation struct {
	Closed   bool    // its type is paused, or has no handler
	Ahead    int     // triggers in memory of the same queue that rank before it
	Stored   bool    // the task, or others before it, are in the store and not yet in memory
	Unlisted bool    // nothing of its queue is in memory: its type has more queues than the table may hold, or they are being read
	Limits   []Usage // all that count for it, nearest first, those across the tree last
}

// Usage is how much of a limit is in use.
type Usage struct {
	Name   string // of the limit; policy.ConcurrencyName for a type's own; "" for the node's slots
	Value  string // of what the limit is per
	Used   int
	Max    int   // 0 is without limit, but for the slots of a pool
	OpenAt int64 // when its rate admits something again, Unix nanoseconds; 0 if it does now
	Full   bool  // it has no room for the task
	Need   int   // how many slots the task takes
	Before Claim // a task that ranks before it and has no room here: it blocks those behind it; zero if none
}

// Claim is a task that waits for room.
type Claim struct {
	ID   task.ID
	Type string
	Need int // how many slots it takes
}

// Explain says what stands between a task of that rank and its slot.
func (t *Table) Explain(now int64, name task.Queue, rank task.Rank) Explanation {
	k, ok := t.kinds[name.Type]
	if !ok {
		return Explanation{Closed: true}
	}
	l, known := t.queues[name]
	if !known {
		l = t.newQueue(name)
		defer t.forget(now, l) // to know it would tell the scan that it is complete
	}
	x := Explanation{Closed: k.closed}
	if !k.closed {
		x.Unlisted = !known && k.unlisted
		x.Stored = known && !l.window.Covers(rank)
	}
	if l.any && l.head.rank.Compare(rank) < 0 {
		x.Ahead++
	}
	if l.rest != nil {
		l.rest.Ascend(func(i item) bool {
			before := i.rank.Compare(rank) < 0
			if before {
				x.Ahead++
			}
			return before
		})
	}
	for n := &l.node; n != nil; n = n.parent {
		if n.queue == nil || n.max > 0 {
			u := t.usage(now, n, k)
			u.Before = t.before(now, n, &n.kids, l, rank)
			x.Limits = append(x.Limits, u)
		}
	}
	for _, n := range l.across {
		u := t.usage(now, n, k)
		u.Before = t.before(now, n, &n.parked, l, rank)
		x.Limits = append(x.Limits, u)
	}
	return x
}

// before returns the first of those that wait for room in n, if it is not of l, ranks before
// rank and has no room.
func (t *Table) before(now int64, n *node, waiting *offers, l *queue, rank task.Rank) Claim {
	first, ok := waiting.Min()
	if !ok || first.rank.Compare(rank) >= 0 || t.room(now, n, first.need) {
		return Claim{}
	}
	at := first.node
	for at.queue == nil {
		k, _ := at.kids.Min()
		at = k.node
	}
	if at.queue == l {
		return Claim{}
	}
	return Claim{ID: at.queue.head.ref.ID, Type: at.queue.kind.name, Need: n.cost(first.need)}
}

func (t *Table) usage(now int64, n *node, k *kind) Usage {
	u := Usage{Name: n.limitName(), Value: n.value, Used: n.used, Max: n.max, Need: n.cost(k.policy.Weight)}
	u.Full = n.limited() && n.used+u.Need > n.max
	if at := n.bucket.next(); at > now {
		u.OpenAt, u.Full = at, true
	}
	return u
}

// limitName returns the name under which people know n.
func (n *node) limitName() string {
	if n.queue != nil {
		return n.queue.kind.concurrency().Name
	}
	return n.name
}

// Counts reports whether a booked slot counts for the limit of that name and value.
func (s Slot) Counts(limit, value string) bool {
	for n := &s.queue.node; n != nil; n = n.parent {
		if n.limitName() == limit && n.value == value {
			return true
		}
	}
	for _, n := range s.queue.across {
		if n.name == limit && n.value == value {
			return true
		}
	}
	return false
}
