package table

import "github.com/taskengine/taskengine/engine/task"

// The table holds of each leaf a window of the store's: the triggers that rank first.
// Invariants:
//
//  1. Of a leaf without more, every ready row is in the table, was booked, or its
//     trigger is on the way.
//  2. Of a leaf with more, that holds for rows that rank up to bound; those behind are
//     in the store only, and their triggers are dropped.
//  3. Unless something is unseen, a leaf that is not in the table has no ready rows.
//
// So a trigger is never lost by being dropped: the window moves on when it runs low. A
// window that is not empty is never emptied to make room: with very many leaves the
// table exceeds its capacity by at most one trigger for each.

// window is how much of a leaf is in memory.
type window struct {
	more    bool      // the store has rows that rank behind bound
	bound   task.Rank // up to where the leaf is complete; the zero Rank is the very start
	loading bool      // a Load is on its way
	asked   task.Rank // the bound when the Load went out
	missed  bool      // a trigger was dropped since then,
	gap     task.Rank // and this is the best of those
	starved bool      // counted in look.starved: more, and nothing in memory
}

// Load asks for the rows of a leaf that rank after After, at most Limit. It is
// answered by exactly one call of [Table.Loaded].
type Load struct {
	Leaf  task.Leaf
	After task.Rank // the zero Rank: from the start
	Limit int
}

// Scan asks for the leaves of the store after After, at most Limit. It is answered by
// exactly one call of [Table.Scanned].
type Scan struct {
	After task.Leaf
	Limit int
}

// look is the table's view of the store.
type look struct {
	loads    []Load
	unseen   bool // the store has, or may have, leaves that the table does not know
	scanning bool
	dropped  bool // a leaf was dropped since the scanning began
	cursor   task.Leaf
	starved  int // leaves with rows in the store and none in memory
}

func (k *look) begin() { k.unseen = true }

// scanLimit is how many leaves one Scan asks for.
const scanLimit = 1000

// Complete reports whether the table knows the best trigger of every leaf.
func (t *Table) Complete() bool { return !t.look.unseen && t.look.starved == 0 }

// Surveyed reports whether the table has looked through the store for the first time:
// it is complete, or as full as it gets.
func (t *Table) Surveyed() bool {
	return t.Complete() || t.grouped > t.config.Capacity/2
}

// Add puts a trigger in its place. It returns false if the table is full there: the
// trigger is dropped, and will be loaded from the store when its turn comes. The row
// must be in the store before its trigger is added.
func (t *Table) Add(now int64, tr task.Trigger) bool {
	l, known := t.leaves[tr.Leaf]
	if !known {
		if t.grouped >= t.config.Capacity {
			t.look.unseen, t.look.dropped = true, true
			return false
		}
		l = t.leafOf(tr.Leaf)
		l.more = t.look.unseen // there may be older rows that no scan has come to
	}
	if l.more && tr.Rank.Compare(l.bound) > 0 {
		l.miss(tr.Rank)
		t.refill(l)
		return false
	}
	had, head := l.any, l.head.rank
	kept := t.insert(l, item{tr.Rank, tr.Ref, tr.Shard})
	if !had || l.head.rank != head {
		t.changed(now, l)
	}
	t.refill(l)
	return kept
}

// Knows reports whether a trigger is in the table, or will be loaded when its turn comes.
func (t *Table) Knows(tr task.Trigger) bool {
	l, ok := t.leaves[tr.Leaf]
	if !ok {
		return t.look.unseen
	}
	if l.more && tr.Rank.Compare(l.bound) > 0 {
		return true
	}
	if l.any && l.head.rank == tr.Rank {
		return l.head.ref.Version >= tr.Version
	}
	if l.rest == nil {
		return false
	}
	i, ok := l.rest.Get(item{rank: tr.Rank})
	return ok && i.ref.Version >= tr.Version
}

// insert puts i into l and keeps the table within its bounds.
func (t *Table) insert(l *leaf, i item) bool {
	if !l.put(t, i) {
		return true
	}
	t.size++
	if l.len() > t.config.LeafCapacity {
		last, _ := l.last()
		t.shrink(l)
		return last != i
	}
	for t.size > t.config.Capacity {
		victim := t.fattest()
		if victim == nil {
			return true // every leaf is down to its share: one more trigger each is the price
		}
		last, _ := victim.last()
		t.shrink(victim)
		if victim == l && last == i {
			return false
		}
	}
	return true
}

// shrink drops the last trigger of l, which has at least two: it stays in the store.
func (t *Table) shrink(l *leaf) {
	l.dropLast()
	t.size--
	last, _ := l.last()
	l.more, l.bound = true, last.rank
}

// miss notes that a trigger of that rank was left to the store.
func (w *window) miss(r task.Rank) {
	if !w.missed || r.Compare(w.gap) < 0 {
		w.missed, w.gap = true, r
	}
}

// fattest returns a leaf that has more than its fair share of the table, or nil. The
// hand rests on a leaf until that is no longer so, which makes a call cheap on average.
func (t *Table) fattest() *leaf {
	fair := max(1, t.config.Capacity/len(t.ring))
	for range t.ring {
		if t.hand >= len(t.ring) {
			t.hand = 0
		}
		if l := t.ring[t.hand]; l.len() > fair {
			return l
		}
		t.hand++
	}
	return nil
}

// refill asks for more of l once half of its window is used up.
func (t *Table) refill(l *leaf) {
	t.noteStarved(l)
	if !l.more || l.loading {
		return
	}
	n := l.len()
	full := max(1, min(t.config.LeafCapacity, t.config.Capacity/len(t.ring)))
	if n > full/2 || (n > 0 && t.size >= t.config.Capacity) {
		return
	}
	l.loading, l.missed, l.asked = true, false, l.bound
	t.look.loads = append(t.look.loads, Load{Leaf: l.name, After: l.bound, Limit: full - n})
}

func (t *Table) noteStarved(l *leaf) {
	if starved := l.more && !l.any; starved != l.starved {
		l.starved = starved
		if starved {
			t.look.starved++
		} else {
			t.look.starved--
		}
	}
}

// TakeLoads returns what is to be loaded, appended to buf.
func (t *Table) TakeLoads(buf []Load) []Load {
	buf = append(buf, t.look.loads...)
	t.look.loads = t.look.loads[:0]
	return buf
}

// TakeScan returns what is to be scanned, if anything is and the table has room.
func (t *Table) TakeScan() (Scan, bool) {
	k := &t.look
	if !k.unseen || k.scanning || t.grouped > t.config.Capacity/2 {
		return Scan{}, false
	}
	k.scanning = true
	return Scan{After: k.cursor, Limit: scanLimit}, true
}

// Loaded answers a Load: these are the rows, and end says that there were no others.
// A Load that failed is answered with nothing and end false; it is asked for again.
func (t *Table) Loaded(now int64, name task.Leaf, page []task.Trigger, end bool) {
	l, ok := t.leaves[name]
	if !ok || !l.loading {
		return
	}
	l.loading = false
	if l.asked != l.bound {
		page, end = nil, false // the window has shrunk meanwhile: this is not what comes next
	}
	if end && !l.missed {
		l.more = false
	}
	for _, tr := range page {
		if l.missed && tr.Rank.Compare(l.gap) >= 0 {
			break // the page was read before that row was as it is
		}
		if l.more && tr.Rank.Compare(l.bound) > 0 {
			l.bound = tr.Rank
		}
		if !t.insert(l, item{tr.Rank, tr.Ref, tr.Shard}) {
			break // the window is full: the others stay in the store
		}
	}
	t.changed(now, l)
	t.refill(l)
	t.release(now, l)
}

// Scanned answers a Scan: these are the leaves, and end says that there are none
// behind them. A Scan that failed is answered with nothing and end false.
func (t *Table) Scanned(leaves []task.Leaf, end bool) {
	k := &t.look
	k.scanning = false
	for _, name := range leaves {
		if _, known := t.leaves[name]; !known {
			if t.grouped >= t.config.Capacity {
				return
			}
			l := t.leafOf(name)
			l.more = true
			t.refill(l)
		}
		k.cursor = name
	}
	if end {
		k.cursor = task.Leaf{}
		k.unseen = k.dropped
		k.dropped = false
	}
}
