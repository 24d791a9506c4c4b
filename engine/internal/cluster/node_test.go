package cluster

import (
	"context"
	"crypto/rand"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/local"
	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

// node is a Cluster under test, with a real core and the least of an engine around it: it reads rows for the
// core at once, and only notes the grabs of the core.
type node struct {
	*Cluster
	t     *testing.T
	store storage.Store
	coord *local.Node
	stop  context.CancelFunc
	ended sync.WaitGroup

	mu       sync.Mutex // the engine's lock
	core     *core.Core
	effects  core.Ready
	grabs    map[task.ID]task.ID // guarded by mu: the tasks that the core wanted to grab, and as which incarnation
	running  map[task.Ref]bool   // guarded by mu: the attempts under way
	finished []task.ID           // guarded by mu: the tasks of calls of Ended
	stops    int                 // guarded by mu: how often everything was stopped
	draining bool                // guarded by mu
	ticker   *time.Timer         // guarded by mu: passes the time to the core
	closed   bool                // guarded by mu: nothing ticks any more
}

// open starts a node on a store. change, if it is not nil, changes its configuration first.
func open(t *testing.T, store storage.Store, change func(*Config)) *node {
	t.Helper()
	return openWith(t, store, policy.Set{Slots: 100, Types: map[string]policy.Type{"work": policy.DefaultType()}}, change)
}

// openWith is open with other policies.
func openWith(t *testing.T, store storage.Store, set policy.Set, change func(*Config)) *node {
	t.Helper()
	n := &node{t: t, store: store, grabs: make(map[task.ID]task.ID), running: make(map[task.Ref]bool)}
	var seed [32]byte
	rand.Read(seed[:])
	c := Config{
		Store: store, Lease: 4 * time.Second, Name: "a", Handlers: []string{"work"},
		IDs: task.NewIDs(seed), Log: slog.New(slog.DiscardHandler),
		Engine: Engine{
			Decide: n.decide, Unanswered: n.unanswered, Read: n.readFrom,
			IsAway:       func(uint16) bool { return false },
			Await:        func(string) time.Duration { return 0 },
			Orphaned:     func(t *task.Task) task.Change { return policy.DefaultType().Rules().Orphaned(time.Now(), t) },
			IsConfigured: func(typ string) bool { return typ == "work" },
			Nodes:        func(string) string { return "" },
			MayRun:       func(string, string, map[string]string) bool { return true },
			Placement:    func(task.Queue) core.Placement { return core.Placement{} },
			Wanted:       func(task.Queue) string { return "" },
			Limit:        func([]coord.Setting) {},
			IsDraining:   n.isDraining,
			StopAll:      func() { n.stops++; clear(n.running) },
			Running: func() (refs []task.Ref) {
				for ref := range n.running {
					refs = append(refs, ref)
				}
				return refs
			},
			RunningIn: func() (shards task.Shards) {
				for ref := range n.running {
					shards.Add(ref.ID.Shard())
				}
				return shards
			},
			GoesOn:    func(ref task.Ref) bool { return n.running[ref] },
			Recovered: func(*task.Task) {},
			Inserted:  func(time.Time, *task.Task, storage.Inserted) {},
			Ended: func(t *task.Task) {
				if !t.State.Live() {
					n.finished = append(n.finished, t.ID)
				}
			},
		},
	}
	if change != nil {
		change(&c)
	}
	k, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	n.Cluster = k
	n.core = core.New(core.Config{
		Owner: k.Incarnation(), Policies: set, Handled: map[string]bool{"work": true}, Capacity: 1000, QueueCapacity: 100, Chance: func() float64 { return 0.5 },
	})
	if err := n.Heal(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	n.stop = stop
	n.ended.Go(func() { n.Run(ctx) })
	t.Cleanup(n.close)
	if err := n.Joined(t.Context()); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	return n
}

// join starts a node that is one of several.
func join(t *testing.T, store storage.Store, peer *local.Node, change func(*Config)) *node {
	t.Helper()
	return joined(peer, change, func(change func(*Config)) *node { return open(t, store, change) })
}

// joinAgeing starts a node that is one of several and runs one task at a time, of a type with ageing.
func joinAgeing(t *testing.T, store storage.Store, peer *local.Node) *node {
	t.Helper()
	typ := policy.DefaultType()
	typ.Ageing = time.Second
	return joined(peer, nil, func(change func(*Config)) *node {
		return openWith(t, store, policy.Set{Slots: 1, Types: map[string]policy.Type{"work": typ}}, change)
	})
}

// joined opens a node that uses peer.
func joined(peer *local.Node, change func(*Config), open func(change func(*Config)) *node) *node {
	n := open(func(c *Config) {
		c.Coordinator.Membership, c.Coordinator.Elector, c.Coordinator.Bus = peer, peer, peer
		if change != nil {
			change(c)
		}
	})
	n.coord = peer
	return n
}

func (n *node) close() {
	n.stop()
	n.ended.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	if n.ticker != nil {
		n.ticker.Stop()
	}
}

// decide is that of an engine with a reader that takes no time.
func (n *node) decide(fn func(c *core.Core, now time.Time)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	fn(n.core, time.Now())
	for isMore := true; isMore; {
		r := &n.effects
		n.core.Take(r)
		isMore = len(r.Loads)+len(r.Scans)+len(r.DueLoads) > 0
		for _, g := range r.Grabs {
			n.grabs[g.ID] = g.Owner
		}
		if n.Cluster != nil {
			n.Hint(r.Hints)
		}
		n.read(r)
	}
	if n.ticker != nil {
		n.ticker.Stop()
	}
	tick := func() { n.decide(func(c *core.Core, now time.Time) { c.Tick(now) }) }
	switch wake := n.core.Wake(); {
	case wake.IsZero() || n.closed:
	case time.Until(wake) <= 0:
		go tick() // without a timer: the race detector of Go 1.26 crashes if two goroutines of a bubble start timers that are due
	default:
		n.ticker = time.AfterFunc(time.Until(wake), tick)
	}
}

// read answers the reads of the core. It is called with mu held.
func (n *node) read(r *core.Ready) {
	ctx, owned := context.Background(), n.Owned()
	for _, s := range r.Scans {
		queues, err := n.store.Queues(ctx, s.After, s.Limit)
		n.must(err)
		n.core.Scanned(queues, len(queues) < s.Limit)
	}
	for _, l := range r.DueLoads {
		q := storage.DueQuery{State: l.State, Shards: owned.Any(), Before: storage.DistantFuture, Limit: l.Limit}
		q.After.At, q.After.ID = l.AfterAt, l.AfterID
		rows, err := n.store.Due(ctx, q)
		n.must(err)
		page := make([]core.Due, len(rows))
		for i, row := range rows {
			page[i] = core.Due{Trigger: row.Trigger, At: row.At}
		}
		n.core.DueLoaded(time.Now(), l, page, len(page) < l.Limit)
	}
	for _, l := range r.Loads {
		page, end, err := l.Read(func(after *task.Rank, limit int) ([]task.Trigger, error) {
			return n.store.Ready(ctx, storage.ReadyQuery{Queue: l.Queue, Shards: owned.Of(l.Queue.Type), After: after, Limit: limit})
		})
		n.must(err)
		n.core.Loaded(time.Now(), l.Queue, page, end)
	}
}

func (n *node) must(err error) {
	if err != nil {
		n.t.Error(err)
	}
}

func (n *node) unanswered(ctx context.Context, _ string, err error) bool {
	if err != nil {
		_ = wakeup.Sleep(ctx, time.Second)
	}
	return err != nil
}

func (n *node) isDraining() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.draining
}

// runs has an attempt at a row be under way.
func (n *node) runs(ref task.Ref) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.running[ref] = true
}

// wants reports whether the core has wanted to grab a task.
func (n *node) wants(id task.ID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, ok := n.grabs[id]
	return ok
}

// count returns one of the counters of a node.
func (n *node) count(of *int) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return *of
}

// ids makes ids of tasks.
var ids = task.NewIDs([32]byte{42})

// ready returns a row that is ready, in a shard.
func ready(shard uint16) *task.Task {
	now := time.Now()
	return &task.Task{ID: ids.NextIn(now, shard), Type: "work", Shard: shard, State: task.Submitted, Version: 1, CreatedAt: now, ReadyAt: now, UpdatedAt: now}
}

// insert adds a row to the store without a hint to a node.
func insert(t *testing.T, store storage.Store, row *task.Task) *task.Task {
	t.Helper()
	if _, err := store.Insert(t.Context(), row); err != nil {
		t.Fatal(err)
	}
	return row
}

// grabbed adds a row that runs, and returns it.
func grabbed(t *testing.T, store storage.Store, owner task.ID) *task.Task {
	t.Helper()
	row := insert(t, store, ready(0))
	return change(t, store, task.Change{Ref: row.Ref(), To: task.Processing, Owner: owner, At: time.Now(), NextEventAt: time.Now().Add(time.Hour)})
}

func change(t *testing.T, store storage.Store, c task.Change) *task.Task {
	t.Helper()
	rows, err := store.Swap(t.Context(), c)
	if err != nil || rows[0] == nil {
		t.Fatalf("swapped %v, %v", rows, err)
	}
	return rows[0]
}

// has checks in which state a row is.
func has(t *testing.T, store storage.Store, id task.ID, want task.State) {
	t.Helper()
	got, err := store.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if got.State != want {
		t.Errorf("it is %v, want %v", got.State, want)
	}
}

// incarnations returns the incarnations of members, sorted.
func incarnations(members []coord.Member) (all []task.ID) {
	for _, m := range members {
		all = append(all, m.Incarnation)
	}
	return all
}

// sorted returns the incarnations of nodes, sorted.
func sorted(nodes ...*node) (all []task.ID) {
	for _, n := range nodes {
		all = append(all, n.Incarnation())
	}
	slices.SortFunc(all, task.ID.Compare)
	return all
}

func newStore(t *testing.T) *memory.Store {
	s := memory.New()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// readFrom is [Engine].Read of a store that is one database.
func (n *node) readFrom(ctx context.Context, what string, fn func(ctx context.Context, from storage.Tasks) error) bool {
	return !n.unanswered(ctx, what, fn(ctx, n.store))
}
