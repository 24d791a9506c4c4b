// Package table holds what is ready to run and finds the next of it in O(log N).
//
// The tree of limits is the index. A queue (a type, and within it a group) keeps its
// triggers ordered by rank. Every limit is a node above the queues it counts for, and
// keeps those of its children that could run now, ordered by the best rank below them;
// a child that is full, empty or paused is simply absent. So the next trigger is found
// by walking the minima from the root, whatever number of queues is full. A limit that
// cuts across the tree parks the queues it stops, and wakes the best of them when it
// has room again.
//
// The table is a bounded look-ahead into the store, not a copy of it: see look.go.
//
// A Table decides by what it is told and the time it is given. It does no I/O, takes no
// lock and belongs to one goroutine at a time.
package table

import (
	"maps"
	"slices"

	"github.com/google/btree"

	"github.com/taskengine/taskengine/engine/policy"
	"github.com/taskengine/taskengine/engine/task"
)

// Config says how large a table may grow and by which limits it books.
type Config struct {
	Capacity      int // triggers in all, at least 1
	QueueCapacity int // triggers of one queue, at least 2
	Policies      policy.Set

	// Layouts says, for each type, where the values of its groups come from (see
	// policy.Limit.Per), in their order. A group may have fewer. Without one there is a value for
	// each limit, in the order of policy.Set.Keyed.
	Layouts map[string][]string
	Pools   map[string]string // by type: the pool whose slots its tasks take; a type without one takes none
}

// Table is the trigger table. Its methods take the time as Unix nanoseconds, which
// must not decrease from call to call.
type Table struct {
	config Config
	root   *node
	kinds  map[string]*kind
	nodes  map[string]*node // every limit in use but the root, by its identity
	pools  map[string]*node // the slots of handlers that have a limited number, by pool; they stay
	order  []*kind          // all of kinds, by name
	hand   int              // position in order: where to look for a kind that has more than its share
	queues map[task.Queue]*queue

	size    int // triggers in all queues
	active  int // kinds that have triggers
	idle    int // queues of which nothing runs, but for those that stay
	crowded int // kinds that have such queues
	running int // slots booked
	serial  uint64
	now     int64 // the latest time that the table was told

	roomy  []*node                // limits that have parked queues and got room
	alarms *btree.BTreeG[alarm]   // limits that wait for their rate
	fading *btree.BTreeG[fading]  // rates of limits that are forgotten, until they are full again
	spent  map[string]int64       // when those are, by the identity of the limit
	lists  *btree.FreeListG[kid]  // shared by all nodes, so that moving a child allocates nothing
	items  *btree.FreeListG[item] // shared by all queues
	spare  []*queue               // retired queues, to be used again

	look look
}

// kind is one type: what its queues have in common.
type kind struct {
	name   string
	policy policy.Type
	tree   []policy.Limit   // its place in the tree of limits, nearest first
	across [][]policy.Limit // the chains of the limits that cut across
	pool   *node            // the slots of its handler; nil if the handler has no limited number
	keyed  int              // how many of them have values in the group
	places []int            // where those stand in the group
	width  int              // how many values a group has that is packed now
	strict bool             // a group may have fewer values: what it does not have is unknown
	shared []string         // of its limits without values: their keys in Table.nodes
	closed bool             // paused, or nobody handles it

	queues []*queue // those in memory, in no order
	hand   int      // position in queues
	size   int      // triggers in them
	idle   int      // those of which nothing runs, but for the one that stays

	listing
}

// item is a trigger as a queue keeps it.
type item struct {
	rank  task.Rank
	ref   task.Ref
	shard uint16
}

const degree = 16

// New returns an empty table that expects everything to be in the store still: it asks
// for a scan at once.
func New(c Config) *Table {
	t := &Table{
		config: c,
		kinds:  make(map[string]*kind),
		nodes:  make(map[string]*node),
		pools:  make(map[string]*node),
		queues: make(map[task.Queue]*queue),
		lists:  btree.NewFreeListG[kid](1024),
		items:  btree.NewFreeListG[item](1024),
	}
	t.alarms = btree.NewG(degree, alarm.before)
	t.fading, t.spent = btree.NewG(degree, fading.before), make(map[string]int64)
	t.root = t.newNode(nil, policy.Limit{Max: c.Policies.Slots}, "")
	for _, name := range slices.Sorted(maps.Keys(c.Policies.Types)) {
		k := t.newKind(name, c.Policies.Types[name])
		t.kinds[name] = k
		t.order = append(t.order, k)
		t.unlist(k)
	}
	return t
}

func (t *Table) newKind(name string, p policy.Type) *kind {
	k := &kind{name: name, policy: p}
	for i, l := range p.Limits {
		chain := t.config.Policies.Chain(l)
		if i == 0 {
			k.tree = chain
		} else {
			k.across = append(k.across, chain)
		}
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

// Len returns the number of triggers in the table.
func (t *Table) Len() int { return t.size }

// Running returns the number of slots booked and not freed, by task.
func (t *Table) Running() int { return t.running }

// Open lets the tasks of a type run, or stops them from being booked. What is booked
// stays booked. The table holds no triggers of a type that is stopped; it reads them from
// the store when the type is opened. A type that is not configured cannot be opened.
func (t *Table) Open(now int64, name string, open bool) {
	k, ok := t.kinds[name]
	if !ok || k.closed == !open {
		return
	}
	k.closed = !open
	if open {
		t.unlist(k)
		k.restart()
		for _, l := range k.queues {
			t.refill(l)
		}
		return
	}
	for i := len(k.queues) - 1; i >= 0; i-- { // forgetting one moves the last into its place
		t.abandon(now, k.queues[i])
	}
	k.wanting = fifo[*queue]{}
	t.note(k)
}

// IsOpen reports whether tasks of a type may be booked.
func (t *Table) IsOpen(name string) bool {
	k, ok := t.kinds[name]
	return ok && !k.closed
}

// Wake returns when a limit's rate lets something run again, or the listing of a type goes
// on, as Unix nanoseconds; false if nothing waits for that.
func (t *Table) Wake() (int64, bool) {
	a, ok := t.alarms.Min()
	if at := t.look.wake; at != 0 && (!ok || at < a.at) {
		a.at, ok = at, true
	}
	if f, some := t.fading.Min(); some && (!ok || f.due < a.at) {
		a.at, ok = f.due, true
	}
	return a.at, ok
}

// Advance tells the table the time. It must be called when [Table.Wake] has come.
func (t *Table) Advance(now int64) {
	t.now = now
	t.forgetFull(now)
	if wake := t.look.wake; wake != 0 && wake <= now {
		t.look.wake, t.look.roomy = 0, true
	}
	for {
		a, ok := t.alarms.Min()
		if !ok || a.at > now {
			return
		}
		t.alarms.DeleteMin()
		a.node.alarm = 0
		t.settle(now, a.node)
		t.offerRoom(now, a.node)
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

// ring the table when n's rate has a token again.
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
