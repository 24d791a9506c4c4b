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
	"sync/atomic"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/engine/internal/cluster"
	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/engine/policy"
	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/internal/ratelog"
	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/internal/workpool"
	"github.com/taskengine/taskengine/storage"
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
	Handlers map[string]task.Handler // by type
	Elector  coord.Elector           // who does what one node should do; nil for this one
	Name     string                  // name of the node, shown to people
	Labels   map[string]string       // other facts about the node, shown to people

	// Several nodes may share a store that is a [storage.Shared]. Membership reports which of them
	// are alive; it is nil if this is the only node. Bus carries hints between nodes. If it is nil,
	// a node finds within about a second the tasks that other nodes have added for it.
	Membership coord.Membership
	Bus        coord.Bus
	Lease      time.Duration // how long a member is believed to be alive; 0 is DefaultLease

	Log      *slog.Logger // nil for none
	Observer Observer     // called at events
	TaskLog  TaskLog      // gets what handlers log about their tasks; nil for none

	LookAhead      int // triggers in memory at most; 0 is 100 000
	QueueLookAhead int // triggers of one type and group in memory at most; 0 is 1000
}

// Engine runs tasks. Its methods are safe for concurrent use.
type Engine struct {
	config   Config
	store    storage.Store
	log      *slog.Logger
	ids      *task.IDs
	types    map[string]*typeInfo // read only
	unknown  *typeInfo            // for types that are not configured; read only
	noSyncer storage.NoSyncer     // makes relaxed grabs; nil if no type is relaxed, or the store cannot; read only
	divided  bool                 // several databases hold the tasks; read only
	layouts  map[string][]string  // by type, the sources of the values of groups; read only

	pools   pools            // handlers with a limited number of slots
	cluster *cluster.Cluster // the other nodes

	warnings warnings // found with mu held, to be logged without it

	inbox    inbox                    // events that the core does not know yet
	workers  *workpool.Pool[*attempt] // call the handlers
	progress progressBuffer           // writes the progress that handlers report

	turn sync.Mutex // held while a writer decides what is in a batch and gives it to the store; locked before mu

	mu             sync.Mutex
	core           *core.Core                 // guarded by mu
	clock          clock                      // guarded by mu
	effects        core.Ready                 // guarded by mu: buffers of takeEffects
	pending        batch                      // guarded by mu: what the next batch is filled from
	reads          reads                      // guarded by mu: what the reader is to read
	attempts       map[task.ID]*attempt       // guarded by mu: attempts whose handlers run
	begun          []*attempt                 // guarded by mu: buffer of takeEffects
	newSubmissions []*submission              // guarded by mu: buffer of drainInbox
	newEndings     []ending                   // guarded by mu: buffer of drainInbox
	waiters        waiters                    // guarded by mu
	armed          time.Time                  // guarded by mu: when the ticker wakes
	writing        [writers][]core.Save       // guarded by mu: by writer, the saves in its batch
	delayedSaves   []core.Save                // guarded by mu: saves that are tried again after saveRetry
	stuck          map[task.Ref]*stuck        // guarded by mu: saves that the store refuses
	stuckBytes     int                        // guarded by mu: of the results in stuck
	refusals       map[task.ID]*refusal       // guarded by mu: grabs that the store has refused and has not made since
	lastProgress   map[task.Ref]task.Progress // guarded by mu: of attempts that have ended, until their save is written
	health         health                     // guarded by mu: whether the store can be written
	uncertain      uncertainTasks             // guarded by mu: tasks whose rows may differ from what the core knows
	finishings     map[task.Ref]*finishing    // guarded by mu: attempts whose tasks a transaction may have finished, until their save is answered
	closing        bool                       // guarded by mu: no task is accepted or started
	isSurveyed     bool                       // guarded by mu: surveyed is closed
	isDrained      bool                       // guarded by mu: drained is closed
	failure        error                      // guarded by mu: why the engine has failed
	stopCause      error                      // guarded by mu: why new attempts are stopped at once; nil if they are not

	write   wakeup.Signal // wakes a writer
	read    wakeup.Signal // wakes the reader
	rearm   wakeup.Signal // wakes the ticker
	check   wakeup.Signal // wakes uncertainLoop
	unstick wakeup.Signal // wakes stuckLoop

	failed   chan struct{} // closed with failure
	surveyed chan struct{} // closed when the core has surveyed the store
	drained  chan struct{} // closed when the engine is closing and no task has a slot or a pending save
	gone     chan struct{} // closed when Close has ended all work

	// Reused for their channels. A submission whose caller has gone is not reused: a writer may
	// still have it.
	submissions sync.Pool

	down        atomic.Pointer[time.Time] // since when the store cannot be written; nil while it can
	partDownLog ratelog.Limiter           // a part of the store cannot be written
	unreadLog   ratelog.Limiter           // the store cannot be read
	slowedLog   ratelog.Limiter           // a task asks to run again at once, repeatedly
	refusedLog  ratelog.Limiter           // the store refuses an item that is committed separately

	stop   context.CancelFunc // ends the background work
	duties sync.WaitGroup     // writers, reader, ticker, roles
	closed sync.Once
}

// Defaults of [Config].
const (
	DefaultLookAhead      = 100_000
	DefaultQueueLookAhead = 1000
)

// writers is how many commits may be under way at once: one waits for its sync while the next
// is prepared.
const writers = 2

// Open starts an engine on the tasks of a store. Before Open returns, it decides about the tasks
// that ran when the store was last used. ctx bounds the opening, not the engine, which runs
// until [Engine.Close].
func Open(ctx context.Context, c Config) (*Engine, error) {
	if problems := c.Policies.Check(); len(problems) > 0 {
		return nil, fmt.Errorf("engine: %d problems with the policies, the first: %s", len(problems), problems[0])
	}
	e, err := newEngine(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := checkHome(ctx, e.store); err != nil {
		return nil, err
	}
	if err := e.cluster.Heal(ctx); err != nil {
		return nil, fmt.Errorf("engine: recover what ran before: %w", err)
	}
	if err := e.cluster.LoadPauses(ctx); err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	if err := e.tellRules(ctx); err != nil {
		return nil, err
	}
	e.pools.use(&e.inbox, e.write)
	background, stop := context.WithCancel(context.Background())
	e.stop = stop
	e.duties.Go(func() { e.cluster.Run(background) })
	if err := e.cluster.Joined(ctx); err != nil {
		stop()
		e.duties.Wait()
		e.pools.leave()
		return nil, fmt.Errorf("engine: %w", err)
	}
	for i := range writers {
		e.duties.Go(func() { e.writeLoop(background, i) })
	}
	e.duties.Go(func() { e.readLoop(background) })
	e.duties.Go(func() { e.tickLoop(background) })
	e.duties.Go(func() { e.uncertainLoop(background) })
	e.duties.Go(func() { e.reconcileLoop(background) })
	e.duties.Go(func() { e.stuckLoop(background) })
	e.duties.Go(func() { e.cluster.Lead(background, "cleaner", e.clean) })
	e.duties.Go(func() { e.cluster.Monitor(background) })
	e.decide(func(*core.Core, time.Time) {})
	select {
	case <-e.surveyed:
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
	handled, types := make(map[string]bool), make(map[string]policy.Type)
	for name := range c.Handlers {
		handled[name], types[name] = true, policy.DefaultType()
	}
	maps.Copy(types, c.Policies.Types)
	c.Policies.Types = types
	var seed [32]byte
	rand.Read(seed[:])
	ids := task.NewIDs(seed)
	rand.Read(seed[:])
	chance := mathrand.New(mathrand.NewChaCha8(seed))
	e := &Engine{
		config: c, store: c.Store, log: c.Log, ids: ids,
		types:      make(map[string]*typeInfo),
		unknown:    newTypeInfo(policy.Set{}, policy.DefaultType(), nil),
		attempts:   make(map[task.ID]*attempt),
		finishings: make(map[task.Ref]*finishing), stuck: make(map[task.Ref]*stuck), refusals: make(map[task.ID]*refusal), lastProgress: make(map[task.Ref]task.Progress),
		write: wakeup.New(), read: wakeup.New(), rearm: wakeup.New(), check: wakeup.New(), unstick: wakeup.New(),
		failed: make(chan struct{}), surveyed: make(chan struct{}), drained: make(chan struct{}), gone: make(chan struct{}),
	}
	var err error
	if e.cluster, err = e.newCluster(); err != nil {
		return nil, err
	}
	if e.layouts, err = layouts(ctx, &c, e.cluster.IsShared()); err != nil {
		return nil, err
	}
	_, e.divided = c.Store.(storage.ShardBound)
	for _, p := range c.Policies.Types {
		if p.Relaxed {
			e.noSyncer, _ = c.Store.(storage.NoSyncer)
		}
	}
	e.submissions.New = newSubmission
	e.workers = workpool.New(e.handle)
	e.progress.store, e.progress.log = c.Store, c.Log
	for name, p := range c.Policies.Types {
		e.types[name] = newTypeInfo(c.Policies, p, e.layouts[name])
	}
	e.pools = newPools(c.Handlers)
	e.core = core.New(core.Config{
		Owner: e.cluster.Incarnation(), Policies: c.Policies, Handled: handled, Pools: e.pools.of,
		Capacity: c.LookAhead, QueueCapacity: c.QueueLookAhead, Chance: chance.Float64,
		Layouts: e.layouts, Regroup: e.regroup,
	})
	e.clock.stepped = e.core.Step
	return e, nil
}

// decide calls fn to pass events to the core, and dispatches the effects. fn must not wait.
func (e *Engine) decide(fn func(c *core.Core, now time.Time)) {
	e.mu.Lock()
	e.drainInbox()
	fn(e.core, e.clock.now())
	e.dispatch()
	e.mu.Unlock()
}

// dispatch passes the effects of the core to the goroutines that carry them out. It is called
// with mu held, after every event that was passed to the core.
func (e *Engine) dispatch() {
	e.takeEffects()
	if !e.pending.empty() {
		e.write.Set()
	}
}

// takeEffects is dispatch for a writer, which takes what is pending itself.
func (e *Engine) takeEffects() {
	r := &e.effects
	e.core.Take(r)
	e.pending.grabs = append(e.pending.grabs, r.Grabs...)
	e.pending.relaxed = append(e.pending.relaxed, r.Relaxed...)
	e.pending.saves = append(e.pending.saves, r.Saves...)
	if len(r.Loads)+len(r.Scans)+len(r.DueLoads) > 0 {
		e.reads.add(r)
		e.read.Set()
	}
	if len(r.Hints) > 0 {
		e.cluster.Hint(r.Hints)
	}
	for _, s := range r.Stops {
		if a, ok := e.attempts[s.ID]; ok {
			a.stop(s.Cause)
		}
	}
	for _, w := range r.Wants {
		e.pools.uses[w.Pool].Want(w.Tasks)
	}
	if len(r.Runs) > 0 {
		for _, run := range r.Runs {
			e.begin(run)
		}
		e.workers.Add(e.begun...)
		clear(e.begun)
		e.begun = e.begun[:0]
	}
	if !e.isSurveyed && e.core.Surveyed() {
		e.isSurveyed = true
		close(e.surveyed)
	}
	if e.closing && !e.isDrained && e.core.Busy() == 0 && e.core.Saving() == len(e.stuck) && e.pending.empty() && len(e.delayedSaves) == 0 {
		e.isDrained = true
		close(e.drained)
	}
	if wake := e.core.Wake(); !wake.IsZero() && (e.armed.IsZero() || wake.Before(e.armed)) {
		e.armed = wake
		e.rearm.Set()
	}
}

// sleep waits for d. It returns the error of ctx if that ends first.
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
