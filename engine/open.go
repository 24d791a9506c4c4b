package engine

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	mathrand "math/rand/v2"
	"sync"
	"time"

	"github.com/taskengine/taskengine/codec"
	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/engine/internal/blocks"
	"github.com/taskengine/taskengine/engine/internal/cluster"
	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/engine/internal/feed"
	"github.com/taskengine/taskengine/engine/internal/shell"
	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/internal/workpool"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// Errors that callers match with [errors.Is].
var (
	// ErrClosed says that the engine was closed, or is draining.
	ErrClosed = errors.New("the engine is closed")
	// ErrFailed says that the store failed for good; see [Engine.Failed].
	ErrFailed = errors.New("the engine has stopped because its store failed")
)

// Config configures an engine.
type Config struct {
	Store    storage.Store           // where the tasks are; the engine does not close it
	Policies policy.Set              // what types and limits there are
	Handlers map[string]task.Handler // by type; a handler is not used if the Nodes of the policy exclude this node
	Name     string                  // name of the node, shown to people; types may choose their nodes by it, see [policy.Type]
	Labels   map[string]string       // other facts about the node, likewise
	Version  string                  // of the program, which other nodes show to people

	// Coordinator has the ports by which the node coordinates with others; zero if it is alone. The members of its
	// Membership may share a store that is a [storage.Shared]. The store records the cluster of these nodes, or
	// that it belongs to one process, and Open refuses any other: see package coord/record. If there is a limit
	// of the cluster and a Membership, Semaphore and Rates are needed; without both, the used tokens of rates are
	// kept in the store, if it is a [storage.Settings]. Without Settings, those of limits are kept in the store, see
	// [Engine.SetLimit] and package coord/stored: then other nodes learn of a change within half a minute. A store that
	// is no [storage.Settings] keeps none, and they end with the process.
	Coordinator coord.Coordinator
	Lease       time.Duration // that the Coordinator was asked for, and has while its Membership knows none; 0 is DefaultLease

	// Manual is for tests of programs: if it is not zero, the time is this one, and stands still until [Engine.Advance]
	// lets it pass. The engine must be the only node. Tasks that have ended are removed by the clock of the machine.
	Manual time.Time

	// Functions by which the program decides instead of Policies. Each depends on its arguments only,
	// is called by several goroutines at once, and neither changes nor keeps its arguments. A panic
	// stops nothing and loses no task: see each of them.

	// Retry decides what follows a failed attempt, in place of the Retry of its type. It is called by
	// the goroutine of the handler, and a slow one keeps the slot of its task and nothing else. It is
	// not asked if an attempt completed, snoozed or was interrupted, for attempts that were given up
	// because their handler did not return, and for tasks of nodes that died: the policy of the type
	// decides about these. It cannot overrule AtMostOnce, MaxCrashes, and the time of a task at which
	// it is too late. If it is nil, panics, or returns a zero Decision or one that cannot be, the
	// policy of the type decides.
	Retry func(Failure) Decision

	// Values compute values of limits, by name: a limit whose Per is "func.NAME" is separate for each
	// value that the function called NAME returns. It is called when a task is submitted, by the
	// submitter, and the value is stored with the task. A task that was stored before a limit of its
	// type had this Per is asked about when its turn comes, with the engine's mutex locked: the
	// function must be quick. If it panics, or returns text that is not UTF-8 or too long, a submit is
	// refused with [ErrInvalid], and a stored task counts by the empty value. Nodes that share a store
	// need the same functions; to compute another value, give it another name.
	Values map[string]func(*Request) string

	// MayRun decides whether a node with this name and these labels may run a type, in addition to the
	// Nodes of its policy. Open asks it once for each handler of this node, and fails if it panics.
	// Later it is asked about other nodes for texts for people; a panic then stands for no.
	MayRun func(typ, name string, labels map[string]string) bool

	// Functions around the work of the engine for the program. Either may be nil.

	// Wrap returns the function that is called in place of the handler of a type, for instance a function that does
	// something before and after it. Open calls it once for each handler of this node. The function
	// keeps all that a [task.Handler] promises, passes next a context that is derived from its own, and
	// calls next at most once for each call. A panic in it is one of the handler. Wrap must not return nil.
	Wrap func(typ string, next task.Handler) task.Handler

	// Decorate completes a request before it is checked, for instance by headers: requests of Submit and
	// SubmitTx with the context of the call, and requests that a handler adds with its end with the context
	// of its attempt. The request is a copy, Headers is not nil, and the bytes of the Payload must not be
	// changed. If Decorate returns an error or panics, nothing is added, and the error wraps [ErrInvalid].
	// Tasks that SQL adds are not decorated.
	Decorate func(ctx context.Context, r *Request) error

	// Codec encodes payloads, results, checkpoints and the data of signals for the store, and decodes them, see package codec. If it
	// is nil, nothing is encoded, and compressed contents are decoded. A task that cannot be decoded is not given to its
	// handler. If that is for good, it becomes an Error. Otherwise it waits, without delaying other tasks, see
	// [Engine.MissingKeys], and runs when a node has the missing key. With a [codec.Keyed], contents under another key are
	// encoded anew with each change of a task that has not ended.
	Codec codec.Codec

	// Await says, by type, for how long after Open the ends of attempts may arrive by [Engine.EndEarlier]
	// that the process before this one has begun. For so long their tasks do not run again. It has no effect
	// if nodes share the store: then they run again when the node before has been missing for the time of its
	// lease.
	Await map[string]time.Duration

	Log      *slog.Logger // nil for none
	Observer Observer     // called at events
	TaskLog  TaskLog      // gets what handlers log about their tasks; nil for none

	LookAhead      int // triggers in memory at most; 0 is 100 000
	QueueLookAhead int // triggers of one type and group in memory at most; 0 is 1000

	wall func() time.Time // the wall clock of the machine, if a test has set it
}

// Observer has functions that the engine calls when something happens to one of its tasks.
// Every field may be nil. The engine calls them from its own goroutines, some of them with its
// mutex locked: they must be quick, must not call the engine, and must not change or retain
// the task.
type Observer struct {
	Inserted func(at time.Time, t *task.Task)               // a task became durable: submitted, waiting, or grabbed at once
	Started  func(at time.Time, t *task.Task)               // the handler of a task is called now
	Saved    func(at time.Time, was task.Ref, t *task.Task) // a change became durable; t is nil if the change came too late

	// Committed is called with the time that the store took to make a batch durable, or to fail. It is called without the
	// mutex of the engine, by several goroutines at once.
	Committed func(took time.Duration, err error)
}

// Engine runs tasks. Its methods are safe for concurrent use.
type Engine struct {
	config    Config
	store     storage.Store
	log       *slog.Logger
	catalog   *catalog // what requests are checked by
	contents  contents // encodes and decodes what tasks carry
	handlers  handlers
	cluster   *cluster.Cluster // the other nodes
	limits    liveLimits       // how people have changed limits
	backlogs  backlogs
	horizon   horizon   // of the events
	feedID    task.ID   // of the events; set when it is opened
	abilities abilities // of the store
	base      timebase  // the clock by which the tasks go

	inbox    inbox          // events that the shell has not seen
	missing  missingKeys    // keys that tasks wait for
	begun    begun          // types of which tasks have begun, see KnowsType
	progress progressBuffer // writes the progress that handlers report

	mu    sync.Mutex
	state state // guarded by mu

	lanes  []*lane // what writes: one for each database; read only
	reader reader  // what reads from the store as memory has room
	wakes  wakes
	ends
}

// abilities are the optional parts of a store that the engine uses. They are read only.
type abilities struct {
	locks   bool             // it is a storage.Locker
	noSync  storage.NoSyncer // makes relaxed grabs; nil if no type is relaxed, or the store cannot
	divided storage.Divided  // the store if several databases keep the tasks, else nil
	relays  *relayStore      // the store if tasks can carry signals, and requests for another of several databases, else nil
}

// wakes wake loops of the engine.
type wakes struct {
	tick      wakeup.Signal // tickLoop: it must wait for another time
	uncertain wakeup.Signal // uncertainLoop: there are uncertain tasks
	blocks    wakeup.Signal // noteLoop: tasks may wait for something
}

// ends are the signs of how far the engine has come, and what ends it.
type ends struct {
	failed   chan struct{} // closed with failure
	surveyed chan struct{} // closed when the core has surveyed the store
	drained  chan struct{} // closed when the engine is closing and no task has a slot or a pending save
	gone     chan struct{} // closed when Close has ended all work

	stop   context.CancelFunc // ends the background work
	duties sync.WaitGroup     // writers, reader, ticker, roles
	closed sync.Once
}

// Defaults of [Config].
const (
	DefaultLookAhead      = 100_000
	DefaultQueueLookAhead = 1000
)

// Open starts an engine on the tasks of a store. Before Open returns, it decides about the tasks
// that ran when the store was last used. ctx bounds the opening, not the engine, which runs
// until [Engine.Close].
func Open(ctx context.Context, c Config) (*Engine, error) {
	if problems := c.Policies.Check(); len(problems) > 0 {
		return nil, fmt.Errorf("engine: %d problems with the policies, the first: %s", len(problems), problems[0])
	}
	shareAlone(&c)
	if err := checkShared(&c); err != nil {
		return nil, err
	}
	if err := checkHome(ctx, c.Store); err != nil {
		return nil, err
	}
	if err := checkCoordination(ctx, &c); err != nil {
		return nil, err
	}
	e, err := newEngine(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := e.cluster.Heal(ctx); err != nil {
		return nil, fmt.Errorf("engine: recover interrupted tasks: %w", err)
	}
	if err := e.cluster.LoadPauses(ctx); err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	if err := e.cluster.LoadLimits(ctx); err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	if err := e.countBacklogs(ctx); err != nil {
		return nil, fmt.Errorf("engine: count the backlogs: %w", err)
	}
	e.handlers.pools.use(&e.inbox)
	background, stop := context.WithCancel(context.Background())
	e.stop = stop
	e.duties.Go(func() { e.cluster.Run(background) })
	err = e.cluster.Joined(ctx)
	if err == nil {
		err = e.base.check()
	}
	var declares declaring
	own := e.catalog.attributes()
	if err == nil {
		err = e.withdrawOthers(ctx, own, &declares) // before functions of the database follow the rules of this node
	}
	if err == nil {
		err = e.catalog.store(ctx, e.store)
	}
	if err == nil {
		err = e.declare(ctx, own, &declares)
	}
	if err != nil {
		stop()
		e.duties.Wait()
		e.handlers.pools.leave()
		return nil, fmt.Errorf("engine: %w", err)
	}
	e.mu.Lock()
	e.state.blocks = blocks.New(e.state.clock.now())
	e.mu.Unlock()
	for _, l := range e.lanes {
		for _, w := range e.writersOf(l) {
			e.duties.Go(func() { w.run(background) })
		}
	}
	if e.abilities.divided != nil {
		e.duties.Go(func() { e.drainLoop(background) })
		e.duties.Go(func() { e.releaseLoop(background) })
	}
	e.duties.Go(func() { e.readLoop(background) })
	e.duties.Go(func() { e.tickLoop(background) })
	e.duties.Go(func() { e.uncertainLoop(background) })
	e.duties.Go(func() { e.noteLoop(background) })
	e.duties.Go(func() { e.reconcileLoop(background) })
	e.duties.Go(func() { e.keyLoop(background) })
	e.duties.Go(func() { e.searchLoop(background, &declares) })
	e.duties.Go(func() { e.cluster.Lead(background, "cleaner", e.clean) })
	e.duties.Go(func() { e.cluster.Monitor(background) })
	e.duties.Go(func() { e.recountLoop(background) })
	e.decide(func(*core.Core, time.Time) {})
	select {
	case <-e.surveyed:
		e.duties.Go(func() { e.cluster.HealAwaited(background) })
		return e, nil
	case <-ctx.Done():
		_ = e.Close(ctx)
		return nil, fmt.Errorf("engine: look through the store: %w", context.Cause(ctx))
	}
}

func newEngine(ctx context.Context, c Config) (*Engine, error) {
	if c.LookAhead == 0 {
		c.LookAhead = DefaultLookAhead
	}
	if c.QueueLookAhead == 0 {
		c.QueueLookAhead = DefaultQueueLookAhead
	}
	if c.LookAhead < 1 || c.QueueLookAhead < 2 {
		return nil, fmt.Errorf("engine: Config.LookAhead is %d (want 1 or more) and QueueLookAhead %d (want 2 or more)", c.LookAhead, c.QueueLookAhead)
	}
	if c.Lease == 0 {
		c.Lease = DefaultLease
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Store == nil {
		return nil, errors.New("engine: Config.Store is missing")
	}
	types := make(map[string]policy.Type)
	for name := range c.Handlers {
		types[name] = policy.DefaultType()
	}
	maps.Copy(types, c.Policies.Types)
	c.Policies.Types = types
	if err := checkValues(&c); err != nil {
		return nil, err
	}
	var err error
	if c.Handlers, err = placed(&c); err != nil {
		return nil, err
	}
	relays := useRelays(&c)
	handled := make(map[string]bool)
	for name := range c.Handlers {
		handled[name] = true
	}
	calls, err := wrapped(&c, c.Handlers)
	if err != nil {
		return nil, err
	}
	chance := mathrand.New(mathrand.NewChaCha8(seed()))
	e := &Engine{
		config: c, store: c.Store, log: c.Log, abilities: abilities{relays: relays},
		handlers: handlers{pools: newPools(c.Handlers)},
		limits:   newLiveLimits(), backlogs: backlogs{droppers: make(map[string]*dropper)},
		reader: reader{wake: wakeup.New(), released: wakeup.New(), from: c.Store, reads: make(map[*read]bool)},
		wakes:  wakes{tick: wakeup.New(), uncertain: wakeup.New(), blocks: wakeup.New()},
		ends: ends{
			failed: make(chan struct{}), surveyed: make(chan struct{}), drained: make(chan struct{}), gone: make(chan struct{}),
		},
	}
	e.handlers.calls.Store(&calls)
	if e.cluster, err = e.newCluster(); err != nil {
		return nil, err
	}
	if e.base, err = timebaseOf(&c); err != nil {
		return nil, err
	}
	if e.contents, err = contentsOf(&c); err != nil {
		return nil, err
	}
	if e.catalog, err = newCatalog(ctx, &c, e.contents, e.Now, e.cluster); err != nil {
		return nil, err
	}
	e.catalog.leaves = relays != nil
	for _, p := range c.Policies.Types {
		if p.Relaxed {
			e.abilities.noSync, _ = c.Store.(storage.NoSyncer)
		}
	}
	maxima, err := e.useBacklogs(c.Policies.Types)
	if err != nil {
		return nil, err
	}
	shellConfig := shell.Config{NoSync: e.abilities.noSync != nil, Backlogs: maxima}
	_, isElsewhere := c.Store.(storage.Shared)
	_, shellConfig.Aside = c.Store.(storage.Locker)
	e.abilities.locks = shellConfig.Aside
	e.lanes = []*lane{newLane(0, !isElsewhere)}
	e.inbox.arrived = e.lanes[0].wake
	if s, ok := c.Store.(storage.Divided); ok {
		shellConfig.Lanes, shellConfig.LaneOf = s.Databases()+1, s.DatabaseOf
		for n := 1; n <= s.Databases(); n++ {
			e.lanes = append(e.lanes, newLane(n, false))
		}
		e.abilities.divided, e.inbox.arrived = s, wakeup.New()
	}
	e.missing.found = wakeup.New()
	e.handlers.workers = workpool.New(e.handle)
	e.progress.store, e.progress.log = c.Store, c.Log
	shellConfig.Core = core.New(core.Config{
		Owner: e.cluster.Incarnation(), Node: task.NodeName(c.Name), Policies: c.Policies, Handled: handled, Pools: e.handlers.pools.of,
		Capacity: c.LookAhead, QueueCapacity: c.QueueLookAhead, Chance: chance.Float64, Report: e.reportOf,
		Layouts: e.catalog.layouts, Regroup: e.catalog.regroup, Placement: e.catalog.placementOf, Permits: c.Coordinator.Semaphore != nil,
		Shared: e.cluster.IsShared(), GrabsHeads: !isElsewhere,
	})
	e.state = state{attempts: make(map[task.ID]*attempt), Shell: shell.New(shellConfig)}
	e.state.clock = clock{base: e.base, stepped: e.stepped}
	e.feedID = e.cluster.Incarnation()
	e.state.feed = feed.New(e.feedID)
	return e, nil
}

// seed returns a seed that cannot be predicted.
func seed() (s [32]byte) {
	rand.Read(s[:])
	return s
}
