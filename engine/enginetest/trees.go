package enginetest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

const (
	treesAtOnce = 8 // how many random trees grow at a time, with a node of this process
	treesByAPI  = 6 // likewise, without one

	// fewestTrees is how many grow at least: it is certain that some of their tasks fail or are cancelled, as the checker demands.
	fewestTrees = 16

	decideEvery = 5 * time.Millisecond  // how often people look for tasks of trees in this process
	askEvery    = 50 * time.Millisecond // likewise, by an API
)

// TreePeople are the calls of people about tasks of trees. An [engine.Engine] has them.
type TreePeople interface {
	Signal(ctx context.Context, s engine.Signal) (engine.SignalOutcome, *task.Task, error)
	Cancel(ctx context.Context, ref task.Ref, reason string) (*task.Task, error)
	Fail(ctx context.Context, ref task.Ref, reason string) (*task.Task, error)
	Resume(ctx context.Context, ref task.Ref) (*task.Task, error)
}

// TreeNodes are the nodes that run random trees, as the test reaches them: by an engine of its own process, or by their API. A call may fail while
// they do not answer, and is repeated then.
type TreeNodes interface {
	TreePeople

	// Submit adds tasks with ids, of which some may exist.
	Submit(ctx context.Context, reqs ...engine.Request) ([]engine.Receipt, error)
	// WaitTasks returns when the tasks have ended, or are in error.
	WaitTasks(ctx context.Context, ids ...task.ID) error
	// List returns the tasks of a type in some states, with their ids, versions, states, errors, parents and the names that they wait for.
	List(ctx context.Context, typ string, states ...task.State) ([]*task.Task, error)
}

// Trees are random trees of tasks with signals, of type "tree", which grow one after the other.
type Trees struct {
	t      testing.TB
	ctx    context.Context
	nodes  TreeNodes
	forest *forest

	enough   chan struct{} // closed when no more trees are to begin, but for fewestTrees
	end      context.CancelFunc
	deciding sync.WaitGroup // of people
	growing  sync.WaitGroup // of the goroutine that has trees begin, and those that send signals
	ids      []task.ID      // of the roots; owned by the goroutine that has trees begin while it goes on
}

// TreeHandler returns the handler of the tasks of random trees, for a program of its own. It calls faulted for each fault that it finds.
func TreeHandler(seed uint64, faulted func(format string, args ...any)) func(context.Context, *task.Task) ([]byte, error) {
	return newForest(seed, faulted, nil).handle
}

// GrowTrees has trees grow on nodes that are programs of their own, until [Trees.Settle] is called.
func GrowTrees(t testing.TB, nodes TreeNodes, seed uint64) *Trees {
	t.Helper()
	g := newTrees(t, nodes, newForest(seed, t.Errorf, func() TreePeople { return nodes }))
	g.begin(treesByAPI, askEvery)
	return g
}

// GrowTreesWith opens a node with the store and the coordinator of config, and has trees grow on that and on nodes that are programs of their own, until
// [Trees.Settle] is called. The caller closes the store and the coordinator after the test.
func GrowTreesWith(t *testing.T, config engine.Config, seed uint64) *Trees {
	t.Helper()
	n := &node{T: t, store: config.Store, config: config, ctx: t.Context(), ledger: newLedger(t.Errorf)}
	f := newForest(seed, t.Errorf, n.treePeople)
	n.start(types(20, untilDone, "tree"), map[string]handle{"tree": f.handle})
	t.Cleanup(func() {
		if err := n.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	g := newTrees(t, ownNode{n.Engine, listIn(n.store)}, f)
	g.begin(treesAtOnce, decideEvery)
	return g
}

func newTrees(t testing.TB, nodes TreeNodes, f *forest) *Trees {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	g := &Trees{t: t, ctx: ctx, nodes: nodes, forest: f, enough: make(chan struct{})}
	t.Cleanup(func() {
		cancel()
		g.growing.Wait()
		g.deciding.Wait()
	})
	return g
}

// begin has so many trees grow at a time, and people look for their tasks each time that every has passed.
func (g *Trees) begin(atOnce int, every time.Duration) {
	acting, end := context.WithCancel(g.ctx)
	g.end = end
	g.deciding.Go(func() { g.forest.decides(acting, every, g.nodes.List) })
	g.growing.Go(func() { g.grow(atOnce) })
}

// grow has one tree after the other begin.
func (g *Trees) grow(atOnce int) {
	for number := uint64(0); g.ctx.Err() == nil; number++ {
		select {
		case <-g.enough:
			if number >= fewestTrees {
				return
			}
		default:
		}
		r, extra := g.forest.request(number)
		r.ID = task.NewIDs([32]byte{byte(g.forest.seed), byte(number), byte(number >> 8)}).Next(time.Now())
		_, err := g.nodes.Submit(g.ctx, r)
		for err != nil && g.ctx.Err() == nil {
			_, err = g.nodes.Submit(g.ctx, r)
		}
		g.ids = append(g.ids, r.ID)
		g.growing.Go(func() { g.forest.signals(g.ctx, r.ID, extra) })
		if n := len(g.ids) - atOnce; n >= 0 {
			_ = g.nodes.WaitTasks(g.ctx, g.ids[n]) // Settle looks at its end
		}
	}
}

// Settle has no more trees begin, and waits until all tasks have ended and no signal is on its way.
func (g *Trees) Settle() {
	g.t.Helper()
	close(g.enough)
	g.growing.Wait()
	var live, carriers []*task.Task
	for {
		var err, other error
		live, err = g.nodes.List(g.ctx, "tree", task.Waiting, task.Submitted, task.Processing, task.Error)
		if err == nil && len(live) == 0 {
			carriers, other = g.nodes.List(g.ctx, task.RelayType, task.Waiting, task.Submitted, task.Processing, task.Error)
		}
		if err == nil && other == nil && len(live)+len(carriers) == 0 {
			break
		}
		if !wakeup(g.ctx, askEvery) {
			g.t.Fatalf("these tasks of trees do not end: %+v, nor do these signals: %+v; %v, %v", live, carriers, err, other)
		}
	}
	g.end()
	g.deciding.Wait()
}

// Verify checks in the store that each tree is as its model says. It is called after Settle.
func (g *Trees) Verify(store storage.Store) {
	g.t.Helper()
	rows, err := listIn(store)(g.ctx, "tree")
	if err != nil {
		g.t.Fatal(err)
	}
	all := make(map[task.ID]*task.Task)
	for _, t := range rows {
		if all[t.ID], err = store.Get(g.ctx, t.ID); err != nil {
			g.t.Fatal(err)
		}
	}
	g.forest.verify(all)
	for _, id := range g.ids {
		if t := all[id]; t == nil || t.State != task.Done {
			g.t.Errorf("the root %v is %+v", id, t)
		}
	}
	g.t.Logf("%d trees of %d tasks", len(g.ids), len(all))
}

// listTrees is [TreeNodes.List].
type listTrees = func(ctx context.Context, typ string, states ...task.State) ([]*task.Task, error)

// listIn returns the list of a store.
func listIn(store storage.Store) listTrees {
	return func(ctx context.Context, typ string, states ...task.State) ([]*task.Task, error) {
		page, err := store.(storage.Inspector).List(ctx, storage.ListQuery{Filter: storage.Filter{Types: []string{typ}, States: states}, Limit: 10_000, Scan: 100_000})
		return page.Tasks, err
	}
}

// ownNode is a node of this process.
type ownNode struct {
	*engine.Engine
	list listTrees
}

// List implements [TreeNodes].
func (n ownNode) List(ctx context.Context, typ string, states ...task.State) ([]*task.Task, error) {
	return n.list(ctx, typ, states...)
}

// treePeople returns the engine of n.
func (n *node) treePeople() TreePeople { return n.opened() }
