// Package table holds the triggers of tasks that are ready to run, and finds the next one in O(log N).
//
// The tree of limits is the index. A queue (a type, and within it a group) keeps its triggers ordered
// by rank. Every limit is a node above the queues that it counts for. A node keeps its children that
// could run now, ordered by the best rank below them. A child that is full, empty or paused is absent.
// The next trigger is found by following the first child from the root, for any number of full queues.
// A limit that cuts across the tree parks the queues that it stops, and brings the best of them back
// when it has room again.
//
// The table is a bounded look-ahead into the store, not a copy of it, see window.go.
//
// A Table decides by the calls of its methods and the times that they give it. It does no I/O and
// takes no lock. Only one goroutine may use it at a time.
package table

import (
	"maps"
	"slices"

	"github.com/google/btree"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

// Config is the configuration of a table.
type Config struct {
	Capacity      int // maximum number of triggers, at least 1
	QueueCapacity int // maximum number of triggers of one queue, at least 2
	Policies      policy.Set

	// Layouts has, for each type, the sources of the values of its groups, in their order, see
	// policy.Limit.Per. A group may have fewer values. A type without a layout has a value for
	// each limit, in the order of policy.Set.Keyed.
	Layouts map[string][]string
	Pools   map[string]string // by type: the pool that its tasks take slots of; a type without a pool takes none

	// Permits says that a coordinator grants the permits of limits of the cluster, see permits.go.
	// Otherwise they are limits like others.
	Permits bool
}

// Table is the trigger table. Its methods take the time as Unix nanoseconds. The time must not
// decrease from call to call.
type Table struct {
	config   Config
	root     *node // the slots of the node
	slotless *node // the root of the types that take none of them
	kinds    map[string]*kind
	nodes    map[string]*node   // every limit in use except the roots, by node.key
	groups   map[groupKey]*node // of the fair limits in use
	pools    map[string]*node   // the limits for the slots of pools, by pool; they are never retired

	permits  map[string]*node     // the limits of the cluster, by permits.name
	changed  []*node              // limits that may need another Order
	ordered  uint64               // the number of the last Order
	draws    []coord.Draw         // for TakeOrders
	reviews  *btree.BTreeG[alarm] // limits of the cluster with permits or tokens to look at later
	live     policy.Live
	version  uint64 // of live
	draining bool

	behind    []*kind // kinds with limits that may order more, see line.go
	ahead     int     // replaces minAhead, if it is not 0: for tests
	overrides uint64  // how often Override was called

	order  []*kind // all kinds, sorted by name
	hand   int     // position in order of the search for a kind that has more than its share
	queues map[task.Queue]*queue

	size      int // number of triggers in all queues
	active    int // number of kinds that have triggers
	idle      int // number of queues without running tasks, except permanent ones
	idleKinds int // number of kinds that have such queues
	serial    uint64
	now       int64 // the latest time that a method was given

	turns       uint64         // the last place in an order of turns that was given
	largest     map[string]int // by fair limit, the largest weight of its tasks
	spareStands []*node        // stands that were removed, for reuse

	totals map[string]*Total // by limit that has been in use

	roomy        []*node                  // nodes that have parked queues and got room
	alarms       *btree.BTreeG[alarm]     // nodes that wait for their rate
	spentByTime  *btree.BTreeG[spentRate] // rates of retired nodes, until their buckets are full again
	spentByKey   map[string]int64         // the times when these are full, by node.key
	freeChildren *btree.FreeListG[child]  // B-tree nodes, shared by all nodes, so that moving a child does not allocate
	freeItems    *btree.FreeListG[item]   // B-tree nodes, shared by all queues
	spareQueues  []*queue                 // queues that were removed, for reuse

	reads reads
}

// kind has the shared state of the queues of one type.
type kind struct {
	name   string
	policy policy.Type
	tree   []policy.Limit   // the limits above its queues in the tree, nearest first
	across [][]policy.Limit // the chains of the limits that cut across the tree
	pool   *node            // the limit for the slots of its handler; nil if they are not limited
	keyed  int              // number of its limits that have a value in the group
	places []int            // the positions of these values in the group
	width  int              // number of values in a group that is packed now
	strict bool             // a group may have fewer values; the values that it lacks are unknown
	shared []string         // the keys of its limits without values
	closed bool             // it is paused or has no handler
	fair   bool             // a limit above its queues in the tree is fair
	ageing int64            // the worth of a level of priority, in microseconds; 0 is strict

	lines

	queues []*queue // its queues in the table, in no particular order
	hand   int      // position in queues of the searches among them
	size   int      // number of triggers in its queues
	idle   int      // number of its queues without running tasks, except the permanent one

	listing
}

// item is a trigger in a queue.
type item struct {
	rank     task.Rank // its place, see kind.place
	ref      task.Ref
	shard    uint16
	priority uint8 // of the task
}

const degree = 16

// New returns an empty table. All types are unlisted, so the table asks for a scan at once.
func New(c Config) *Table {
	t := &Table{
		config:       c,
		kinds:        make(map[string]*kind),
		nodes:        make(map[string]*node),
		groups:       make(map[groupKey]*node),
		totals:       make(map[string]*Total),
		largest:      make(map[string]int),
		pools:        make(map[string]*node),
		permits:      make(map[string]*node),
		queues:       make(map[task.Queue]*queue),
		freeChildren: btree.NewFreeListG[child](1024),
		freeItems:    btree.NewFreeListG[item](1024),
	}
	t.alarms, t.reviews = btree.NewG(degree, alarm.before), btree.NewG(degree, alarm.before)
	t.spentByTime, t.spentByKey = btree.NewG(degree, spentRate.before), make(map[string]int64)
	t.root, t.slotless = t.newNode(nil, policy.Limit{Max: c.Policies.Slots}, ""), t.newNode(nil, policy.Limit{}, "")
	for name, l := range c.Policies.Limits {
		if l.Fair {
			t.largest[name] = c.Policies.LargestWeight(name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Policies.Types)) {
		k := t.newKind(name, c.Policies.Types[name])
		t.kinds[name] = k
		t.order = append(t.order, k)
		t.unlist(k)
	}
	return t
}

func (t *Table) newKind(name string, p policy.Type) *kind {
	k := &kind{name: name, policy: p, ageing: p.Ageing.Microseconds()}
	k.setLimits(t.config.Policies)
	k.fair = slices.ContainsFunc(k.tree, func(l policy.Limit) bool { return l.Fair })
	for _, l := range p.Limits {
		chain := t.config.Policies.Chain(l)
		for i := len(chain) - 1; i >= 0 && chain[i].Per == ""; i-- {
			k.shared = append(k.shared, nodeKey(chain[i:], nil))
		}
	}
	if p.Concurrency > 0 {
		k.shared = append(k.shared, nodeKey([]policy.Limit{k.concurrency()}, nil))
	}
	limits := t.config.Policies.Keyed(p)
	layout, strict := t.config.Layouts[name]
	k.keyed, k.width, k.strict = len(limits), len(layout), strict
	for i, l := range limits {
		if strict {
			i = slices.Index(layout, l.Per)
		}
		k.places = append(k.places, i)
		k.width = max(k.width, i+1)
	}
	if pool, ok := t.config.Pools[name]; ok {
		k.pool = t.poolNode(pool)
	}
	return k
}

// setLimits sets the limits of the type of k.
func (k *kind) setLimits(set policy.Set) {
	k.tree, k.across = nil, nil
	for i, l := range k.policy.Limits {
		if i == 0 {
			k.tree = set.Chain(l)
		} else {
			k.across = append(k.across, set.Chain(l))
		}
	}
}

// Len returns the number of triggers in the table.
func (t *Table) Len() int { return t.size }

// Open opens or closes a type. Tasks of a closed type are not booked; booked ones stay booked. The
// table has no triggers of a closed type, and reads them from the store when the type is opened. Open
// does nothing for a type that is not configured.
func (t *Table) Open(now int64, name string, open bool) {
	k, ok := t.kinds[name]
	if !ok || k.closed == !open {
		return
	}
	k.closed = !open
	if open {
		t.unlist(k)
		k.restartPass()
		for _, q := range k.queues {
			t.refill(q)
		}
		return
	}
	for i := len(k.queues) - 1; i >= 0; i-- { // removing a queue moves the last one to its position
		t.unload(now, k.queues[i])
	}
	k.toLoad = fifo[*queue]{}
	t.trackIncomplete(k)
}

// IsOpen reports whether tasks of a type may be booked.
func (t *Table) IsOpen(name string) bool {
	k, ok := t.kinds[name]
	return ok && !k.closed
}

// Wake returns when [Table.Advance] has work next: the rate of a limit allows a start again, permits
// are due to be given back, or the pass over the queues of a type continues. It returns false if there
// is no such time.
func (t *Table) Wake() (int64, bool) {
	a, ok := t.alarms.Min()
	if r, some := t.reviews.Min(); some && (!ok || r.at < a.at) {
		a.at, ok = r.at, true
	}
	if at := t.reads.scanAt; at != 0 && (!ok || at < a.at) {
		a.at, ok = at, true
	}
	if f, some := t.spentByTime.Min(); some && (!ok || f.due < a.at) {
		a.at, ok = f.due, true
	}
	return a.at, ok
}

// Advance gives the table the time. It must be called when the time of [Table.Wake] has come.
func (t *Table) Advance(now int64) {
	t.now = now
	t.dropFull(now)
	t.review(now)
	if wake := t.reads.scanAt; wake != 0 && wake <= now {
		t.reads.scanAt, t.reads.mayScan = 0, true
	}
	for {
		a, ok := t.alarms.Min()
		if !ok || a.at > now {
			return
		}
		t.alarms.DeleteMin()
		a.node.alarm = 0
		t.reposition(now, a.node)
		t.markRoomy(now, a.node)
		t.retire(now, a.node)
	}
}

// alarm is a node that waits for its rate.
type alarm struct {
	at   int64
	node *node
}

func (a alarm) before(b alarm) bool {
	if a.at != b.at {
		return a.at < b.at
	}
	return a.node.serial < b.node.serial
}

// setAlarm sets the time when the rate of n allows a start again.
func (t *Table) setAlarm(n *node, at int64) {
	if n.alarm == at {
		return
	}
	if n.alarm != 0 {
		t.alarms.Delete(alarm{n.alarm, n})
	}
	n.alarm = at
	t.alarms.ReplaceOrInsert(alarm{at, n})
}
