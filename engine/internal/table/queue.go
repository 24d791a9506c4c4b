package table

import (
	"github.com/google/btree"

	"github.com/taskengine/taskengine/engine/internal/window"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

// queue has the triggers of one type and group. It is a leaf of the tree of limits.
type queue struct {
	node // its limit is the concurrency of the type, if the type has one queue

	name   task.Queue
	kind   *kind
	across []*node // the limits that cut across the tree
	values []*node // the values of fair limits above it in the tree, nearest first
	index  int     // its position in kind.queues

	head     item                // the first trigger
	any      bool                // there is a head
	rest     *btree.BTreeG[item] // the other triggers; nil until there were two
	running  int                 // number of booked tasks
	waits    bool                // it is counted in the turns of its values; meaningful if it has some
	parkedOn *node               // the limit with it in parked, or a stand of the limit; or nil

	window    window.Window[task.Rank] // which of its rows in the store are in memory
	wantsLoad bool                     // it is in kind.toLoad; entries there without it are skipped
	starved   bool                     // it is counted in kind.starved: the store may have rows, and memory has none
}

func (q *queue) len() int {
	n := 0
	if q.any {
		n++
	}
	if q.rest != nil {
		n += q.rest.Len()
	}
	return n
}

// best returns q as a child, without its node. It returns false if q is empty, closed or parked.
func (q *queue) best() (child, bool) {
	if !q.any || q.kind.closed || q.parkedOn != nil {
		return child{}, false
	}
	return child{rank: q.head.rank, need: q.kind.policy.Weight}, true
}

func (i item) before(j item) bool { return i.rank.Compare(j.rank) < 0 }

// itemAt returns the item of a trigger with its place.
func itemAt(place task.Rank, tr task.Trigger) item { return item{place, tr.Ref, tr.Shard, tr.Priority} }

// put adds i and reports whether q has one trigger more now. Of two versions of the same task the
// newer stays: a trigger may be older than the version in memory.
func (q *queue) put(t *Table, i item) bool {
	switch {
	case !q.any:
		q.head, q.any = i, true
		return true
	case i.rank == q.head.rank:
		if i.ref.Version > q.head.ref.Version {
			q.head = i
		}
		return false
	case i.before(q.head):
		q.head, i = i, q.head
	}
	if q.rest == nil {
		q.rest = btree.NewWithFreeListG(degree, item.before, t.freeItems)
	}
	old, replaced := q.rest.ReplaceOrInsert(i)
	if replaced && old.ref.Version > i.ref.Version {
		q.rest.ReplaceOrInsert(old)
	}
	return !replaced
}

// pop removes the head and returns it.
func (q *queue) pop() item {
	i := q.head
	q.head, q.any = item{}, false
	if q.rest != nil {
		q.head, q.any = q.rest.DeleteMin()
	}
	return i
}

// last returns the last trigger.
func (q *queue) last() (item, bool) {
	if q.rest != nil && q.rest.Len() > 0 {
		return q.rest.Max()
	}
	return q.head, q.any
}

// dropLast removes the last trigger.
func (q *queue) dropLast() {
	if q.rest != nil && q.rest.Len() > 0 {
		q.rest.DeleteMax()
		return
	}
	q.head, q.any = item{}, false
}

// newQueue adds a queue to the table. Its type must be configured. While the type is unlisted, the
// store may have rows of the queue that no scan has reached.
func (t *Table) newQueue(name task.Queue) *queue {
	k := t.kinds[name.Type]
	values := k.valuesOf(name.Group)
	parent := t.slotless
	if !k.policy.Slotless {
		parent = t.limitNode(values.take(k.tree))
	}

	q := t.spareQueue()
	rest, across, fairs := q.rest, q.across[:0], q.values[:0]
	*q = queue{name: name, kind: k, index: len(k.queues), rest: rest, across: across, values: fairs}
	if k.unlisted {
		q.window.Reset()
	}
	t.serial++
	q.node = node{serial: t.serial, parent: parent, queue: q}
	parent.users++
	for n := parent; k.fair && n != nil; n = n.parent {
		if n.fair != nil && !n.fair.isGroup {
			q.values = append(q.values, n)
		}
	}
	for _, chain := range k.across {
		for n := t.limitNode(values.take(chain)); n != t.root; n = n.parent {
			q.cross(n)
		}
	}
	if k.pool != nil {
		q.cross(k.pool)
	}
	switch c := k.policy.Concurrency; {
	case c > 0 && k.keyed == 0:
		q.max = c
	case c > 0:
		q.cross(t.limitNode([]policy.Limit{k.concurrency()}, nil))
	}
	t.queues[name] = q
	k.queues = append(k.queues, q)
	t.countIdle(q, 1)
	return q
}

// cross makes n a limit of q that cuts across the tree.
func (q *queue) cross(n *node) {
	q.across = append(q.across, n)
	n.users++
}

// concurrency returns the limit that is the concurrency of a type with several queues.
func (k *kind) concurrency() policy.Limit {
	return policy.Limit{Name: policy.ConcurrencyName(k.name), Max: k.policy.Concurrency}
}

// values has the values of a group for the limits of its type, in the order of the limits.
type values struct {
	texts []string
	lacks []bool // the values that the group lacks; nil if it has all
}

func (k *kind) valuesOf(group string) values {
	v := values{texts: make([]string, k.keyed)}
	packed, n := task.GroupValues(group, k.width), k.width
	if k.strict {
		n = task.GroupLen(group)
	}
	for i, at := range k.places {
		if at >= 0 && at < n {
			v.texts[i] = packed[at]
			continue
		}
		if v.lacks == nil {
			v.lacks = make([]bool, k.keyed)
		}
		v.lacks[i] = true
	}
	return v
}

// take returns chain with the next values, the values of its limits. It leaves out limits without a
// value in the group: a task that was booked without them gets its values before it begins, see
// core.Config.Regroup.
func (v *values) take(chain []policy.Limit) ([]policy.Limit, []string) {
	n := countKeyed(chain)
	texts := v.texts[:n]
	v.texts = v.texts[n:]
	if v.lacks == nil {
		return chain, texts
	}
	lacks := v.lacks[:n]
	v.lacks = v.lacks[n:]
	var limits []policy.Limit
	var some []string
	for _, l := range chain {
		if l.Per != "" {
			text, lacking := texts[0], lacks[0]
			if texts, lacks = texts[1:], lacks[1:]; lacking {
				continue
			}
			some = append(some, text)
		}
		limits = append(limits, l)
	}
	return limits, some
}

func countKeyed(chain []policy.Limit) int {
	n := 0
	for _, l := range chain {
		if l.Per != "" {
			n++
		}
	}
	return n
}

func (t *Table) spareQueue() *queue {
	if n := len(t.spareQueues); n > 0 {
		q := t.spareQueues[n-1]
		t.spareQueues = t.spareQueues[:n-1]
		return q
	}
	return &queue{}
}

const maxSpareQueues = 1024

// isPermanent reports whether q stays in the table when it is empty. Each type has one such queue.
func (q *queue) isPermanent() bool { return q.name.Group == "" }

// countIdle adds n, which is 1 or -1, to the number of queues without running tasks.
func (t *Table) countIdle(q *queue, n int) {
	if q.isPermanent() {
		return
	}
	k := q.kind
	if k.idle == 0 {
		t.idleKinds++
	}
	k.idle += n
	t.idle += n
	if k.idle == 0 {
		t.idleKinds--
	}
	if n < 0 {
		t.reads.roomFreed()
	}
}

// countTriggers adds n to the number of triggers in q, which has changed.
func (t *Table) countTriggers(q *queue, n int) {
	k := q.kind
	if k.size == 0 {
		t.active++
	}
	k.size += n
	t.size += n
	if k.size == 0 {
		t.active--
	}
	if n < 0 {
		t.reads.roomFreed()
	}
	if q.any != q.waits && len(q.values) > 0 {
		t.countWaiting(q)
	}
}

// release removes q from the table if q is empty, no task of it runs, and the store has no rows of it.
// It reports whether it did.
func (t *Table) release(now int64, q *queue) bool {
	if q.any || q.running > 0 || q.window.Asked() || q.isPermanent() || !q.window.Complete() && !q.kind.closed {
		return false
	}
	t.forget(now, q)
	return true
}

// unload leaves all triggers of q to the store, and removes q from the table if it may.
func (t *Table) unload(now int64, q *queue) {
	size := q.len()
	q.head, q.any = item{}, false
	if q.rest != nil {
		q.rest.Clear(true)
	}
	t.countTriggers(q, -size)
	q.window.Reset()
	q.wantsLoad = false
	t.headChanged(now, q)
	t.updateStarved(q)
	t.release(now, q)
}

// forget removes q from the table. q is empty, and no task of it runs.
func (t *Table) forget(now int64, q *queue) {
	k := q.kind
	last := k.queues[len(k.queues)-1]
	k.queues[q.index], last.index = last, q.index
	k.queues[len(k.queues)-1] = nil
	k.queues = k.queues[:len(k.queues)-1]
	delete(t.queues, q.name)
	t.countIdle(q, -1)
	q.window = window.Window[task.Rank]{}
	t.updateStarved(q)
	for _, n := range q.across {
		n.users--
		t.retire(now, n)
	}
	parent := q.parent
	parent.users--
	t.retire(now, parent)
	if len(t.spareQueues) < maxSpareQueues && !q.wantsLoad {
		t.spareQueues = append(t.spareQueues, q)
	}
	q.wantsLoad = false
}
