package table

import "github.com/taskengine/taskengine/policy"

// A pool is a handler that runs a limited number of tasks at a time. Its slots are a limit that cuts
// across the tree, for all queues of the types that the handler serves. The number of slots is 0 at
// the start and changes while the pool is in use.

func (t *Table) poolNode(name string) *node {
	n, ok := t.pools[name]
	if !ok {
		n = t.newNode(nil, policy.Limit{Name: policy.PoolName(name)}, "")
		n.isPool = true
		n.users = 1 // the table itself: the node of a pool is never retired
		t.pools[name] = n
	}
	return n
}

// Resize sets the number of slots of a pool. If more slots are booked, no task is booked until enough
// of them are free. Resize returns false if no type uses a pool of that name.
func (t *Table) Resize(now int64, pool string, slots int) bool {
	n, ok := t.pools[pool]
	if !ok {
		return false
	}
	n.max = max(0, slots)
	t.markRoomy(now, n)
	return true
}

// Wanted estimates how many more tasks could be booked at once if the pool had slots for them. It
// returns at most atMost. A limit that several queues share is counted for each queue separately, so
// the estimate may be too high.
func (t *Table) Wanted(pool string, atMost int) int {
	n, ok := t.pools[pool]
	if !ok {
		return 0
	}
	wanted := 0
	var count func(child) bool
	count = func(k child) bool {
		if k.node.queue == nil {
			k.node.children.ascend(count)
		} else {
			wanted += min(k.node.queue.bookable(n), atMost-wanted)
		}
		return wanted < atMost
	}
	n.parked.ascend(count)
	return wanted
}

// bookable returns how many triggers of q in memory its limits have room for, the pool left aside.
func (q *queue) bookable(pool *node) int {
	count, weight := q.len(), q.kind.policy.Weight
	admit := func(n *node) {
		if n != pool && n.limited() {
			count = min(count, max(0, n.capacity()-n.used)/n.cost(weight))
		}
	}
	for n := &q.node; n != nil; n = n.parent {
		admit(n)
	}
	for _, n := range q.across {
		admit(n)
	}
	return count
}

// limited reports whether n has a limited number of slots.
func (n *node) limited() bool { return n.max > 0 || n.isPool }

// cost returns the number of slots of n that a task of the given weight takes.
func (n *node) cost(weight int) int {
	if n.isPool {
		return 1
	}
	return weight
}
