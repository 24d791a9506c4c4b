package table

import "github.com/taskengine/taskengine/engine/task"

// Explanation says what stands between a ready task and its slot.
type Explanation struct {
	Closed bool    // its type is paused, or nobody handles it
	Ahead  int     // triggers in memory of the same leaf that rank before it
	Stored bool    // the task, or others before it, are in the store and not yet in memory
	Limits []Usage // all that count for it, nearest first, those across the tree last
}

// Usage is how much of a limit is in use.
type Usage struct {
	Name   string // of the limit; policy.ConcurrencyName for a type's own; "" for the node's slots
	Value  string // of what the limit is per
	Used   int
	Max    int   // 0 is without limit, but for the slots of a pool
	OpenAt int64 // when its rate admits something again, Unix nanoseconds; 0 if it does now
	Full   bool  // it has no room for the task
}

// Explain says what stands between a task of that rank and its slot.
func (t *Table) Explain(now int64, name task.Leaf, rank task.Rank) Explanation {
	k := t.kind(name.Type)
	l, known := t.leaves[name]
	if !known {
		l = t.leafOf(name)
		defer t.forget(now, l) // to know it would tell the scan that it is complete
	}
	x := Explanation{Closed: k.closed, Stored: t.look.unseen || l.more && rank.Compare(l.bound) > 0}
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
		if n.leaf == nil || n.max > 0 {
			x.Limits = append(x.Limits, t.usage(now, n, k))
		}
	}
	for _, n := range l.across {
		x.Limits = append(x.Limits, t.usage(now, n, k))
	}
	return x
}

func (t *Table) usage(now int64, n *node, k *kind) Usage {
	u := Usage{Name: n.limitName(), Value: n.value, Used: n.used, Max: n.max}
	u.Full = n.limited() && n.used+n.cost(k.policy.Weight) > n.max
	if at := n.bucket.next(); at > now {
		u.OpenAt, u.Full = at, true
	}
	return u
}

// limitName returns the name under which people know n.
func (n *node) limitName() string {
	if n.leaf != nil {
		return n.leaf.kind.concurrency().Name
	}
	return n.name
}

// Counts reports whether a booked slot counts for the limit of that name and value.
func (s Slot) Counts(limit, value string) bool {
	for n := &s.leaf.node; n != nil; n = n.parent {
		if n.limitName() == limit && n.value == value {
			return true
		}
	}
	for _, n := range s.leaf.across {
		if n.name == limit && n.value == value {
			return true
		}
	}
	return false
}
