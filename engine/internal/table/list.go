package table

import (
	"cmp"
	"slices"

	"github.com/taskengine/taskengine/task"
)

// A type may have more queues than memory can hold. Therefore the table lists the queues of each open
// type separately, and keeps as many of them as it has room for:
//
//   - A type is unlisted if not all of its queues are in the table. A pass over the queues in the
//     store, from a cursor, adds the rows that are not in the table. When a pass ends, and no queue was
//     left out since it began, the type is listed.
//   - The table has at most Capacity queues without running tasks. When it is full, a type that has
//     less than its share of them replaces a queue of a type that has more. Within a type, a queue
//     that could run replaces one that could not, and a queue with a better rank replaces one with a
//     worse rank.
//   - While there is no room, the pass continues slowly: it loads a few queues, and the worst are
//     evicted. So every queue with a good rank gets into the table, even a full one.
//   - A closed type has only queues with running tasks in the table. A type that is not configured has
//     none.

// listing says which queues of a type are in the table.
type listing struct {
	unlisted     bool       // the store may have queues of the type that are not in the table
	fresh        bool       // the pass has not begun
	cursor       task.Queue // the last queue that the pass has reached
	scanning     bool       // the Scan under way is for this type, too
	leftOut      bool       // a queue was left out since the pass began
	filling      bool       // the table has room, so the pass continues at once
	surveyed     bool       // a pass has ended, or has filled the table
	resumeAt     int64      // when the pass continues although there is no room
	removalsSeen uint64     // reads.removals when there was no room

	starved    int // number of queues with rows in the store and none in memory
	toLoad     fifo[*queue]
	inTurns    bool // it is in reads.turns
	incomplete int  // its position in reads.incomplete, from 1; 0 if it is not there
}

// reads has the state for the decisions about reads from the store.
type reads struct {
	scanning    bool
	incomplete  []*kind     // open types that are unlisted, or have starved queues
	lastScanned string      // the type of the last scan: types take turns, by name
	mayScan     bool        // something has changed since no type could be scanned
	removals    uint64      // how often triggers or queues were removed from the table
	scanAt      int64       // when a type can be scanned, even if nothing changes; 0 is unknown
	turns       fifo[*kind] // types that have queues to load, in their turn
	loading     int         // number of Loads under way
}

// Scan asks for the queues in the store after After, at most Limit. It is answered by exactly one call
// of [Table.Scanned].
type Scan struct {
	After task.Queue
	Limit int
}

const (
	// scanLimit is the Limit of a Scan.
	scanLimit = 1000
	// maxProbes is the maximum number of queues that a pass adds at a time although the table is full.
	maxProbes = 256
	// The pauses of a pass after that, in nanoseconds: the slow one if a queue of the type in the
	// table could run, see couldRun, and the quick one if not.
	slowPause, quickPause = int64(1e9), int64(1e8)
	// maxTried is the maximum number of queues among which the worst is chosen, and maxVisited
	// the maximum number that are examined to find them.
	maxTried, maxVisited = 16, 64
)

// unlist makes k unlisted: the store has queues of k that are not in the table.
func (t *Table) unlist(k *kind) {
	k.leftOut = true
	if !k.unlisted {
		k.unlisted = true
		k.restartPass()
	}
	t.trackIncomplete(k)
}

// restartPass has the pass over the queues of k begin again.
func (k *kind) restartPass() {
	k.fresh, k.scanning, k.filling = true, false, true
	k.cursor = task.Queue{Type: justBefore(k.name)}
}

// justBefore returns a string that sorts before name, and after all other UTF-8 text that does.
func justBefore(name string) string {
	if name == "" || name[len(name)-1] == 0 {
		return name[:max(0, len(name)-1)]
	}
	last := len(name) - 1
	return name[:last] + string([]byte{name[last] - 1, 0xff})
}

// trackIncomplete adds k to reads.incomplete, or removes it, after a change of k.
func (t *Table) trackIncomplete(k *kind) {
	is, was := !k.closed && (k.unlisted || k.starved > 0), k.incomplete > 0
	list := t.reads.incomplete
	switch {
	case is && !was:
		t.reads.incomplete = append(list, k)
		k.incomplete = len(list) + 1
	case was && !is:
		last := list[len(list)-1]
		list[k.incomplete-1], last.incomplete = last, k.incomplete
		t.reads.incomplete = list[:len(list)-1]
		k.incomplete = 0
	}
	t.reads.mayScan = t.reads.mayScan || is
}

// Surveyed reports whether the table has read the store for the first time: it has the best trigger of
// each queue of each open type, or is as full as it gets.
func (t *Table) Surveyed() bool {
	return t.idle > t.config.Capacity/2 || !slices.ContainsFunc(t.reads.incomplete, func(k *kind) bool {
		return !k.surveyed || !k.unlisted // a type that is listed is waiting for its first rows
	})
}

// isKnown reports whether the best trigger of each queue that could run is in the table: no type that
// is incomplete has a queue that could.
func (t *Table) isKnown(now int64) bool {
	const few = 8
	return len(t.reads.incomplete) <= few && !slices.ContainsFunc(t.reads.incomplete, func(k *kind) bool {
		return !t.isBlocked(now, k)
	})
}

// isBlocked reports whether a limit that counts for all tasks of k is full.
func (t *Table) isBlocked(now int64, k *kind) bool {
	if k.pool != nil && !t.room(now, k.pool, k.policy.Weight) {
		return true
	}
	return slices.ContainsFunc(k.shared, func(key string) bool {
		n, ok := t.nodes[key]
		return ok && !t.room(now, n, k.policy.Weight)
	})
}

// TakeScan returns the next Scan. It returns false if none is to be made now.
func (t *Table) TakeScan() (Scan, bool) {
	r := &t.reads
	if r.scanning || len(r.incomplete) == 0 || !r.mayScan {
		return Scan{}, false
	}
	r.scanAt = 0
	var first, next *kind // by name: of all types that may be scanned, and of the types after lastScanned
	for _, one := range r.incomplete {
		if !one.unlisted || !t.mayList(one) {
			continue
		}
		if first == nil || one.name < first.name {
			first = one
		}
		if one.name > r.lastScanned && (next == nil || one.name < next.name) {
			next = one
		}
	}
	if next == nil {
		next = first
	}
	if next == nil {
		r.mayScan = false
		return Scan{}, false
	}
	r.scanning, r.lastScanned = true, next.name
	after := next.cursor
	t.startScan(after)
	return Scan{After: after, Limit: scanLimit}, true
}

// startScan marks all types that a Scan after the given queue serves.
func (t *Table) startScan(after task.Queue) {
	for _, k := range t.reads.incomplete {
		if !k.unlisted || compareQueue(k.cursor, after) < 0 || !t.mayList(k) {
			continue
		}
		k.scanning = true
		if k.fresh {
			k.fresh, k.leftOut = false, false
		}
	}
}

// mayList reports whether the pass over the queues of k may continue now. If not, it sets the time for
// that, if it depends on the time.
func (t *Table) mayList(k *kind) bool {
	switch {
	case k.filling && t.hasRoom(k, 0):
		return true
	case !k.filling && k.removalsSeen != t.reads.removals && t.hasRoom(k, max(1, t.config.Capacity/8)):
		k.filling = true
		return true
	}
	if k.filling {
		t.pausePass(k)
	}
	if k.starved >= t.probes() {
		return false // the queues that were found are not loaded yet
	}
	if t.now >= k.resumeAt {
		return true
	}
	if w := &t.reads.scanAt; *w == 0 || k.resumeAt < *w {
		*w = k.resumeAt
	}
	return false
}

// pausePass pauses the pass over the queues of k, because there is no room.
func (t *Table) pausePass(k *kind) {
	k.filling, k.surveyed, k.removalsSeen = false, true, t.reads.removals
	k.resumeAt = t.now + quickPause
	if t.couldRun(k) {
		k.resumeAt = t.now + slowPause
	}
}

// hasRoom reports whether the table has room for another queue of k and for some more.
func (t *Table) hasRoom(k *kind, some int) bool {
	full := t.config.Capacity - some
	return (t.idle < full || k.idle < full/t.idleKindsWith(k)) && (t.size < full || k.size < full/max(1, t.active))
}

// idleKindsWith returns the number of types that have queues without running tasks, including k.
func (t *Table) idleKindsWith(k *kind) int {
	if k.idle == 0 {
		return t.idleKinds + 1
	}
	return t.idleKinds
}

// roomFreed records that a trigger or a queue was removed from the table.
func (r *reads) roomFreed() {
	r.removals++
	r.mayScan = true
}

// probes returns how many queues of a type are loaded at a time although there is no room.
func (t *Table) probes() int { return max(1, min(maxProbes, t.config.Capacity/8)) }

// Scanned answers a Scan with the queues. end says that the store has no queues behind them. A Scan
// that failed is answered with no queues and end false.
func (t *Table) Scanned(queues []task.Queue, end bool) {
	t.reads.scanning, t.reads.mayScan = false, true
	if len(queues) == 0 && !end {
		for _, k := range t.reads.incomplete {
			k.scanning = false
		}
		return
	}
	for _, k := range slices.Clone(t.reads.incomplete) { // a type that is listed now leaves the slice
		if k.scanning {
			k.scanning = false
			t.listPage(k, queues, end)
		}
	}
}

// listPage continues the pass over the queues of k with a page of queues.
func (t *Table) listPage(k *kind, page []task.Queue, end bool) {
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
					t.pausePass(k)
					return
				}
				probes++
			}
			q := t.newQueue(name)
			q.window.Reset()
			t.refill(q)
		}
		k.cursor = name
	}
	if !end {
		return
	}
	k.surveyed = true
	if k.leftOut {
		k.restartPass()
		t.pausePass(k)
		return
	}
	k.unlisted = false
	t.trackIncomplete(k)
}

func compareQueue(a, b task.Queue) int {
	return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Group, b.Group))
}
