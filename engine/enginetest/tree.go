package enginetest

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// cancelsTrees cancels trees while their tasks add children, some attempts fail and some children are done.
func cancelsTrees(n *node) {
	const roots, depth = 5, 5
	var begun atomic.Int64 // attempts
	n.start(types(20, untilDone, "tree"), map[string]handle{"tree": func(_ context.Context, t *task.Task) ([]byte, error) {
		begun.Add(1)
		if rand.IntN(8) == 0 {
			return nil, errNo
		}
		level, _ := strconv.Atoi(string(t.Payload))
		if level == 0 && t.Parent.Index == 0 && rand.IntN(2) == 0 {
			return nil, task.WaitFor([]string{"never"}, time.Time{}) // one of so many keeps the root from being done
		}
		if level == 0 || t.Woken().By != task.NotWoken {
			return nil, nil
		}
		child := engine.Request{Type: "tree", Payload: strconv.AppendInt(nil, int64(level-1), 10)}
		return nil, all("a", child, child, child)
	}})
	for range roots {
		most := begun.Load() + rand.Int64N(200)
		root := n.submit(engine.Request{Type: "tree", Payload: []byte(strconv.Itoa(depth))})[0]
		n.eventually("the tree has grown", func() bool { return begun.Load() > most })
		heard := 0
		tree, err := n.opened().CancelTree(n.ctx, root, engine.TreeCancel{Cancelled: func(*task.Task) { heard++ }})
		if err != nil || tree.Missing != 0 || tree.Cancelled == 0 || heard != tree.Cancelled || tree.Root.State != task.Cancelled {
			n.Errorf("%d tasks are reported, and it returns %+v, %v", heard, tree, err)
		}
		counts, err := n.opened().Count(n.ctx, storage.Filter{Types: []string{"tree"}})
		if err != nil {
			n.Fatal(err)
		}
		for of, count := range counts {
			if of.State != task.Done && of.State != task.Cancelled && count > 0 {
				n.Errorf("%d tasks of a tree that was cancelled are %v", count, of.State)
			}
		}
		of, cancelled := 0, 0
		for one, err := range n.opened().Tree(n.ctx, root) {
			if err != nil {
				n.Fatal(err)
			}
			if of++; one.Task.State == task.Cancelled {
				cancelled++
			}
		}
		if cancelled != tree.Cancelled {
			n.Errorf("of the %d tasks of the tree %d are cancelled, and it returned %d", of, cancelled, tree.Cancelled)
		}
	}
	n.noSignalsOnTheWay()
}
