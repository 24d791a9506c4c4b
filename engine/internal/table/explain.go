package table

import (
	"time"

	"github.com/taskengine/taskengine/task"
)

// Explanation says why a ready task has no slot.
type Explanation struct {
	Closed   bool // its type is paused, has no handler or is not configured
	Ahead    int  // number of triggers in memory of the same queue that rank before it
	Stored   bool // the task, or a task before it, is in the store only
	Unlisted bool // its queue is not in the table: its type has too many queues, or they are being read

	Ageing time.Duration // of its type; 0 is none

	Limits []Usage // the limits that count for it: in the tree, nearest first, then the ones that cut across
}

// Usage is the use of a limit.
type Usage struct {
	Name   string // of the limit; policy.ConcurrencyName for the concurrency of a type; "" for the slots of the node
	Value  string // of policy.Limit.Per; "" if there is one limit for all
	Used   int
	Max    int   // 0 is no limit, except for the slots of a pool
	OpenAt int64 // when its rate allows the next start, in Unix nanoseconds; 0 if it allows one now
	Full   bool  // it has no room for the task now
	Need   int   // number of slots that the task takes
	Before Claim // a task that ranks before it and has no room here, and so blocks it; zero if none
	Paused bool  // nothing starts under it

	// IsTurnOf says that the values of the limit take turns, and that it is the turn of another value,
	// which is Turn.
	IsTurnOf bool
	Turn     string

	// Cluster says that it counts the tasks of all nodes. Used is the use of this node then, Max the
	// maximum for all nodes, Held how many permits this node has, and Waiting how many permits other nodes
	// wait for.
	Cluster       bool
	Held, Waiting int
}

// Claim is a task that waits for room in a limit.
type Claim struct {
	ID   task.ID
	Type string
	Need int // number of slots that it takes
}

// Explain says why a ready task of the given queue and rank has no slot.
func (t *Table) Explain(now int64, name task.Queue, rank task.Rank) Explanation {
	k, ok := t.kinds[name.Type]
	if !ok {
		return Explanation{Closed: true}
	}
	rank = k.place(rank)
	q, known := t.queues[name]
	if !known {
		q = t.newQueue(name)
		defer t.forget(now, q) // if q stayed, a scan would skip it, and its rows in the store
	}
	x := Explanation{Closed: k.closed, Ageing: k.policy.Ageing}
	if !k.closed {
		x.Unlisted = !known && k.unlisted
		x.Stored = known && !q.window.Covers(rank)
	}
	if q.any && q.head.rank.Compare(rank) < 0 {
		x.Ahead++
	}
	if q.rest != nil {
		q.rest.Ascend(func(i item) bool {
			before := i.rank.Compare(rank) < 0
			if before {
				x.Ahead++
			}
			return before
		})
	}
	for n := &q.node; n != nil && n != t.slotless; n = n.parent {
		if n.queue == nil && (n.fair == nil || !n.fair.isGroup) || n.max > 0 {
			u := t.usage(now, n, k)
			u.Before = t.before(now, n, &n.children, q, rank)
			u.Turn, u.IsTurnOf = q.otherTurn(n)
			x.Limits = append(x.Limits, u)
		}
	}
	for _, n := range q.across {
		u := t.usage(now, n, k)
		u.Before = t.before(now, n, &n.parked, q, rank)
		x.Limits = append(x.Limits, u)
	}
	return x
}

// before returns the first task that waits for room in n, if it is of another queue than q, ranks
// before rank and has no room.
func (t *Table) before(now int64, n *node, waiting *offers, q *queue, rank task.Rank) Claim {
	first, ok := waiting.Min()
	if !ok || first.rank.Compare(rank) >= 0 || t.room(now, n, first.need) {
		return Claim{}
	}
	other := first.node.leaf()
	if other == q {
		return Claim{}
	}
	return Claim{ID: other.head.ref.ID, Type: other.kind.name, Need: n.cost(first.need)}
}

func (t *Table) usage(now int64, n *node, k *kind) Usage {
	u := Usage{Name: n.limitName(), Value: n.value, Used: n.used, Max: n.max, Need: n.cost(k.policy.Weight)}
	u.Paused = n.paused
	u.Full = n.paused || n.limited() && n.used+u.Need > n.capacity()
	if p := n.permits; p != nil {
		u.Cluster, u.Held, u.Waiting = true, p.held, p.waiting
		if p.interval > 0 && p.left == 0 {
			u.OpenAt, u.Full = max(now, p.drawAt), true
		}
	}
	if at, ok := n.opensAt(now); !ok {
		u.OpenAt, u.Full = max(now, at), true
	}
	return u
}

// limitName returns the name of n for users.
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
