package table

import (
	"strings"

	"github.com/taskengine/taskengine/engine/policy"
	"github.com/taskengine/taskengine/engine/task"
)

// node is a limit in use, or the part of a queue that makes it one.
//
//  1. kids holds exactly the children that could run if only this node and those above
//     it had room.
//  2. A node is in its parent's kids, under shown, exactly if listed.
//  3. used is the weight of all that is booked below it.
type node struct {
	serial uint64 // distinguishes nodes of equal rank
	name   string // of the limit; "" for the root and for a type's own concurrency
	key    string // identity in Table.nodes; "" for queues and the root
	value  string // of Per; "" if it is one limit
	keyed  bool   // it is one of several, for a value or for a queue
	parent *node
	queue  *queue // the queue this node is part of, or nil

	max    int  // slots; 0 is without limit, unless isPool
	isPool bool // max may be 0, and a task takes one slot whatever its weight
	used   int
	bucket bucket
	alarm  int64 // when the table rings for it, 0 if not

	kids   offers // none for queues
	parked offers // queues that only this limit stops
	roomy  bool   // stands in Table.roomy
	users  int    // children, listed or not, and queues it cuts across

	listed bool
	shown  kid // how it stands in its parent's kids, or in the parked of queue.parkedOn
}

// kid is a child in the order of the best it has to offer.
type kid struct {
	rank task.Rank
	need int // weight of that best
	node *node
}

func (a kid) before(b kid) bool {
	if c := a.rank.Compare(b.rank); c != 0 {
		return c < 0
	}
	return a.node.serial < b.node.serial
}

func (t *Table) newNode(parent *node, l policy.Limit, value string) *node {
	t.serial++
	n := &node{
		serial: t.serial, name: l.Name, value: value, keyed: l.Per != "" || parent != nil && parent.keyed, parent: parent,
		max: l.MaxFor(value), bucket: newBucket(l.Rate),
	}
	if parent != nil {
		parent.users++
	}
	return n
}

// room reports whether n admits something of weight need now. A full rate sets the
// alarm for when it does.
func (t *Table) room(now int64, n *node, need int) bool {
	if n.limited() && n.used+n.cost(need) > n.max {
		return false
	}
	if at := n.bucket.next(); at > now {
		t.setAlarm(n, at)
		return false
	}
	return true
}

// best returns what n has to offer by itself, its own limit and those above aside.
func (n *node) best() (kid, bool) {
	if n.queue != nil {
		return n.queue.best()
	}
	return n.kids.Min()
}

// settle makes rules 1 and 2 true again for n and all above it, after something about
// them has changed.
func (t *Table) settle(now int64, n *node) {
	for ; n.parent != nil; n = n.parent {
		offer, ok := n.best()
		offer.node = n
		if ok && !t.room(now, n, offer.need) {
			ok = false
		}
		if ok == n.listed && (!ok || offer == n.shown) {
			continue
		}
		if n.listed {
			n.parent.kids.remove(n.shown)
		}
		if ok {
			n.parent.kids.insert(t.lists, offer)
		}
		n.listed, n.shown = ok, offer
	}
}

// limitNode returns the node of the first limit of chain for a group's values, made
// together with those above it if need be.
func (t *Table) limitNode(chain []policy.Limit, values []string) *node {
	if len(chain) == 0 {
		return t.root
	}
	key := nodeKey(chain, values)
	if n, ok := t.nodes[key]; ok {
		return n
	}
	l, value := chain[0], ""
	if l.Per != "" {
		value, values = values[0], values[1:]
	}
	n := t.newNode(t.limitNode(chain[1:], values), l, value)
	n.key = key
	if due, ok := t.spent[key]; ok {
		n.bucket.due = due
		delete(t.spent, key)
		t.fading.Delete(fading{due, key})
	}
	t.nodes[key] = n
	return n
}

// nodeKey is the identity of the first limit of chain for a group's values.
func nodeKey(chain []policy.Limit, values []string) string {
	var id strings.Builder
	own := 0
	for _, l := range chain {
		id.WriteString(l.Name)
		id.WriteByte(0)
		if l.Per != "" {
			id.WriteString(task.GroupOf(values[own]))
			id.WriteByte(0)
			own++
		}
	}
	return id.String()
}

// retire forgets n, and those above it, if nothing uses it. Of a rate that is not full
// again it keeps when it is.
func (t *Table) retire(now int64, n *node) {
	for n != t.root && n.queue == nil && n.users == 0 && n.used == 0 {
		if !n.bucket.full(now) {
			t.fade(n.key, n.bucket.due)
		}
		if n.alarm != 0 {
			t.alarms.Delete(alarm{n.alarm, n})
			n.alarm = 0
		}
		delete(t.nodes, n.key)
		n = n.parent
		n.users--
	}
}
