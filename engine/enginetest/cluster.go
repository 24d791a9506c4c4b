package enginetest

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// Cluster has the subjects of tests with several nodes: a kind of store, and a kind of
// coordination.
type Cluster struct {
	// New makes a new empty store and a new cluster, and returns a function that connects one more
	// node to both. They end with the test.
	New func(t *testing.T, s Setup) (connect func() *Member)

	// Patience is how long a scenario waits for an event that must happen; 0 is eight minutes. It is less than the time by
	// which the clock of some scenarios is off.
	Patience time.Duration
}

// Setup has the needs of a scenario.
type Setup struct {
	Lease time.Duration // of its members
	Ahead time.Duration // how far the clock that they share is ahead of that of this process
}

// Member has the connections of one node. It shares none with another node.
type Member struct {
	Store storage.Store
	coord.Coordinator

	ToStore       Link // the store
	ToCoordinator Link // Membership and Elector, and ports without a link of their own
	ToBus         Link // of hints to the Bus
	ToLimits      Link // Semaphore and Rates

	// Disconnect closes the connections. The engine that used them is closed.
	Disconnect func()
}

// Link is a network between a node and something that it uses.
type Link interface {
	// Cut has nothing get through any more. The node may get errors, or no answers.
	Cut()
	// Heal has everything get through again that is sent from now on.
	Heal()
}

// The leases of clusters. No lease of a node lapses by itself in a scenario with longLease, however slow
// the machine is. With shortLease one may, and the scenario allows for it.
var (
	longLease  = Setup{Lease: 2 * time.Minute}
	shortLease = Setup{Lease: 3 * time.Second}
)

// clusterScenario tests one promise of several nodes. Its name is a sentence.
type clusterScenario struct {
	name  string
	setup Setup
	run   func(c *cluster)
}

// RunCluster runs every scenario of several nodes, at the same time: they mostly wait. Nodes are engines of
// this process. All of them check that no version of a task is handled twice.
func RunCluster(t *testing.T, c Cluster) {
	if c.Patience == 0 {
		c.Patience = 8 * time.Minute
	}
	for _, scenarios := range [][]clusterScenario{memberScenarios, cutScenarios, togetherScenarios, sharedLimitScenarios, permitScenarios, placeScenarios, searchClusterScenarios} {
		for _, s := range scenarios {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(t.Context(), c.Patience)
				all := &cluster{T: t, ctx: ctx, setup: s.setup, connect: c.New(t, s.setup)}
				all.ledger = newLedger(all.report)
				defer all.end() // before the links end, which do so with the test
				defer cancel()
				if s.setup.Lease == shortLease.Lease {
					all.watching.Go(func() { all.watch(ctx) })
				}
				s.run(all)
				all.finish()
			})
		}
	}
}

// cluster is the state of a scenario of several nodes.
type cluster struct {
	*testing.T
	ctx     context.Context // ends after Cluster.Patience
	setup   Setup
	connect func() *Member
	ledger  *ledger
	peers   []*peer

	watching sync.WaitGroup
	mu       sync.Mutex
	stall    time.Duration // guarded by mu: the longest for which a goroutine did not run that was ready
	faults   []string      // guarded by mu: events that must not happen while no lease lapses
}

// peer is a node of a cluster.
type peer struct {
	*node
	*Member
	name   string
	isDead bool
}

// join starts a node. change, if it is not nil, changes its configuration first.
func (c *cluster) join(set policy.Set, handlers map[string]handle, change func(*peer)) *peer {
	c.Helper()
	p := &peer{Member: c.connect(), name: fmt.Sprint("node ", len(c.peers)+1)}
	p.node = &node{T: c.T, store: p.Store, ledger: c.ledger, ctx: c.ctx, report: c.report}
	p.config = engine.Config{
		Store: p.Store, Name: p.name, Lease: c.setup.Lease, Policies: set, Handlers: make(map[string]task.Handler),
		Coordinator: p.Coordinator,
	}
	for typ, h := range handlers {
		p.config.Handlers[typ] = c.ledger.watch(p.name, h)
	}
	if change != nil {
		change(p)
	}
	c.peers = append(c.peers, p)
	p.open()
	return p
}

// joinAll starts several nodes that are alike, and waits until they know each other.
func (c *cluster) joinAll(count int, set policy.Set, handlers map[string]handle) []*peer {
	c.Helper()
	for range count {
		c.join(set, handlers, nil)
	}
	c.meet()
	return c.peers
}

// meet waits until the nodes that live know each other, and no others.
func (c *cluster) meet() {
	c.Helper()
	living := c.living()
	for _, p := range living {
		p.eventually("the nodes know each other", func() bool { return len(p.Members()) == len(living) })
	}
}

func (c *cluster) living() []*peer {
	return slices.DeleteFunc(slices.Clone(c.peers), func(p *peer) bool { return p.isDead })
}

// kill ends a node as a kill of its process does, as far as the others can see: it writes nothing more, and
// takes leave of nothing.
func (p *peer) kill() {
	p.isDead = true
	for _, l := range p.links() {
		l.Cut()
	}
	_ = p.Store.Close() // its engine stops when it writes the next time
}

func (m *Member) links() []Link { return []Link{m.ToStore, m.ToCoordinator, m.ToBus, m.ToLimits} }

// leave closes a node when its tasks have ended.
func (p *peer) leave() {
	p.Helper()
	p.isDead = true
	p.close()
}

// finish checks the promises at the end of every scenario, and closes the nodes that live.
func (c *cluster) finish() {
	c.Helper()
	for _, p := range c.living() {
		p.eventually("every slot is free and every trigger gone", func() bool {
			s := p.Stats()
			return s.Running == 0 && s.Waiting == 0
		})
	}
	for _, p := range c.living() {
		p.leave()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, fault := range c.faults {
		if c.stall > c.setup.Lease/20 {
			c.Logf("the machine is slow: nothing ran for %v: %s", c.stall, fault)
		} else {
			c.Error(fault)
		}
	}
}

// end closes the rest: nodes that were killed, and all nodes of a scenario that failed.
func (c *cluster) end() {
	c.watching.Wait()
	over, cancel := context.WithCancel(context.Background())
	cancel()
	for _, p := range c.peers {
		for _, l := range p.links() {
			l.Heal() // so that nothing waits for an answer
		}
		if p.Engine != nil {
			_ = p.node.Close(over)
		}
		p.Disconnect()
	}
}

// spread submits tasks at nodes in turn, and returns their ids.
func (c *cluster) spread(nodes []*peer, count int, request func(i int) engine.Request) (ids []task.ID) {
	c.Helper()
	for i := range count {
		ids = append(ids, nodes[i%len(nodes)].submit(request(i))...)
	}
	return ids
}

// ofType makes requests of one type. Each has an ordering key of its own, which binds the task to a shard: so the
// tasks are spread over all nodes.
func ofType(typ string) func(int) engine.Request {
	return func(int) engine.Request { return engine.Request{Type: typ, OrderingKey: rand.Text()} }
}

// haveAllRun checks that each of the nodes has run some of the tasks.
func (c *cluster) haveAllRun(ids []task.ID, nodes ...*peer) {
	c.Helper()
	ran := make(map[string]int)
	for _, id := range ids {
		for _, name := range c.ledger.nodes(id) {
			ran[name]++
		}
	}
	for _, p := range nodes {
		if ran[p.name] == 0 {
			c.report("%s ran none of %d tasks; %v", p.name, len(ids), ran)
		}
	}
}

// report reports an event that must not happen. Where leases are short it may, if a lease lapses because the machine
// is slow: then finish decides.
func (c *cluster) report(format string, args ...any) {
	if c.setup.Lease != shortLease.Lease {
		c.Errorf(format, args...)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = append(c.faults, fmt.Sprintf(format, args...))
}

// watch measures how long goroutines wait for a processor.
func (c *cluster) watch(ctx context.Context) {
	const pulse = 10 * time.Millisecond
	for last := time.Now(); wakeup(ctx, pulse); last = time.Now() {
		c.mu.Lock()
		c.stall = max(c.stall, time.Since(last)-pulse)
		c.mu.Unlock()
	}
}

// gauge returns a gauge of tasks that run at once.
func (c *cluster) gauge(limits map[string]int) *gauge { return newGauge(c.report, limits) }

// wakeup waits, and reports whether ctx goes on.
func wakeup(ctx context.Context, after time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(after):
		return true
	}
}
