package slicer_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/local"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/timeslice"
)

// counted is a connection to the coordinator that counts the writes of its node.
type counted struct {
	*local.Node
	writes atomic.Int64
}

func (c *counted) Swap(ctx context.Context, name, scope string, version uint64, value []byte) (coord.Setting, bool, error) {
	c.writes.Add(1)
	return c.Node.Swap(ctx, name, scope, version, value)
}

func (c *counted) Order(holder task.ID, orders ...coord.Order) {
	c.writes.Add(1)
	c.Node.Order(holder, orders...)
}

func (c *counted) Draw(ctx context.Context, draws ...coord.Draw) ([]coord.Drawn, error) {
	c.writes.Add(1)
	return c.Node.Draw(ctx, draws...)
}

// by returns the coordinator of a node with this connection.
func (c *counted) by(of coord.Coordinator) coord.Coordinator {
	of.Settings, of.Semaphore, of.Rates = c, c, c
	return of
}

// Nodes that share a store make slices without a write to the coordinator, if the threads of the cluster have no limit.
func TestSlicesOfNodesThatShareAStoreCostTheCoordinatorNothing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		link := local.New()
		c := &counted{Node: link}
		n := &node{t: t, record: new(record), store: memory.New(), coord: link, around: c.by}
		n.open(definition(t, map[string]string{"interval": "1m"}, "a", "b"))
		t.Cleanup(n.close)
		time.Sleep(90 * time.Second)
		n.fetched("a")
		before := c.writes.Load()
		time.Sleep(20 * time.Minute)
		if made, writes := len(n.fetched("a")), c.writes.Load()-before; made != 20 || writes != 0 {
			t.Errorf("%d slices have cost %d writes", made, writes)
		}
	})
}

// A node with a store of its own tells the coordinator how far a platform is, at most once for each slice, and nothing while there are none.
func TestASliceOfANodeWithAStoreOfItsOwnCostsTheCoordinatorOneWrite(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		all := new(notes)
		n := newApart(t, "n1", local.New(), all, definition(t, map[string]string{"interval": "1m"}, "a", "b"))
		time.Sleep(5*time.Minute + 30*time.Second)
		until, before := len(all.of("a"))+len(all.of("b")), n.wire.swaps.Load()
		time.Sleep(20 * time.Minute)
		made, writes := len(all.of("a"))+len(all.of("b"))-until, n.wire.swaps.Load()-before
		if made != 2*20 || writes > int64(made) || writes < int64(made)-2 {
			t.Errorf("%d slices have cost %d writes", made, writes)
		}
		if err := n.sources.Pause(t.Context(), n.Engine, a, by); err != nil {
			t.Fatal(err)
		}
		if err := n.sources.Pause(t.Context(), n.Engine, timeslice.Platform{Source: "orders", Name: "b"}, by); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Minute)
		before = n.wire.swaps.Load()
		time.Sleep(20 * time.Minute)
		if writes := n.wire.swaps.Load() - before; writes != 0 {
			t.Errorf("platforms without slices have cost %d writes", writes)
		}
	})
}
