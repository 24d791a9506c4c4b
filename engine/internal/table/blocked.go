package table

import (
	"math"

	"github.com/taskengine/taskengine/task"
)

// Counted is a limit that counts for the tasks of a queue.
type Counted struct {
	Limit string // identifies the limit and its values
	Name  string // as Usage.Name
	Value string // as Usage.Value
}

// Blocked is a limit that keeps tasks of this node waiting that could run otherwise.
type Blocked struct {
	Limit  string // as Counted.Limit
	Paused bool   // it is paused
	Rate   bool   // its rate is used up
}

// identity returns a name of n among all limits and values.
func (n *node) identity() string {
	if n.key != "" {
		return n.key
	}
	return n.limitName()
}

// Counted returns the limits that count for the tasks of a queue: in the tree, nearest first, then the ones that cut across.
// It returns none for a type that is not configured.
func (t *Table) Counted(now int64, name task.Queue) (all []Counted) {
	if _, ok := t.kinds[name.Type]; !ok {
		return nil
	}
	q, known := t.queues[name]
	if !known {
		q = t.newQueue(name)
		defer t.forget(now, q)
	}
	for n := &q.node; n != nil; n = n.parent {
		if n != t.slotless && (n.queue == nil && (n.fair == nil || !n.fair.isGroup) || n.max > 0) {
			all = append(all, Counted{n.identity(), n.limitName(), n.value})
		}
	}
	for _, n := range q.across {
		all = append(all, Counted{n.identity(), n.limitName(), n.value})
	}
	return all
}

// EachBlocked calls fn with the limits that keep tasks waiting. It looks at most limits in use, and at the queues of types that
// have a concurrency and no group.
func (t *Table) EachBlocked(now int64, fn func(Blocked)) {
	t.blockedBy(now, t.root, fn)
	for _, n := range t.nodes {
		t.blockedBy(now, n, fn)
	}
	for _, n := range t.pools {
		t.blockedBy(now, n, fn)
	}
	for _, k := range t.order {
		if k.keyed > 0 || k.policy.Concurrency == 0 {
			continue
		}
		for _, q := range k.queues {
			t.blockedBy(now, &q.node, fn)
		}
	}
}

// Nodes returns how many limits EachBlocked looks at.
func (t *Table) Nodes() int { return len(t.nodes) }

// blockedBy calls fn if a task waits below n, and n has no room for it.
func (t *Table) blockedBy(now int64, n *node, fn func(Blocked)) {
	need := math.MaxInt
	if n.queue != nil {
		if n.queue.any {
			need = n.queue.kind.policy.Weight
		}
	} else {
		if first, ok := n.children.Min(); ok {
			need = first.need
		}
		if first, ok := n.parked.Min(); ok {
			need = min(need, first.need)
		}
	}
	if need == math.MaxInt {
		return
	}
	b := Blocked{Limit: n.identity(), Paused: n.paused}
	if _, ok := n.opensAt(now); !ok {
		b.Rate = true
	}
	if p := n.permits; p != nil && p.interval > 0 && p.left == 0 {
		b.Rate = true
	}
	if b.Paused || b.Rate || n.limited() && n.used+n.cost(need) > n.capacity() {
		fn(b)
	}
}
