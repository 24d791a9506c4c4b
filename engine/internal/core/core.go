// Package core makes the decisions of the engine. It is a deterministic state machine. Facts go in as
// method calls, with the time at which they became known. Effects come out as data, in [Ready]. The
// core has no clock, lock or goroutine, and does no I/O. From the same facts it makes the same
// decisions.
//
// Invariants:
//
//  1. A slot is booked before anything is done for a task and freed exactly once, in
//     Core.end or, while a grab takes long, in Core.Yield. A handler runs only with a slot.
//  2. Every effect gets exactly one reply: an insert by Inserted, a grab by Grabbed, a run by
//     Handled, a save by Saved, a load by Loaded, a scan by Scanned, a load of due rows by
//     DueLoaded. A reply without an effect is a bug of the shell and panics.
//  3. A task has at most one run, and a run has at most one effect under way.
package core

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/taskengine/taskengine/engine/internal/table"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

// Config is the configuration of a core.
type Config struct {
	Owner         task.ID             // incarnation of this node: the owner of the tasks that it grabs
	Node          string              // the name of this node, see task.NodeName
	Policies      policy.Set          // valid by policy.Set.Check
	Handled       map[string]bool     // types that this node has a handler for
	Pools         map[string]string   // by type: the pool with the slots of its handler, see Core.Resize
	Capacity      int                 // triggers in the table, see table.Config
	QueueCapacity int                 // triggers of one queue
	Layouts       map[string][]string // see table.Config
	Permits       bool                // see table.Config
	Shared        bool                // other nodes use the store, and this one polls it: changes of rows that do not run are Due, see task.Change
	GrabsHeads    bool                // saves ask for the grab of the next head, see Save.Head: the store makes it with the save

	// Regroup reports whether the group of a row was packed when its type had fewer values, and
	// returns the group with all of them. missing says which value the row lacks, if it lacks one:
	// it counts as empty. A nil Regroup means that there is no such row.
	Regroup func(t *task.Task) (group string, missing error, is bool)

	// Placement returns the placement of a queue. Its answers do not change. A nil Placement leaves all to the types.
	Placement func(q task.Queue) Placement

	Chance func() float64 // returns a random number in [0,1), for jitter

	// Report returns the row of a task that reports to its parent how a task has ended. It is inserted with the change that
	// ends the task. Nil if no task has a parent.
	Report func(now time.Time, p *task.Parent, id task.ID, to task.State) *task.Task
}

// Core is the state machine. Only one goroutine may use it at a time.
type Core struct {
	config    Config
	table     *table.Table
	kinds     map[string]*kind
	others    *task.Rules // of the types that are not configured
	runs      map[task.ID]*run
	handling  map[string][]*run // by ordering key: the runs with handlers that were called and have not returned
	pools     map[string]*pool
	poolNames []string // of pools, sorted
	spare     []*run   // ended runs, for reuse

	timers       timers
	owned        Ownership
	held         holding
	spareDelayed []*run    // buffer of beginDelayed
	nextTimeUp   time.Time // not after the first time to stop or give up a run; zero is never
	delayed      []*run    // the delayed runs, in the order of their grabs
	delayedAt    int64     // the time of the table of the next look at them
	saving       int       // number of saves under way
	draining     bool
	unnoted      bool // types were paused, resumed, stopped or allowed to start again since the last EachBlock
	suspended    bool
	losses       uint64        // how often the node has lost its permits
	stepped      time.Duration // the sum of the steps of the clock, see Step
	grabs        int           // how many more grabs are allowed, see LimitGrabs
	moves        int           // replaces the result of mostMoving, if it is not 0: for tests
	ready        Ready
	stats        Stats
}

// kind is the state of the core for one type.
type kind struct {
	name    string
	policy  *policy.Type // Adopt replaces it
	rules   *task.Rules  // of policy
	handled bool
	paused  bool
	stopped bool // see Core.StopType
	sharded bool // its tasks are in the shard of a value, see policy.Set.ShardedBy
	running int
}

// phase says which reply a run waits for.
type phase uint8

const (
	inserting   phase = iota // Inserted; it was grabbed with its submit (fused)
	grabbing                 // Grabbed
	handingOver              // GrabbedHead; the task has ended, and its slot is for the next one of its ordering key
	delayed                  // nothing; it is grabbed, and the rates of its limits allow it to begin later, see Core.delay
	running                  // Handled
	disowned                 // Handled; the verdict does not count any more
	finished                 // Handled; the task is done already
)

// run is a task that has a slot.
type run struct {
	ref         task.Ref     // the version that the next change is made of
	is          task.Running // from when its handler is called
	kind        *kind
	policy      *policy.Type // of kind, when it was booked
	rules       *task.Rules  // of policy
	slot        table.Slot
	phase       phase
	losses      uint64       // Core.losses when it was booked
	trigger     task.Trigger // how it was booked
	fromWaiting bool         // booked by a timer: its row was waiting, not submitted
	yielded     bool         // its slot was freed, see Core.Yield
	next        task.Trigger // a newer version of the task that has become ready; zero if none
	changed     uint64       // a version made by a user before the reply to the grab; 0 if none
	row         *task.Task   // while it is delayed
	delayedTo   int64        // the time of the table until which it may be delayed
	lingersTo   time.Time    // until when its handler holds back the next task of its key, see linger.go; zero: not known yet
	runsUntil   time.Time    // the end of its run timeout; zero is never
	deadline    time.Time    // when it is stopped, or when it was stopped; zero is never
	stopped     bool         // its context was cancelled because its time is up
}

// Stats has counts since the start of a core.
type Stats struct {
	Fused      uint64 // tasks that were grabbed with their submit
	Grabbed    uint64 // tasks that were grabbed, in all
	Wasted     uint64 // grabs that came too late
	Stale      uint64 // verdicts that did not count any more
	Dropped    uint64 // triggers that were left to the store
	Abandoned  uint64 // attempts that were given up while their handler went on
	Slowed     uint64 // attempts with a longer delay of their task than the handler asked for, see task.Conclusion
	Reclaimed  uint64 // see Core.Reclaim
	HandedOver uint64 // heads that were grabbed with the end of the task before
}

// New returns a core without any tasks. Its first Ready asks for reads from the store.
func New(c Config) *Core {
	core := &Core{
		config: c,
		table:  table.New(table.Config{Capacity: c.Capacity, QueueCapacity: c.QueueCapacity, Policies: c.Policies, Pools: c.Pools, Layouts: c.Layouts, Permits: c.Permits}),
		kinds:  make(map[string]*kind),
		others: policy.DefaultType().Rules(),
		runs:   make(map[task.ID]*run),

		handling: make(map[string][]*run),
		pools:    make(map[string]*pool),
		held:     holding{aside: make(map[task.ID]aside)},
		grabs:    unlimited,
		unnoted:  true,
	}
	for _, name := range c.Pools {
		core.pools[name] = new(pool)
	}
	core.poolNames = slices.Sorted(maps.Keys(core.pools))
	core.timers = timers{waiting: newDueRows(task.Waiting), submitted: newDueRows(task.Submitted), retries: newTimers(), moving: newMoves(), expiring: newMoves()}
	for name, p := range c.Policies.Types {
		k := &kind{name: name, policy: &p, rules: p.Rules(), handled: c.Handled[name], paused: p.Paused}
		_, k.sharded = c.Policies.ShardedBy(p)
		core.kinds[name] = k
		core.table.Open(0, name, k.open())
	}
	return core
}

func (k *kind) open() bool { return k.handled && !k.paused && !k.stopped }

// kind returns the state of a type. A type that is not configured has the default policy and no
// handler. The core does not keep it, because clients can submit tasks of any type name.
func (c *Core) kind(name string) *kind {
	if k, ok := c.kinds[name]; ok {
		return k
	}
	p := policy.DefaultType()
	return &kind{name: name, policy: &p, rules: c.others}
}

// IsOpen reports whether tasks of a type may be started: the type is configured, has a handler and
// is neither paused nor stopped.
func (c *Core) IsOpen(name string) bool { return c.table.IsOpen(name) }

// Policy returns the policy of a type. A type that is not configured has the default policy.
func (c *Core) Policy(name string) policy.Type { return *c.kind(name).policy }

// Rules returns the rules of a type.
func (c *Core) Rules(name string) *task.Rules { return c.kind(name).rules }

// Pause pauses or resumes a type. Tasks of a paused type do not begin: tasks that are being grabbed are handed
// back. Running tasks continue.
func (c *Core) Pause(now time.Time, name string, paused bool) {
	k := c.kind(name)
	c.unnoted = c.unnoted || k.paused != paused
	k.paused = paused
	c.kinds[name] = k
	c.table.Open(c.steady(now), name, k.open())
	c.beginDelayed(now)
	c.book(now)
}

// StopType stops the start of the tasks of a type, or allows it again: the ends of so many of them cannot be written.
func (c *Core) StopType(now time.Time, name string, stopped bool) {
	k, ok := c.kinds[name]
	if !ok || k.stopped == stopped {
		return
	}
	k.stopped, c.unnoted = stopped, true
	c.table.Open(c.steady(now), name, k.open())
	c.Tick(now)
}

// add adds a trigger to the table. It reports whether the trigger is in memory. If not, it was left
// to the store.
func (c *Core) add(now time.Time, tr task.Trigger) (kept bool) {
	if r, ok := c.runs[tr.ID]; ok {
		r.follow(tr)
		return true
	}
	kept = c.table.Add(c.steady(now), tr)
	if !kept {
		c.stats.Dropped++
	}
	return kept
}

// isNews reports whether tr is of a later version of the task than r. While r is being inserted, any
// trigger is: the insert may find that another task has the id. So it is when the task has ended, and
// its id may be used again.
func (r *run) isNews(tr task.Trigger) bool {
	return r.phase == inserting || r.phase == handingOver || tr.Version > r.ref.Version
}

// follow keeps tr until r has ended, if it is newer than the trigger that r keeps.
func (r *run) follow(tr task.Trigger) {
	if r.isNews(tr) && tr.Version > r.next.Version {
		r.next = tr
	}
}

// Drain stops the start of tasks. Running tasks continue, and their results are saved.
func (c *Core) Drain(now time.Time) {
	c.draining = true
	c.table.Drain()
	c.beginDelayed(now)
}

// Busy returns the number of tasks that have a slot.
func (c *Core) Busy() int { return len(c.runs) }

// HasSlot reports whether a task has a slot.
func (c *Core) HasSlot(id task.ID) bool {
	_, held := c.runs[id]
	return held
}

// HandBack hands back a task that this node owns in the store without a run, because the store did not
// answer whether its grab was made: the task becomes submitted again. t is its row. The attempt does
// not count.
func (c *Core) HandBack(now time.Time, t *task.Task) {
	c.save(t.Type, task.Change{
		Ref: t.Ref(), By: t.Owner, To: task.Submitted, At: now, Count: task.Refund, Outcome: task.HandedBack,
		NextEventAt: c.Rules(t.Type).OverdueAt(now),
		Error:       "the store did not answer whether it was grabbed",
	}, false)
}

// Reclaim decides about a task that is processing in the store and owned by this node, although it
// has no run and no effect under way here. t is its row.
func (c *Core) Reclaim(now time.Time, t *task.Task) {
	c.stats.Reclaimed++
	c.save(t.Type, c.Rules(t.Type).Reclaimed(now, t), false)
}

// Surveyed reports whether the core has read the store for the first time. Before that, no task is
// grabbed with its submit, because the store may have older tasks.
func (c *Core) Surveyed() bool { return c.table.Surveyed() && c.timers.started() }

// Stats returns the counts so far.
func (c *Core) Stats() Stats { return c.stats }

// Timers returns the number of tasks in memory that have a time: delayed tasks, retries, queue timeouts.
func (c *Core) Timers() int {
	return c.timers.waiting.timers.Len() + c.timers.submitted.timers.Len() + c.timers.retries.Len()
}

// Waiting returns the number of triggers in the table.
func (c *Core) Waiting() int { return c.table.Len() }

// newRun makes the run of a task that was booked.
func (c *Core) newRun(k *kind, slot table.Slot, tr task.Trigger, p phase) *run {
	var r *run
	if n := len(c.spare); n > 0 {
		r, c.spare = c.spare[n-1], c.spare[:n-1]
	} else {
		r = new(run)
	}
	*r = run{ref: tr.Ref, kind: k, policy: k.policy, rules: k.rules, slot: slot, phase: p, trigger: tr, losses: c.losses}
	c.runs[tr.ID] = r
	k.running++
	return r
}

const maxSpare = 1024

// end frees the slot of r. Besides Yield no other function does. begun says whether the handler was
// called.
func (c *Core) end(now time.Time, r *run, begun bool) {
	switch {
	case r.yielded:
	case begun:
		c.table.Free(c.steady(now), r.slot)
	default:
		c.table.Return(c.steady(now), r.slot)
	}
	delete(c.runs, r.ref.ID)
	c.returned(r)
	r.kind.running--
	next := r.next
	if len(c.spare) < maxSpare {
		c.spare = append(c.spare, r)
	}
	if !next.ID.IsZero() {
		c.add(now, next)
	}
}

// expect returns the run of a task that waits for a reply in one of the given phases.
func (c *Core) expect(id task.ID, reply string, phases ...phase) *run {
	r, ok := c.runs[id]
	if ok {
		for _, p := range phases {
			if r.phase == p {
				return r
			}
		}
	}
	panic(fmt.Sprintf("core: %s of task %v, but none is under way", reply, id))
}

// Loaded answers a Load, see table.Loaded.
func (c *Core) Loaded(now time.Time, queue task.Queue, page []task.Trigger, end bool) {
	c.table.Loaded(c.steady(now), queue, page, end)
	c.book(now)
}

// Scanned answers a Scan, see table.Scanned.
func (c *Core) Scanned(queues []task.Queue, end bool) { c.table.Scanned(queues, end) }

// Changed passes a row that a user has changed. t is the row now. A run of an older version is
// stopped, and its verdict does not count any more.
func (c *Core) Changed(now time.Time, t *task.Task) {
	_, held := c.runs[t.ID]
	c.overrule(now, t.Hint())
	if !held { // a run of it may be on another node
		c.ready.Hints = append(c.ready.Hints, t.Hint())
	}
	if c.Owns(t.Queue(), t.Shard) {
		c.schedule(now, t.Hint())
	}
	c.book(now)
}

// Left passes the state of a changed row before the change: the core forgets its place in its queue and its time. was
// has the version of the row now. The caller then calls Changed.
func (c *Core) Left(now time.Time, was task.Hint) {
	c.table.Drop(c.steady(now), was.Trigger)
	c.timers.leave(was)
}

// Undone reports that the store has lost the grab at ref, for example by a failover to a replica that lacked it. t is the
// row now: its version may be lower, or belong to another grab. The run is stopped and its verdict does not count.
func (c *Core) Undone(now time.Time, ref task.Ref, t *task.Task) {
	r, ok := c.runs[ref.ID]
	if !ok || r.ref != ref || r.phase != running {
		return
	}
	r.phase, r.lingersTo = disowned, now.Add(r.policy.Timeout.Grace)
	c.ready.Stops = append(c.ready.Stops, Stop{ref.ID, ErrUndone})
	if t.State == task.Submitted && c.Owns(t.Queue(), t.Shard) {
		r.next = t.Hint().Trigger
	}
	c.book(now)
}

// overrule stops the run of a version of a row that is older than h, and removes the trigger of such
// a version.
func (c *Core) overrule(now time.Time, h task.Hint) {
	if h.State != task.Submitted {
		c.table.Drop(c.steady(now), h.Trigger)
	}
	if a, ok := c.held.aside[h.ID]; ok && a.trigger.Version < h.Version {
		delete(c.held.aside, h.ID)
	}
	r, held := c.runs[h.ID]
	if !held || r.ref.Version >= h.Version {
		return
	}
	switch r.phase {
	case inserting, grabbing:
		r.changed = h.Version
	case delayed:
		r.changed = h.Version
		c.beginDelayed(now)
	case running:
		r.phase, r.lingersTo = disowned, now.Add(r.policy.Timeout.Grace)
		c.ready.Stops = append(c.ready.Stops, Stop{h.ID, ErrOverruled})
	}
}
