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

// treesAtOnce is how many random trees grow at a time.
const treesAtOnce = 8

// Trees are random trees of tasks with signals, of type "tree", which grow one after the other on a node of this process and on nodes that are
// programs of their own.
type Trees struct {
	node   *node
	forest *forest

	enough   chan struct{} // closed when no more trees are to begin
	end      context.CancelFunc
	deciding sync.WaitGroup // of people
	growing  sync.WaitGroup // of the goroutine that has trees begin, and those that send signals
	ids      []task.ID      // of the roots; owned by the goroutine that has trees begin while it goes on
}

// TreeHandler returns the handler of the tasks of random trees, for a program of its own. It calls faulted for each fault that it finds.
func TreeHandler(seed uint64, faulted func(format string, args ...any)) func(context.Context, *task.Task) ([]byte, error) {
	return newForest(seed, faulted, nil).handle
}

// GrowTrees opens a node with the store and the coordinator of config, and has trees grow until [Trees.End] is called. The caller closes
// the store and the coordinator after the test.
func GrowTrees(t *testing.T, config engine.Config, seed uint64) *Trees {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	n := &node{T: t, store: config.Store, config: config, ctx: ctx, ledger: newLedger(t.Errorf)}
	g := &Trees{node: n, forest: newForest(seed, t.Errorf, n.opened), enough: make(chan struct{})}
	n.start(types(20, untilDone, "tree"), map[string]handle{"tree": g.forest.handle})
	acting, end := context.WithCancel(ctx)
	g.end = end
	t.Cleanup(func() {
		cancel()
		g.growing.Wait()
		g.deciding.Wait()
		if n.Engine != nil { // the test failed
			_ = n.Close(ctx)
		}
	})
	g.deciding.Go(func() { g.forest.people(acting, n.store.(storage.Inspector)) })
	g.growing.Go(func() { g.grow(ctx, uint64(0)) })
	return g
}

// grow has one tree after the other begin.
func (g *Trees) grow(ctx context.Context, number uint64) {
	for ; ctx.Err() == nil; number++ {
		select {
		case <-g.enough:
			return
		default:
		}
		r, extra := g.forest.request(number)
		r.ID = task.NewIDs([32]byte{byte(g.forest.seed), byte(number), byte(number >> 8)}).Next(time.Now())
		_, err := g.node.Submit(ctx, r)
		for err != nil && ctx.Err() == nil {
			_, err = g.node.Submit(ctx, r)
		}
		g.ids = append(g.ids, r.ID)
		g.growing.Go(func() { g.forest.signals(ctx, r.ID, extra) })
		if n := len(g.ids) - treesAtOnce; n >= 0 {
			_ = g.node.WaitTasks(ctx, g.ids[n]) // End looks at its end
		}
	}
}

// End waits until all trees have ended, and checks that each is as its model says. It closes the node, and returns how many tasks there were.
func (g *Trees) End() int {
	n := g.node
	n.Helper()
	close(g.enough)
	g.growing.Wait()
	n.wait(g.ids...)
	all := g.forest.ended(n)
	g.forest.verify(all)
	g.end()
	g.deciding.Wait()
	n.close()
	n.Logf("%d trees of %d tasks", len(g.ids), len(all))
	return len(all)
}
