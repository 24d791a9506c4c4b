package cluster

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/local"
	"github.com/taskengine/taskengine/task"
)

// choosing is a bus that passes all hints and notes which are wanted.
type choosing struct {
	*local.Node
	mu     sync.Mutex
	wanted *task.Shards // guarded by mu
}

func (c *choosing) Want(shards *task.Shards) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wanted = nil
	if shards != nil {
		own := *shards
		c.wanted = &own
	}
}

func (c *choosing) get() *task.Shards {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wanted
}

func (c *choosing) BusStatus() coord.BusStatus { return coord.BusStatus{Down: errors.New("cut")} }

func TestANodeWantsTheHintsOfItsShardsAndOfThoseInWhichItRunsTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, first := newStore(t), local.New()
		bus := &choosing{Node: first.Peer()}
		a := open(t, store, func(c *Config) { c.Coordinator.Membership, c.Coordinator.Bus = first, bus })
		synctest.Wait()
		if w := bus.get(); !w.Has(0) || len(w.List()) != task.ShardCount {
			t.Errorf("a node without others wants %v", w)
		}
		if s, ok := a.BusStatus(); !ok || s.Down == nil {
			t.Errorf("its bus is %+v, %t", s, ok)
		}
		b := join(t, store, first.Peer(), nil)
		synctest.Wait()
		if w := bus.get(); len(w.List()) != task.ShardCount {
			t.Errorf("a node that may still run tasks of shards that it has lost wants %v", w)
		}
		owned, others := a.Owned(), b.Owned()
		lost := task.ID{15: byte(others.Any().List()[0])}
		if lost.Shard() != others.Any().List()[0] {
			t.Fatalf("%v is of shard %d", lost, lost.Shard())
		}
		ref := task.Ref{ID: lost, Version: 1}
		a.runs(ref)
		time.Sleep(2 * pollEvery)
		var with task.Shards
		with.Add(lost.Shard())
		if w, want := bus.get(), owned.Any().With(&with); w == nil || *w != want {
			t.Errorf("a node that runs a task of a shard that it has lost wants %v, want %v", w, want)
		}
		a.mu.Lock()
		delete(a.running, ref)
		a.mu.Unlock()
		time.Sleep(2 * pollEvery)
		if w := bus.get(); w == nil || *w != *owned.Any() {
			t.Errorf("a node that owns %v wants %v", owned.Any(), w)
		}
	})
}

func TestABusThatCannotFailHasNoStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := join(t, newStore(t), local.New(), nil)
		if s, ok := n.BusStatus(); ok {
			t.Errorf("its bus is %+v", s)
		}
	})
}
