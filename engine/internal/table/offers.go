package table

import "github.com/google/btree"

// offers is an ordered set of children. The first one is kept outside of the B-tree: most limits have
// few children that could run at a time, often one, and that one moves with every task.
type offers struct {
	first child
	any   bool
	rest  *btree.BTreeG[child] // nil until there was more than one
}

func (o *offers) Min() (child, bool) { return o.first, o.any }

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

// insert adds k, which must not be in the set.
func (o *offers) insert(lists *btree.FreeListG[child], k child) {
	if !o.any {
		o.first, o.any = k, true
		return
	}
	if k.before(o.first) {
		o.first, k = k, o.first
	}
	if o.rest == nil {
		o.rest = btree.NewWithFreeListG(degree, child.before, lists)
	}
	o.rest.ReplaceOrInsert(k)
}

// remove removes k, which must be in the set.
func (o *offers) remove(k child) {
	switch {
	case k.node != o.first.node:
		o.rest.Delete(k)
	case o.rest == nil:
		o.first, o.any = child{}, false
	default:
		o.first, o.any = o.rest.DeleteMin()
	}
}

// ascend calls fn for each child in order until fn returns false.
func (o *offers) ascend(fn func(child) bool) {
	if o.any && fn(o.first) && o.rest != nil {
		o.rest.Ascend(fn)
	}
}
