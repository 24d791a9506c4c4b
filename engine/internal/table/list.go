package table

import (
	"cmp"
	"slices"

	"github.com/taskengine/taskengine/engine/task"
)

// A type may have more queues than memory can hold. So the table lists the queues of each
// type that is open by itself, and keeps as many as it has room for:
//
//   - A type whose queues are not all in the table is unlisted. A pass over the store's
//     queues, from a cursor, adds those that the table does not have. When a pass has ended
//     and no queue was left out since it began, the type is listed.
//   - The table holds at most Capacity queues of which nothing runs. When it is full, a
//     type that has less than its share takes the place of one that has more. Within a
//     type, a queue that could run takes the place of one that could not, and a better rank
//     that of a worse one.
//   - While there is no room, the pass goes on slowly: it loads a few queues, and the worst
//     go. So every queue gets into the table that ranks well, whatever stays there.
//   - A type that is closed has no queues in the table but those of which something runs,
//     and a type that is not configured has none.

// listing is how far the queues of a type are known.
type listing struct {
	unlisted bool       // the store has, or may have, queues of the type that the table does not know
	fresh    bool       // the pass has not begun
	cursor   task.Queue // up to where the pass has come
	asked    bool       // the Scan that is under way is for this type, too
	dropped  bool       // a queue was left out since the pass began
	filling  bool       // the table has room: the pass goes on at once
	tried    bool       // a pass has ended, or filled the table
	rest     int64      // when the pass goes on though there is no room
	left     uint64     // look.left when there was none

	starved    int // queues with rows in the store and none in memory
	wanting    fifo[*queue]
	hungry     bool // stands in look.hungry
	incomplete int  // its position in look.incomplete, from 1; 0 if it is not there
}

// look is the table's view of the store.
type look struct {
	scanning   bool
	incomplete []*kind     // open types that are unlisted, or have queues that starve
	last       string      // the type that was listed last: they take turns by name
	roomy      bool        // something has changed since no type could be listed
	left       uint64      // how often triggers or queues have left the table
	wake       int64       // when one can be, though nothing changes; 0 is not known
	hungry     fifo[*kind] // types that have queues to be loaded, in turn
	loading    int         // Loads under way
}

// Scan asks for the queues of the store after After, at most Limit. It is answered by
// exactly one call of [Table.Scanned].
type Scan struct {
	After task.Queue
	Limit int
}

const (
	// scanLimit is how many queues one Scan asks for.
	scanLimit = 1000
	// maxProbes is how many queues are loaded at a time though the table is full.
	maxProbes = 256
	// How long a pass rests after that, in nanoseconds: if the type has something in
	// memory that its values let run, and if not.
	slowRest, quickRest = int64(1e9), int64(1e8)
	// maxTried is how many queues are looked at to find a bad one, and maxVisited how many
	// for those.
	maxTried, maxVisited = 16, 64
)

// unlist notes that the store has queues of k that the table does not know.
func (t *Table) unlist(k *kind) {
	k.dropped = true
	if !k.unlisted {
		k.unlisted = true
		k.restart()
	}
	t.note(k)
}

// restart has the pass begin anew.
func (k *kind) restart() {
	k.fresh, k.asked, k.filling = true, false, true
	k.cursor = task.Queue{Type: justBefore(k.name)}
}

// justBefore returns a string that sorts before name, and behind all UTF-8 text that does.
func justBefore(name string) string {
	if name == "" || name[len(name)-1] == 0 {
		return name[:max(0, len(name)-1)]
	}
	last := len(name) - 1
	return name[:last] + string([]byte{name[last] - 1, 0xff})
}

// note counts k among the types that are incomplete, or no longer.
func (t *Table) note(k *kind) {
	is, was := !k.closed && (k.unlisted || k.starved > 0), k.incomplete > 0
	list := t.look.incomplete
	switch {
	case is && !was:
		t.look.incomplete = append(list, k)
		k.incomplete = len(list) + 1
	case was && !is:
		last := list[len(list)-1]
		list[k.incomplete-1], last.incomplete = last, k.incomplete
		t.look.incomplete = list[:len(list)-1]
		k.incomplete = 0
	}
	t.look.roomy = t.look.roomy || is
}

// Complete reports whether the table knows the best trigger of every queue of every type
// that is open.
func (t *Table) Complete() bool { return len(t.look.incomplete) == 0 }

// Surveyed reports whether the table has looked through the store for the first time:
// it is complete, or as full as it gets.
func (t *Table) Surveyed() bool {
	return t.idle > t.config.Capacity/2 || !slices.ContainsFunc(t.look.incomplete, func(k *kind) bool {
		return !k.tried || !k.unlisted // a type that is listed waits for its first rows
	})
}

// isKnown reports whether the table knows the best trigger of every queue that could run:
// the types that are incomplete have none that could.
func (t *Table) isKnown(now int64) bool {
	const few = 8
	return len(t.look.incomplete) <= few && !slices.ContainsFunc(t.look.incomplete, func(k *kind) bool {
		return !t.isShut(now, k)
	})
}

// isShut reports whether a limit that counts for all tasks of k is full.
func (t *Table) isShut(now int64, k *kind) bool {
	if k.pool != nil && !t.room(now, k.pool, k.policy.Weight) {
		return true
	}
	return slices.ContainsFunc(k.shared, func(key string) bool {
		n, ok := t.nodes[key]
		return ok && !t.room(now, n, k.policy.Weight)
	})
}

// TakeScan returns what is to be scanned, if anything is and the table has room.
func (t *Table) TakeScan() (Scan, bool) {
	k := &t.look
	if k.scanning || len(k.incomplete) == 0 || !k.roomy {
		return Scan{}, false
	}
	k.wake = 0
	var first, next *kind // of all that may be listed, and of those behind the last
	for _, one := range k.incomplete {
		if !one.unlisted || !t.mayList(one) {
			continue
		}
		if first == nil || one.name < first.name {
			first = one
		}
		if one.name > k.last && (next == nil || one.name < next.name) {
			next = one
		}
	}
	if next == nil {
		next = first
	}
	if next == nil {
		k.roomy = false
		return Scan{}, false
	}
	k.scanning, k.last = true, next.name
	after := next.cursor
	t.ask(after)
	return Scan{After: after, Limit: scanLimit}, true
}

// ask has the queues after a position listed for every type that they can be for.
func (t *Table) ask(after task.Queue) {
	for _, k := range t.look.incomplete {
		if !k.unlisted || compareQueue(k.cursor, after) < 0 || !t.mayList(k) {
			continue
		}
		k.asked = true
		if k.fresh {
			k.fresh, k.dropped = false, false
		}
	}
}

// mayList reports whether the pass over the queues of k may go on. If not, the table wakes
// when it may.
func (t *Table) mayList(k *kind) bool {
	switch {
	case k.filling && t.hasRoom(k, 0):
		return true
	case !k.filling && k.left != t.look.left && t.hasRoom(k, max(1, t.config.Capacity/8)):
		k.filling = true
		return true
	}
	if k.filling {
		t.pause(k)
	}
	if k.starved >= t.probes() {
		return false // what was found is not loaded yet
	}
	if t.now >= k.rest {
		return true
	}
	if w := &t.look.wake; *w == 0 || k.rest < *w {
		*w = k.rest
	}
	return false
}

// pause has the pass over the queues of k rest: there is no room.
func (t *Table) pause(k *kind) {
	k.filling, k.tried, k.left = false, true, t.look.left
	k.rest = t.now + quickRest
	if t.couldRun(k) {
		k.rest = t.now + slowRest
	}
}

// hasRoom reports whether the table has room for another queue of k, and some more.
func (t *Table) hasRoom(k *kind, some int) bool {
	full := t.config.Capacity - some
	return (t.idle < full || k.idle < full/t.crowdedWith(k)) && (t.size < full || k.size < full/max(1, t.active))
}

// crowdedWith is how many types have queues of which nothing runs, k counted as one.
func (t *Table) crowdedWith(k *kind) int {
	if k.idle == 0 {
		return t.crowded + 1
	}
	return t.crowded
}

// gone notes that something has left the table.
func (k *look) gone() {
	k.left++
	k.roomy = true
}

// admitsQueue makes room for the queue of tr, which is of k, if the queue has a claim to it.
func (t *Table) admitsQueue(now int64, k *kind, tr task.Trigger) bool {
	if tr.Group == "" || t.makeRoom(now, k) {
		return true
	}
	worst := t.worst(k, nil)
	if worst == nil || worst.any && !worst.isStopped() && worst.head.rank.Compare(tr.Rank) < 0 || !worst.any {
		return false
	}
	t.evict(now, worst)
	return true
}

// makeRoom reports whether there is room for another queue of k, made if need be at the cost
// of another type.
func (t *Table) makeRoom(now int64, k *kind) bool {
	if t.size >= t.config.Capacity && k.size >= t.share() {
		return false
	}
	return t.idle < t.config.Capacity || t.takePlace(now, k)
}

// probes is how many queues of a type are loaded at a time though there is no room.
func (t *Table) probes() int { return max(1, min(maxProbes, t.config.Capacity/8)) }

// takePlace makes room for a queue of k, if k has less than its share, where another type
// has more.
func (t *Table) takePlace(now int64, k *kind) bool {
	fair := t.config.Capacity / t.crowdedWith(k)
	if k.idle >= fair {
		return false
	}
	for range t.order {
		if t.hand >= len(t.order) {
			t.hand = 0
		}
		if other := t.order[t.hand]; other != k && other.idle > fair {
			worst := t.worst(other, nil)
			if worst == nil {
				return false
			}
			t.evict(now, worst)
			return true
		}
		t.hand++
	}
	return false
}

// trim evicts a queue if there are too many.
func (t *Table) trim(now int64) {
	if t.idle <= t.config.Capacity {
		return
	}
	for fair := t.config.Capacity / t.crowded; ; t.hand++ {
		if t.hand >= len(t.order) {
			t.hand = 0
		}
		if k := t.order[t.hand]; k.idle > fair {
			if worst := t.worst(k, nil); worst != nil {
				t.evict(now, worst)
			}
			return
		}
	}
}

// worst returns a queue of k that may be evicted, other than one, or nil: of some, one that
// its values do not let run, or that ranks last. One that waits to be loaded is taken if
// there is no other.
func (t *Table) worst(k *kind, other *queue) *queue {
	var worst *queue
	stopped, tried := false, 0
	for i := 0; i < min(maxVisited, len(k.queues)) && tried < maxTried; i++ {
		if k.hand++; k.hand >= len(k.queues) {
			k.hand = 0
		}
		l := k.queues[k.hand]
		if l == other || l.running > 0 || l.window.Asked() || l.stays() {
			continue
		}
		tried++
		s := l.isStopped()
		switch {
		case worst == nil, !worst.any:
		case !l.any, stopped && !s, stopped == s && l.head.rank.Compare(worst.head.rank) < 0:
			continue
		}
		worst, stopped = l, s
	}
	return worst
}

// isStopped reports whether a limit for one of its values keeps l from running.
func (l *queue) isStopped() bool {
	if l.parkedOn != nil {
		return l.parkedOn.keyed
	}
	for n := &l.node; n.queue != nil || n.keyed; n = n.parent {
		if !n.listed {
			return l.any
		}
	}
	return false
}

// couldRun reports whether some queue of k could run if the limits that count for all of k
// had room.
func (t *Table) couldRun(k *kind) bool {
	for i := range min(maxVisited, len(k.queues)) {
		if l := k.queues[(k.hand+i)%len(k.queues)]; l.any && !l.isStopped() {
			return true
		}
	}
	return false
}

// Scanned answers a Scan: these are the queues, and end says that there are none
// behind them. A Scan that failed is answered with nothing and end false.
func (t *Table) Scanned(queues []task.Queue, end bool) {
	t.look.scanning, t.look.roomy = false, true
	if len(queues) == 0 && !end {
		for _, k := range t.look.incomplete {
			k.asked = false
		}
		return
	}
	for _, k := range slices.Clone(t.look.incomplete) { // one that is listed queues it
		if k.asked {
			k.asked = false
			t.list(k, queues, end)
		}
	}
}

// list goes on with the pass over the queues of k.
func (t *Table) list(k *kind, page []task.Queue, end bool) {
	probes, most := 0, t.probes()
	from, _ := slices.BinarySearchFunc(page, k.cursor, compareQueue)
	for _, name := range page[from:] {
		if name.Type != k.name {
			if name.Type < k.name || compareQueue(name, k.cursor) <= 0 {
				continue
			}
			end = true
			break
		}
		if _, known := t.queues[name]; !known {
			if name.Group != "" && !t.makeRoom(t.now, k) {
				if k.filling || probes == most {
					t.pause(k)
					return
				}
				probes++
			}
			l := t.newQueue(name)
			l.window.Reset()
			t.refill(l)
		}
		k.cursor = name
	}
	if !end {
		return
	}
	k.tried = true
	if k.dropped {
		k.restart()
		t.pause(k)
		return
	}
	k.unlisted = false
	t.note(k)
}

func compareQueue(a, b task.Queue) int {
	return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Group, b.Group))
}
