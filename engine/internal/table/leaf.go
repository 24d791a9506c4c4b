package table

import (
	"github.com/google/btree"

	"github.com/taskengine/taskengine/engine/policy"
	"github.com/taskengine/taskengine/engine/task"
)

// leaf is the queue of one type and group: the end of a branch of limits.
type leaf struct {
	node // its own limit is the type's concurrency, where nothing else can hold that

	name   task.Leaf
	kind   *kind
	across []*node // the limits that cut across
	place  int     // in kind.leaves

	head     item                // the best trigger, if any
	any      bool                // whether there is a head
	rest     *btree.BTreeG[item] // the others; nil until there was more than one
	running  int                 // slots booked
	parkedOn *node               // the limit in whose parked it stands, or nil

	window // how much of the store's leaf is in memory
}

func (l *leaf) len() int {
	n := 0
	if l.any {
		n++
	}
	if l.rest != nil {
		n += l.rest.Len()
	}
	return n
}

// best returns what the leaf has to offer: nothing while it is closed or parked.
func (l *leaf) best() (kid, bool) {
	if !l.any || l.kind.closed || l.parkedOn != nil {
		return kid{}, false
	}
	return kid{rank: l.head.rank, need: l.kind.policy.Weight}, true
}

func (i item) before(j item) bool { return i.rank.Compare(j.rank) < 0 }

// put adds i in its place and reports whether the leaf grew by it. Of two versions of
// the same task the newer stays: a page may have been read before the older changed.
func (l *leaf) put(t *Table, i item) bool {
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
		l.rest = btree.NewWithFreeListG(degree, item.before, t.queues)
	}
	old, replaced := l.rest.ReplaceOrInsert(i)
	if replaced && old.ref.Version > i.ref.Version {
		l.rest.ReplaceOrInsert(old)
	}
	return !replaced
}

// pop takes the head.
func (l *leaf) pop() item {
	i := l.head
	l.head, l.any = item{}, false
	if l.rest != nil {
		l.head, l.any = l.rest.DeleteMin()
	}
	return i
}

// last returns the trigger that ranks behind all others.
func (l *leaf) last() (item, bool) {
	if l.rest != nil && l.rest.Len() > 0 {
		return l.rest.Max()
	}
	return l.head, l.any
}

// dropLast takes the trigger that ranks behind all others.
func (l *leaf) dropLast() {
	if l.rest != nil && l.rest.Len() > 0 {
		l.rest.DeleteMax()
		return
	}
	l.head, l.any = item{}, false
}

// newLeaf makes a leaf that the table does not have. Its type must be a known one. While the
// type is unlisted, the store may have rows of the leaf that no scan has come to.
func (t *Table) newLeaf(name task.Leaf) *leaf {
	k := t.kinds[name.Type]
	values := k.valuesOf(name.Group)
	parent := t.limitNode(values.take(k.tree))

	l := t.spareLeaf()
	rest, across := l.rest, l.across[:0]
	*l = leaf{name: name, kind: k, place: len(k.leaves), rest: rest, across: across}
	l.more = k.unlisted
	t.serial++
	l.node = node{serial: t.serial, parent: parent, leaf: l}
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
	t.leaves[name] = l
	k.leaves = append(k.leaves, l)
	t.countIdle(l, 1)
	return l
}

// cross makes n count for l though l is not below it.
func (l *leaf) cross(n *node) {
	l.across = append(l.across, n)
	n.users++
}

// concurrency is a type's own limit where its leaves are many.
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

func (t *Table) spareLeaf() *leaf {
	if n := len(t.spare); n > 0 {
		l := t.spare[n-1]
		t.spare = t.spare[:n-1]
		return l
	}
	return &leaf{}
}

const maxSpare = 1024

// stays reports whether the leaf is kept though nothing is in it: there is one such leaf
// for each type.
func (l *leaf) stays() bool { return l.name.Group == "" }

// countIdle counts l in or out as one of which nothing runs.
func (t *Table) countIdle(l *leaf, n int) {
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
func (t *Table) grow(l *leaf, n int) {
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

// release forgets the leaf if nothing is in it, nothing of it runs, and the store has
// no more of it. It reports whether it did.
func (t *Table) release(now int64, l *leaf) bool {
	if l.any || l.running > 0 || l.loading || l.stays() || l.more && !l.kind.closed {
		return false
	}
	t.forget(now, l)
	return true
}

// abandon leaves all triggers of l to the store, and forgets l if it can.
func (t *Table) abandon(now int64, l *leaf) {
	t.grow(l, -l.len())
	l.head, l.any = item{}, false
	if l.rest != nil {
		l.rest.Clear(true)
	}
	l.more, l.bound = true, task.Rank{}
	l.wants = false
	t.changed(now, l)
	t.noteStarved(l)
	t.release(now, l)
}

// evict abandons l, of which nothing runs and nothing is being loaded, to make room for
// others. The listing of its type finds it again.
func (t *Table) evict(now int64, l *leaf) {
	t.unlist(l.kind)
	t.abandon(now, l)
	if t.leaves[l.name] == l {
		t.forget(now, l)
	}
}

// forget takes l, in which nothing is and of which nothing runs, out of the table.
func (t *Table) forget(now int64, l *leaf) {
	k := l.kind
	last := k.leaves[len(k.leaves)-1]
	k.leaves[l.place], last.place = last, l.place
	k.leaves[len(k.leaves)-1] = nil
	k.leaves = k.leaves[:len(k.leaves)-1]
	delete(t.leaves, l.name)
	t.countIdle(l, -1)
	l.more = false
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
