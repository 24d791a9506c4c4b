// Package cluster is the part of an engine that deals with other nodes. It keeps the node a member,
// divides the shards among the members, exchanges hints with them, polls the store for unclaimed
// tasks, and decides about the tasks of dead nodes.
//
//	member.go   the node's lease: it joins, is expelled, and joins again as another incarnation
//	view.go     the node's knowledge of itself and of the other members
//	assign.go   which shards belong to which member
//	hint.go     hints, published to the other nodes and heard from them
//	poll.go     polling: reading rows without a hint from the store
//	gain.go     reading from the store the rows of shards that the node has gained
//	running.go  stopping attempts after other nodes have changed their rows
//	heal.go     deciding about tasks of dead nodes
//	earlier.go  tasks of an earlier process that may still end
//	swap.go     changing the rows of tasks that no node runs
//	lead.go     duties that one node does for all
//	monitor.go  the duty of counting the tasks and of reporting to operators
//	unhandled.go  tasks that no node runs
//	depth.go    how many tasks there are, for metrics and alerts
//	placement.go  which nodes run a type, and why none does
//	order.go    ordering keys that have no head
//	pause.go    the types that are paused, on all nodes
//	limits.go   the settings of limits, on all nodes
//	permits.go  permits and tokens of limits of the cluster
//	locate.go   on which node a task is
//
// A node without a Membership is the only member of a cluster in memory (package coord/local). It
// joins and owns all shards, by the same code as any other node. Work that is only needed because
// other nodes use the same store depends on [Cluster.IsShared] alone.
//
// Safety does not depend on this package. Every change of a task is a compare-and-swap, so a wrong
// view of the cluster wastes work and loses no task.
//
// # Locks
//
// The node's knowledge of the cluster is an immutable view. The goroutine of memberLoop replaces it,
// within [Engine.Decide], so a function that Decide calls sees the same view as the core. Other code
// loads the view without a lock.
//
// There are five mutexes. They are locked in this order:
//
//  1. Cluster.pausing, while the paused types are read or changed in the store and in the core
//  2. the engine's own, by Decide
//  3. outbox.mu, requests.mu, permits.mu or roles.mu; nothing is called while one of them is held
package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/local"
	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/internal/ratelog"
	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// Config configures a Cluster.
type Config struct {
	Store storage.Store // where the tasks are

	// Coordinator is how the node coordinates with others. If it has a Membership, Store must be a
	// [storage.Shared]. Without Settings, Store keeps the changes of limits, or memory if Store is no
	// [storage.Settings].
	Coordinator coord.Coordinator

	Lease    time.Duration     // that was asked for; see Cluster.Lease
	Name     string            // of the node, for messages
	Labels   map[string]string // of the node
	Version  string            // of the program, for the other nodes to show
	Handlers []string          // types that the node runs, sorted
	Types    []string          // types that the engine's configuration names, sorted

	// Places has, by type, the keys of the selectors of single values, and Matched the keys of selectors
	// that this node matches, see policy.Limit.Nodes.
	Places  map[string][]string
	Matched []string

	IDs    *task.IDs // for incarnations
	Log    *slog.Logger
	Engine Engine
}

// Engine has the functions of the engine that a Cluster is a part of. All functions must be set.
type Engine struct {
	// Decide locks the engine, calls fn with the core and the time, collects the effects of the core, and
	// unlocks the engine. fn must not block, and must not call Decide.
	Decide func(fn func(c *core.Core, now time.Time))

	// Orphaned returns the change for a task of a dead node.
	Orphaned func(t *task.Task) task.Change

	// Await returns for how long after a start the ends of attempts of a type may arrive that an earlier
	// process has begun; 0 if there are none.
	Await func(typ string) time.Duration

	// Unanswered reports whether err is not nil: the store could not do a read. If so, it logs that, and
	// returns after a rest or when ctx ends.
	Unanswered func(ctx context.Context, what string, err error) bool

	// Read calls fn for one read, with the tasks that can be read now: the store or, of several databases,
	// the ones that answer. It reports whether the read was answered. If not, it has logged that and
	// rested, or other databases can be read now than before. When a database that a read left out answers
	// again, [Cluster.ReadOwned] reads its rows.
	Read func(ctx context.Context, what string, fn func(ctx context.Context, from storage.Tasks) error) bool

	// IsConfigured reports whether the engine's configuration names a type.
	IsConfigured func(typ string) bool

	// Nodes describes which nodes may run a type, by the engine's configuration; "" is all.
	Nodes func(typ string) string

	// MayRun reports whether a node of this name, with these labels, may run a type, likewise.
	MayRun func(typ, name string, labels map[string]string) bool

	// Place returns the place of a queue, and Wanted describes its nodes; "" is the nodes of the type.
	Placement func(q task.Queue) core.Placement
	Wanted    func(q task.Queue) string

	// Limit applies the settings of limits, sorted by scope. It is called by one goroutine at a time.
	Limit func(settings []coord.Setting)

	// IsDraining reports whether the engine starts nothing any more. It locks the engine.
	IsDraining func() bool

	// Only a function that Decide calls may call those below: they need the engine's lock.

	// StopAll ends the context of every attempt, because the node has lost its lease.
	StopAll func()

	// Running returns the versions of the rows with attempts under way.
	Running func() []task.Ref

	// RunningIn returns the shards of these rows.
	RunningIn func() task.Shards

	// IsAway reports whether the database of a shard does not answer.
	IsAway func(shard uint16) bool

	// GoesOn reports whether the attempt at this version of a row is under way, has not been
	// stopped, and has not finished the task in a transaction of its own.
	GoesOn func(ref task.Ref) bool

	// Ended wakes the callers that wait for the end of a task, if it has ended.
	Ended func(t *task.Task)
	// Recovered gets the row of a task of a dead node, after its change.
	Recovered func(t *task.Task)
	// Inserted gets the outcome of a row that followed such a change. It is called within Decide.
	Inserted func(now time.Time, t *task.Task, in storage.Inserted)
}

// Cluster is one node's part in a cluster. Its methods may be called by any goroutine at any time,
// except as their comments say.
type Cluster struct {
	config     Config
	engine     Engine
	log        *slog.Logger
	store      storage.Store
	shared     storage.Shared // the store, if other nodes may use it; nil if only this node does
	membership coord.Membership
	elector    coord.Elector
	bus        coord.Bus
	settings   coord.Config
	semaphore  coord.Semaphore // nil if limits of the cluster are limits of this node
	rates      coord.Rates     // nil with semaphore

	view     atomic.Pointer[view] // replaced by the goroutine of memberLoop, within Decide
	isJoined bool                 // owned by the goroutine of memberLoop: joined is closed
	joined   chan struct{}        // closed when the node has joined for the first time

	address   atomic.Pointer[string]         // the URL of the API of this node; nil before Advertise
	peers     atomic.Pointer[[]coord.Member] // replaced by the goroutine of peersLoop; nil while it knows none
	peer      atomic.Pointer[task.ID]        // likewise: the id of the node among them; nil before
	unhandled atomic.Pointer[[]Unhandled]    // the latest result of Monitor; nil while it does not run
	depths    atomic.Pointer[Depths]         // likewise

	outbox     outbox                           // unpublished hints
	requests   requests                         // requests to pollLoop
	wanting    sync.Mutex                       // held while the node finds the shards that it needs hints of
	permits    permits                          // requests to semaphore and rates
	reheal     wakeup.Signal                    // wakes the healer: the members have changed
	repause    wakeup.Signal                    // wakes pausesLoop: the paused types may have changed
	pausing    sync.Mutex                       // held while the paused types are read or changed
	pauses     pauses                           // guarded by pausing
	byHand     atomic.Pointer[map[string]Pause] // types paused or resumed by hand, as last passed to the core; replaced with pausing held, and never changed
	unhealed   unhealed                         // owned by the caller of Heal and HealRest
	awaited    awaited                          // owned by the caller of Heal and HealAwaited
	refusedLog ratelog.Limiter                  // the store refuses a change of a task of a dead node
	limitsLog  ratelog.Limiter                  // the settings of limits cannot be watched
	depthsLog  ratelog.Limiter                  // the depths cannot be read
	roles      roles                            // the roles of this node
}

// New returns a Cluster with a node that is no member yet: see [Cluster.Run]. It calls no function of
// c.Engine.
func New(c Config) (*Cluster, error) {
	by := c.Coordinator
	k := &Cluster{
		config: c, engine: c.Engine, log: c.Log, store: c.Store,
		membership: by.Membership, elector: by.Elector, bus: by.Bus, settings: by.Settings, semaphore: by.Semaphore, rates: by.Rates,
		joined: make(chan struct{}), outbox: outbox{filled: wakeup.New()}, requests: requests{made: wakeup.New()},
		permits: newPermits(),
		reheal:  wakeup.New(), repause: wakeup.New(), awaited: make(awaited),
	}
	alone := local.New()
	if k.membership == nil {
		k.membership = alone
	} else if shared, ok := c.Store.(storage.Shared); ok {
		k.shared = shared
	} else {
		return nil, errors.New("engine: Config.Coordinator has a Membership, and the store cannot be shared by nodes")
	}
	if k.elector == nil {
		k.elector = alone
	}
	if k.bus == nil {
		k.bus = alone
	}
	if k.settings == nil {
		k.settings = settingsOf(c.Store, k.shared != nil, alone)
	}
	k.view.Store(&view{incarnation: c.IDs.Next(time.Now()), owned: none()})
	return k, nil
}

// IsShared reports whether other nodes may use the store. If so, this node learns of their changes
// by hints and by polling. If not, a task that is processing under an incarnation that is not this
// node's was started by an earlier process.
func (k *Cluster) IsShared() bool { return k.shared != nil }

// Run takes part in the cluster until ctx ends. It returns when every goroutine that it started
// has ended. It must be called once. If the store is not shared and no limit is of the cluster, Run
// starts three goroutines: one joins and then waits, one watches the settings of limits, and one looks once
// for ordering keys without a head.
func (k *Cluster) Run(ctx context.Context) {
	k.engine.Decide(func(c *core.Core, now time.Time) { c.Own(now, k.view.Load().owned) })
	loops := []func(context.Context){k.memberLoop, k.limitsLoop}
	if k.shared != nil {
		loops = append(loops, k.pollLoop, k.pausesLoop, k.publishLoop, k.subscribeLoop, k.healLoop)
	} else {
		loops = append(loops, k.headsLoop)
	}
	if k.semaphore != nil {
		loops = append(loops, k.holdLoop, k.orderLoop, k.drawLoop)
	}
	if k.config.Coordinator.Peers != nil {
		loops = append(loops, k.peersLoop)
	}
	var running sync.WaitGroup
	defer running.Wait()
	for _, loop := range loops {
		running.Go(func() { loop(ctx) })
	}
}

// Joined waits until the node has joined for the first time. Run must have been called.
func (k *Cluster) Joined(ctx context.Context) error {
	select {
	case <-k.joined:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("join the other nodes: %w", context.Cause(ctx))
	}
}
