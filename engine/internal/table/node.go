package table

import (
	"strings"

	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

// node is a limit in use, or the part of a queue that makes the queue a node of the tree.
//
//  1. children has exactly the children that could run if this node and the nodes above it had
//     room.
//  2. A node is in the children of its parent exactly if offered is set, and then as shown.
//  3. used is the weight of all booked tasks that the node counts.
type node struct {
	serial uint64 // orders nodes of equal rank
	name   string // of the limit; "" for the root and for a queue
	key    string // in Table.nodes; of a group the name of its limit; "" for queues, pools and the root
	value  string // of policy.Limit.Per; "" if there is one limit for all
	keyed  bool   // it, or a node above it, is for one value of several
	parent *node
	queue  *queue // the queue that this node is part of, or nil

	max    int  // number of slots; 0 is no limit, unless isPool is set
	isPool bool // max may be 0, and each task takes one slot regardless of its weight
	used   int
	total  *Total // of the limit, with all its values; nil for the root, queues, pools, groups and stands
	paused bool   // nothing starts under it

	begin
	bucket bucket // of bookings; that of a limit of the cluster are its tokens
	alarm  int64  // its time in Table.alarms; 0 if it has none

	permits *permits // of a limit of the cluster, which has max slots on all nodes; else nil

	children offers // empty for queues
	parked   offers // queues that wait for room in this limit, which cuts across them, or stands of them
	roomy    bool   // it is in Table.roomy
	passage
	users int // number of children, offered or not, and of queues that it cuts across

	fair *fair // of a value of a fair limit, of a group of values, and of their stands; else nil

	offered bool
	shown   child // how it is in the children of its parent, or where it is parked
}

// child is a node as its parent orders it: by the best trigger below it.
type child struct {
	rank task.Rank
	need int // weight of that trigger
	node *node
}

func (a child) before(b child) bool {
	if c := a.rank.Compare(b.rank); c != 0 {
		return c < 0
	}
	return a.node.serial < b.node.serial
}

func (t *Table) newNode(parent *node, l policy.Limit, value string) *node {
	t.serial++
	n := &node{
		serial: t.serial, name: l.Name, value: value, keyed: l.Per != "" || parent != nil && parent.keyed, parent: parent,
		max: l.Max,
	}
	if parent != nil {
		parent.users++
	}
	return n
}

// room reports whether n has room for a task of weight need now. If the rate of n does not allow a
// start, room sets the alarm.
func (t *Table) room(now int64, n *node, need int) bool {
	if n.paused || n.limited() && n.used+n.cost(need) > n.capacity() {
		return false
	}
	if p := n.permits; p != nil && p.interval > 0 && p.left == 0 {
		return false
	}
	at, ok := n.opensAt(now)
	if !ok && at > now {
		t.setAlarm(n, at)
	}
	return ok
}

// best returns the best child of n, or the queue itself, whether or not n and the nodes above it have
// room. It returns false if there is none.
func (n *node) best() (child, bool) {
	switch {
	case n.queue != nil:
		return n.queue.best()
	case n.fair != nil && n.fair.isGroup:
		first, ok := n.children.Min()
		if !ok {
			return child{}, false
		}
		return first.node.best()
	}
	return n.children.Min()
}

// leaf returns the queue that is the best below n. There must be one.
func (n *node) leaf() *queue {
	for n.queue == nil {
		first, _ := n.children.Min()
		n = first.node
	}
	return n.queue
}

// reposition restores invariants 1 and 2 for n and the nodes above it after a change of n: it updates
// the position of each node in the children of its parent.
func (t *Table) reposition(now int64, n *node) {
	for ; n.parent != nil; n = n.parent {
		offer, ok := n.best()
		offer.node = n
		if ok && !t.room(now, n, offer.need) {
			ok = false
			t.lack(now, n, offer)
		} else if n.permits != nil && n.parked.Len() == 0 {
			t.lacksNone(n)
		}
		if !ok && !n.offered {
			continue
		}
		if ok && n.fair != nil && !n.fair.isGroup {
			offer.rank = n.fair.place(offer.rank.Priority)
		}
		t.show(n, &n.parent.children, offer, ok)
	}
}

// show puts n into the set that orders it, as offer, or removes it from there if ok is false.
func (t *Table) show(n *node, in *offers, offer child, ok bool) {
	if ok == n.offered && (!ok || offer == n.shown) {
		return
	}
	if n.offered {
		in.remove(n.shown)
	}
	if ok {
		in.insert(t.freeChildren, offer)
	}
	n.offered, n.shown = ok, offer
}

// limitNode returns the node of the first limit of chain for the values of a group. It makes the node,
// and the nodes above it, if they do not exist.
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
	parent := t.limitNode(chain[1:], values)
	if l.Fair {
		parent = t.groupOf(parent, l)
	}
	n := t.newNode(parent, l, value)
	n.key, n.total = key, t.totalOf(l.Name)
	if l.Fair {
		n.fair = t.newFair(l, value)
	}
	if l.Cluster && t.config.Permits {
		own := values
		if l.Per != "" {
			own = append([]string{value}, values...)
		}
		t.addPermits(n, own)
	}
	n.limit(l.For(value, t.live))
	if due, ok := t.spentByKey[key]; ok {
		n.bucket.spent(t.now, due)
		n.begins.spent(t.now, due)
		delete(t.spentByKey, key)
		t.spentByTime.Delete(spentRate{due, key})
	}
	t.nodes[key] = n
	return n
}

// nodeKey returns the key of the first limit of chain for the values of a group.
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

// retire removes n, and then the nodes above it, as long as they are not in use. If the bucket of a
// node is not full, the table keeps the time when it will be.
func (t *Table) retire(now int64, n *node) {
	for n.parent != nil && n.queue == nil && n.users == 0 && n.used == 0 && !n.holdsPermits() {
		if due := max(n.bucket.due, n.begins.due); due > now {
			t.keepSpent(n.key, due)
		}
		if n.alarm != 0 {
			t.alarms.Delete(alarm{n.alarm, n})
			n.alarm = 0
		}
		if n.permits != nil {
			delete(t.permits, n.permits.name)
			n.permits.leaveLine()
			t.leaveAhead(n.permits)
		}
		if n.fair != nil && n.fair.isGroup {
			delete(t.groups, groupKey{n.parent, n.key})
		} else {
			delete(t.nodes, n.key)
		}
		n = n.parent
		n.users--
	}
}

// holdsPermits reports whether the table needs n because of its permits or tokens.
func (n *node) holdsPermits() bool {
	p := n.permits
	return p != nil && (p.held > 0 || p.ordered.Want > 0 || p.dirty || p.reviewAt != 0 || p.drawing)
}
