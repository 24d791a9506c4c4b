package table

import "github.com/google/btree"

// offers is a set of children in the order of what they have to offer. The first is kept
// beside the tree: most limits have few children that are open at a time, often one,
// and that one moves with every task.
type offers struct {
	first kid
	any   bool
	rest  *btree.BTreeG[kid] // nil until there was more than one
}

func (o *offers) Min() (kid, bool) { return o.first, o.any }

func (o *offers) Len() int {
	n := 0
	if o.any {
		n++
	}
	if o.rest != nil {
		n += o.rest.Len()
	}
	return n
}

// insert adds k, which is not there.
func (o *offers) insert(lists *btree.FreeListG[kid], k kid) {
	if !o.any {
		o.first, o.any = k, true
		return
	}
	if k.before(o.first) {
		o.first, k = k, o.first
	}
	if o.rest == nil {
		o.rest = btree.NewWithFreeListG(degree, kid.before, lists)
	}
	o.rest.ReplaceOrInsert(k)
}

// remove takes k out, which is there.
func (o *offers) remove(k kid) {
	switch {
	case k.node != o.first.node:
		o.rest.Delete(k)
	case o.rest == nil:
		o.first, o.any = kid{}, false
	default:
		o.first, o.any = o.rest.DeleteMin()
	}
}

// ascend calls fn with the children in their order until it returns false.
func (o *offers) ascend(fn func(kid) bool) {
	if o.any && fn(o.first) && o.rest != nil {
		o.rest.Ascend(fn)
	}
}
