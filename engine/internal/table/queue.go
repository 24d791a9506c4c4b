package table

import (
	"github.com/google/btree"

	"github.com/taskengine/taskengine/engine/internal/window"
	"github.com/taskengine/taskengine/engine/policy"
	"github.com/taskengine/taskengine/engine/task"
)

// queue is the queue of one type and group: the end of a branch of limits.
type queue struct {
	node // its own limit is the type's concurrency, where nothing else can hold that

	name   task.Queue
	kind   *kind
	across []*node // the limits that cut across
	place  int     // in kind.queues

	head     item                // the best trigger, if any
	any      bool                // whether there is a head
	rest     *btree.BTreeG[item] // the others; nil until there was more than one
	running  int                 // slots booked
	parkedOn *node               // the limit in whose parked it stands, or nil

	window  window.Window[task.Rank] // which of its rows in the store are in memory
	wants   bool                     // stands in its kind's wanting, to be loaded
	starved bool                     // counted in its kind's starved: the store has rows, and memory has none
}

func (l *queue) len() int {
	n := 0
	if l.any {
		n++
	}
	if l.rest != nil {
		n += l.rest.Len()
	}
	return n
}

// best returns what the queue has to offer: nothing while it is closed or parked.
func (l *queue) best() (kid, bool) {
	if !l.any || l.kind.closed || l.parkedOn != nil {
		return kid{}, false
	}
	return kid{rank: l.head.rank, need: l.kind.policy.Weight}, true
}

func (i item) before(j item) bool { return i.rank.Compare(j.rank) < 0 }

// put adds i in its place and reports whether the queue grew by it. Of two versions of
// the same task the newer stays: a page may have been read before the older changed.
func (l *queue) put(t *Table, i item) bool {
	switch {
	case !l.any:
		l.head, l.any = i, true
		return true
	case i.rank == l.head.rank:
		if i.ref.Version > l.head.ref.Version {
			l.head = i
		}
		return false
	case i.before(l.head):
		l.head, i = i, l.head
	}
	if l.rest == nil {
		l.rest = btree.NewWithFreeListG(degree, item.before, t.items)
	}
	old, replaced := l.rest.ReplaceOrInsert(i)
	if replaced && old.ref.Version > i.ref.Version {
		l.rest.ReplaceOrInsert(old)
	}
	return !replaced
}

// pop takes the head.
func (l *queue) pop() item {
	i := l.head
	l.head, l.any = item{}, false
	if l.rest != nil {
		l.head, l.any = l.rest.DeleteMin()
	}
	return i
}

// last returns the trigger that ranks behind all others.
func (l *queue) last() (item, bool) {
	if l.rest != nil && l.rest.Len() > 0 {
		return l.rest.Max()
	}
	return l.head, l.any
}

// dropLast takes the trigger that ranks behind all others.
func (l *queue) dropLast() {
	if l.rest != nil && l.rest.Len() > 0 {
		l.rest.DeleteMax()
		return
	}
	l.head, l.any = item{}, false
}

// newQueue makes a queue that the table does not have. Its type must be a known one. While the
// type is unlisted, the store may have rows of the queue that no scan has come to.
func (t *Table) newQueue(name task.Queue) *queue {
	k := t.kinds[name.Type]
	values := k.valuesOf(name.Group)
	parent := t.limitNode(values.take(k.tree))

	l := t.spareQueue()
	rest, across := l.rest, l.across[:0]
	*l = queue{name: name, kind: k, place: len(k.queues), rest: rest, across: across}
	if k.unlisted {
		l.window.Reset()
	}
	t.serial++
	l.node = node{serial: t.serial, parent: parent, queue: l}
	parent.users++
	for _, chain := range k.across {
		for n := t.limitNode(values.take(chain)); n != t.root; n = n.parent {
			l.cross(n)
		}
	}
	if k.pool != nil {
		l.cross(k.pool)
	}
	switch c := k.policy.Concurrency; {
	case c > 0 && k.keyed == 0:
		l.max = c
	case c > 0:
		l.cross(t.limitNode([]policy.Limit{k.concurrency()}, nil))
	}
	t.queues[name] = l
	k.queues = append(k.queues, l)
	t.countIdle(l, 1)
	return l
}

// cross makes n count for l though l is not below it.
func (l *queue) cross(n *node) {
	l.across = append(l.across, n)
	n.users++
}

// concurrency is a type's own limit where its queues are many.
func (k *kind) concurrency() policy.Limit {
	return policy.Limit{Name: policy.ConcurrencyName(k.name), Max: k.policy.Concurrency}
}

// values are those that the limits of a type find in a group, in their order.
type values struct {
	texts []string
	lacks []bool // which of them the group does not have; nil if it has all
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

// take returns chain, whose values come next, with those values, and without the limits whose
// value the group lacks: what is booked without them gets its values before it begins.
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
	if n := len(t.spare); n > 0 {
		l := t.spare[n-1]
		t.spare = t.spare[:n-1]
		return l
	}
	return &queue{}
}

const maxSpare = 1024

// stays reports whether the queue is kept though nothing is in it: there is one such queue
// for each type.
func (l *queue) stays() bool { return l.name.Group == "" }

// countIdle counts l in or out as one of which nothing runs.
func (t *Table) countIdle(l *queue, n int) {
	if l.stays() {
		return
	}
	k := l.kind
	if k.idle == 0 {
		t.crowded++
	}
	k.idle += n
	t.idle += n
	if k.idle == 0 {
		t.crowded--
	}
	if n < 0 {
		t.look.gone()
	}
}

// grow counts n triggers more or less in l.
func (t *Table) grow(l *queue, n int) {
	k := l.kind
	if k.size == 0 {
		t.active++
	}
	k.size += n
	t.size += n
	if k.size == 0 {
		t.active--
	}
	if n < 0 {
		t.look.gone()
	}
}

// release forgets the queue if nothing is in it, nothing of it runs, and the store has
// no more of it. It reports whether it did.
func (t *Table) release(now int64, l *queue) bool {
	if l.any || l.running > 0 || l.window.Asked() || l.stays() || !l.window.Complete() && !l.kind.closed {
		return false
	}
	t.forget(now, l)
	return true
}

// abandon leaves all triggers of l to the store, and forgets l if it can.
func (t *Table) abandon(now int64, l *queue) {
	t.grow(l, -l.len())
	l.head, l.any = item{}, false
	if l.rest != nil {
		l.rest.Clear(true)
	}
	l.window.Reset()
	l.wants = false
	t.changed(now, l)
	t.noteStarved(l)
	t.release(now, l)
}

// evict abandons l, of which nothing runs and nothing is being loaded, to make room for
// others. The listing of its type finds it again.
func (t *Table) evict(now int64, l *queue) {
	t.unlist(l.kind)
	t.abandon(now, l)
	if t.queues[l.name] == l {
		t.forget(now, l)
	}
}

// forget takes l, in which nothing is and of which nothing runs, out of the table.
func (t *Table) forget(now int64, l *queue) {
	k := l.kind
	last := k.queues[len(k.queues)-1]
	k.queues[l.place], last.place = last, l.place
	k.queues[len(k.queues)-1] = nil
	k.queues = k.queues[:len(k.queues)-1]
	delete(t.queues, l.name)
	t.countIdle(l, -1)
	l.window = window.Window[task.Rank]{}
	t.noteStarved(l)
	for _, n := range l.across {
		n.users--
		t.retire(now, n)
	}
	parent := l.parent
	parent.users--
	t.retire(now, parent)
	if len(t.spare) < maxSpare && !l.wants {
		t.spare = append(t.spare, l)
	}
	l.wants = false
}
