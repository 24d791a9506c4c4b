// Package cluster is the part of an engine that deals with other nodes: who is alive, which
// tasks are for this node to start, what the nodes tell each other, what a node finds in the
// store without being told, and what becomes of the tasks of a node that died.
//
//	member.go   the node's lease: it joins, is expelled, and joins anew as another incarnation
//	view.go     what the node knows of itself and the others
//	assign.go   which shards belong to which node
//	hint.go     hints: published to the other nodes, and heard from them
//	poll.go     reading from the store what no hint told of
//	gain.go     reading from the store what has become this node's
//	running.go  stopping attempts whose rows other nodes have changed
//	heal.go     deciding about tasks whose nodes are gone
//	lead.go     duties that one node does for all
//	monitor.go  the duty of counting tasks, and of saying what a person should know
//	pause.go    which types are paused, on all nodes
//	locate.go   where a task is that is not this node's
//
// A node without a Membership is the only member of a cluster in memory, of package
// [coord/local]. It takes the same way as any other: it joins, and owns all shards. What is
// about other nodes that use the same store depends on the store alone: see [Cluster.IsShared].
//
// Nothing here is needed for safety. Every change of a task is a compare-and-swap, so a wrong
// view of the cluster costs work, never a task.
//
// # Locks
//
// What the node knows of the cluster is an immutable view: the goroutine of the membership
// replaces it, within [Engine.Decide], so a function that Decide calls sees the view that the
// core was told of. All others load it without a lock.
//
// There are three mutexes. Of two that are held at once, the one named first is locked first:
//
//  1. pauses.mu, held while the paused types are read or changed, also in the store
//  2. the engine's own, held by Decide
//  3. outbox.mu and requests.mu: nothing is called while one of them is held
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
	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/storage"
)

// Config is what a Cluster works with.
type Config struct {
	Store storage.Store // where the tasks are

	// Membership says which nodes are alive. If it is nil the node is alone; otherwise Store
	// must be a [storage.Shared]. A nil Elector elects this node, and a nil Bus carries hints
	// to no other node.
	Membership coord.Membership
	Elector    coord.Elector
	Bus        coord.Bus

	Lease    time.Duration     // how long a member is believed to be alive after it has proved it
	Name     string            // of the node, for people
	Labels   map[string]string // what else people say about the node
	Handlers []string          // types that the node can run, sorted

	IDs    *task.IDs // for incarnations
	Log    *slog.Logger
	Engine Engine
}

// Engine is how a Cluster talks to the engine that it is a part of. All functions must be set.
type Engine struct {
	// Decide locks the engine, calls fn with the core and the time, and has done what the core
	// then asks for. fn must not wait, and must not call Decide.
	Decide func(fn func(c *core.Core, now time.Time))

	// Swap makes changes in the store, and returns the rows that it changed, with nil for each
	// change that came too late or that the store refuses by itself. After an error it is not
	// known which changes were made.
	Swap func(ctx context.Context, changes []task.Change) ([]*task.Task, error)

	// Orphaned returns what becomes of a task whose node is gone.
	Orphaned func(now time.Time, t *task.Task) task.Change

	// Unanswered reports whether err is not nil: the store could not be read. If so it logs
	// that, and returns after a rest or when ctx ends.
	Unanswered func(ctx context.Context, what string, err error) bool

	// IsOutage reports whether an error of the store says that it takes nothing at all.
	IsOutage func(err error) bool

	// IsConfigured reports whether the engine's configuration names a type.
	IsConfigured func(typ string) bool

	// IsDraining reports whether the engine starts nothing any more. It locks the engine.
	IsDraining func() bool

	// The following are called only by a function that Decide calls.

	// StopAll ends the context of every attempt, because the node's lease is lost.
	StopAll func()

	// Running returns the row of every attempt under way.
	Running func() []task.Ref

	// GoesOn reports whether the attempt at a row is under way, was not told to stop, and has
	// not finished the task itself.
	GoesOn func(ref task.Ref) bool

	// Ended wakes the callers that wait for a task, if it has ended.
	Ended func(t *task.Task)
}

// Cluster is one node's part in a cluster. Its methods may be called from any goroutine, except
// as said.
type Cluster struct {
	config     Config
	engine     Engine
	log        *slog.Logger
	store      storage.Store
	shared     storage.Shared // the store, if other nodes use it, too; else nil
	membership coord.Membership
	prover     coord.Prover // says whether this node is alive at this moment; nil if the membership needs no lease
	elector    coord.Elector
	bus        coord.Bus

	view     atomic.Pointer[view] // replaced by the goroutine of memberLoop only, within Decide
	isJoined bool                 // belongs to the goroutine of memberLoop: hasJoined is closed
	joined   chan struct{}        // closed when the node has joined for the first time

	outbox   outbox        // hints that are to be published
	requests requests      // what the poller is asked to read
	heal     wakeup.Signal // the members have changed: wakes the healer
	repause  wakeup.Signal // the paused types may have changed: wakes pausesLoop
	pauses   pauses
	unhealed unhealed
}

// New returns a Cluster that nothing has joined yet. It calls no function of c.Engine.
func New(c Config) (*Cluster, error) {
	k := &Cluster{
		config: c, engine: c.Engine, log: c.Log, store: c.Store,
		membership: c.Membership, elector: c.Elector, bus: c.Bus,
		joined: make(chan struct{}), outbox: outbox{filled: wakeup.New()}, requests: requests{made: wakeup.New()},
		heal: wakeup.New(), repause: wakeup.New(),
	}
	alone := local.New()
	if k.membership == nil {
		k.membership = alone
	} else if shared, ok := c.Store.(storage.Shared); ok {
		k.shared = shared
	} else {
		return nil, errors.New("engine: Config.Membership is set, and the store cannot be shared by nodes")
	}
	if k.elector == nil {
		k.elector = alone
	}
	if k.bus == nil {
		k.bus = alone
	}
	k.prover, _ = k.membership.(coord.Prover)
	k.view.Store(&view{incarnation: c.IDs.Next(time.Now()), owned: none()})
	return k, nil
}

// IsShared reports whether other nodes may use the store at the same time. What such a node
// changes this one hears of, or finds by polling. If the store is not shared, a task that runs
// and is not this node's ran in a process before this one.
func (k *Cluster) IsShared() bool { return k.shared != nil }

// Run takes part in the cluster until ctx ends, and returns when all that it started has
// ended. It is called once.
func (k *Cluster) Run(ctx context.Context) {
	k.engine.Decide(func(c *core.Core, now time.Time) { c.Own(now, k.view.Load().owned) })
	loops := []func(context.Context){k.memberLoop}
	if k.shared != nil {
		loops = append(loops, k.pollLoop, k.pausesLoop, k.publishLoop, k.subscribeLoop, k.healLoop)
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

// sleep waits for d, or returns ctx's error when that ends first.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
