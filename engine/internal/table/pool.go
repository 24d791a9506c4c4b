package table

import "github.com/taskengine/taskengine/engine/policy"

// A pool is the slots of a handler that runs a limited number of tasks at a time. It is
// one more limit that cuts across the tree, for all queues of the types that the handler
// serves. Its number of slots changes while it is used. A pool begins without slots.

func (t *Table) poolNode(name string) *node {
	n, ok := t.pools[name]
	if !ok {
		n = t.newNode(nil, policy.Limit{Name: policy.PoolName(name)}, "")
		n.isPool = true
		n.users = 1 // the table: a pool is never retired
		t.pools[name] = n
	}
	return n
}

// Resize sets how many slots a pool has. If that is less than it has booked, nothing is
// booked until enough are free. It returns false if no type uses a pool of that name.
func (t *Table) Resize(now int64, pool string, slots int) bool {
	n, ok := t.pools[pool]
	if !ok {
		return false
	}
	n.max = max(0, slots)
	t.offerRoom(now, n)
	return true
}

// Wanted estimates how many tasks could be booked at once if the pool had room for them,
// and returns at most atMost. Limits that several queues share are counted for each queue
// by itself, so the estimate may be too high.
func (t *Table) Wanted(pool string, atMost int) int {
	n, ok := t.pools[pool]
	if !ok {
		return 0
	}
	wanted := 0
	n.parked.ascend(func(k kid) bool {
		wanted += min(k.node.queue.bookable(n), atMost-wanted)
		return wanted < atMost
	})
	return wanted
}

// bookable returns how many triggers of l in memory its limits admit, without those of a
// pool.
func (l *queue) bookable(pool *node) int {
	count, weight := l.len(), l.kind.policy.Weight
	admit := func(n *node) {
		if n != pool && n.limited() {
			count = min(count, max(0, n.max-n.used)/n.cost(weight))
		}
	}
	for n := &l.node; n != nil; n = n.parent {
		admit(n)
	}
	for _, n := range l.across {
		admit(n)
	}
	return count
}

// limited reports whether n has a limited number of slots.
func (n *node) limited() bool { return n.max > 0 || n.isPool }

// cost returns how many slots of n a task of the given weight takes.
func (n *node) cost(weight int) int {
	if n.isPool {
		return 1
	}
	return weight
}
