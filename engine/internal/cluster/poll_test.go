package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/local"
	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

// other returns a shard that belongs to another node.
func (n *node) other() uint16 {
	owned := n.Owned()
	for shard := range uint16(task.ShardCount) {
		if !owned.Has("work", shard) {
			return shard
		}
	}
	n.t.Fatal("it owns all")
	return 0
}

func TestAHintReachesTheNodeThatOwnsTheShard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, first := newStore(t), local.New()
		a := join(t, store, first.Peer(), nil)
		b := join(t, store, first.Peer(), nil)
		synctest.Wait()
		row := insert(t, store, ready(a.other()))
		a.decide(func(c *core.Core, now time.Time) { c.Changed(now, row) }) // as after a person changed it on a
		synctest.Wait()
		if !b.wants(row.ID) || a.wants(row.ID) {
			t.Errorf("started by a: %t, by b: %t", a.wants(row.ID), b.wants(row.ID))
		}
	})
}

func TestHintsAreKeptForOtherNodesOnlyAndUpToABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hints := make([]task.Hint, maxHints/2+1)
		alone := open(t, newStore(t), nil)
		alone.Hint(hints)
		if kept := len(alone.outbox.take(nil)); kept != 0 {
			t.Errorf("a node that is alone keeps %d hints", kept)
		}
		var o outbox
		o.add(hints)
		o.add(hints)
		if kept := len(o.take(nil)); kept != maxHints {
			t.Errorf("%d hints are kept", kept)
		}
	})
}

func TestAPollFindsTasksWithoutAHint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, first := newStore(t), local.New()
		a := join(t, store, first.Peer(), nil)
		b := join(t, store, first.Peer(), nil)
		time.Sleep(time.Minute)
		for shard := range uint16(8) {
			soon := ready(shard)
			soon.State, soon.NextEventAt, soon.ReadyAt = task.Waiting, time.Now().Add(2*time.Second), time.Now().Add(2*time.Second)
			rows := []*task.Task{insert(t, store, ready(shard)), insert(t, store, soon)}
			time.Sleep(5 * time.Second)
			synctest.Wait()
			owned := a.Owned()
			for _, row := range rows {
				if isOurs := owned.Has("work", shard); a.wants(row.ID) != isOurs || b.wants(row.ID) == isOurs {
					t.Errorf("a %v task of shard %d is started by a: %t, by b: %t; it belongs to a: %t", row.State, shard, a.wants(row.ID), b.wants(row.ID), isOurs)
				}
			}
		}
	})
}

// hanging is a store that answers polls late while it hangs.
type hanging struct {
	*memory.Store
	takes atomic.Int64 // how long an answer takes
	fails atomic.Bool  // it is an error
}

func (s *hanging) Unclaimed(ctx context.Context, q storage.UnclaimedQuery) (storage.UnclaimedPage, error) {
	takes, fails := time.Duration(s.takes.Load()), s.fails.Load()
	time.Sleep(takes)
	if fails {
		return storage.UnclaimedPage{}, errors.New("no connection")
	}
	return s.Store.Unclaimed(ctx, q)
}

func TestAPollIsNotPutOffByAnOutageThatIsOver(t *testing.T) {
	const takes = 15 * time.Second
	for name, c := range map[string]struct {
		fails  bool
		outage time.Duration
	}{
		"answers fail":     {true, 10 * time.Minute},
		"one answer fails": {true, takes},
		"answers are late": {false, takes},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &hanging{Store: newStore(t)}
				n := join(t, store, local.New().Peer(), nil)
				time.Sleep(time.Minute)
				store.takes.Store(int64(takes))
				store.fails.Store(c.fails)
				time.Sleep(c.outage)
				store.takes.Store(0)
				store.fails.Store(false)
				time.Sleep(takes + 2*time.Second) // the last answer of the outage has come
				row := insert(t, store, ready(0))
				time.Sleep(3 * time.Second)
				synctest.Wait()
				if !n.wants(row.ID) {
					t.Error("a task without a hint is not found")
				}
			})
		})
	}
}

func TestPollsOfABusyStoreAreRare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &hanging{Store: newStore(t)}
		n := join(t, store, local.New().Peer(), nil)
		store.takes.Store(int64(10 * time.Second))
		time.Sleep(time.Minute)
		row := insert(t, store, ready(0))
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if n.wants(row.ID) {
			t.Error("it polls more than a twentieth of the time")
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if !n.wants(row.ID) {
			t.Error("a task without a hint is not found")
		}
	})
}

func TestAWakeUpHasTheStorePolledAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, first := newStore(t), local.New()
		n := join(t, store, first.Peer(), nil)
		time.Sleep(10500 * time.Millisecond) // between two polls
		for i, wake := range []task.Hint{coord.Wake(3), coord.WakeAll()} {
			row := ready(3)
			row.Group = task.GroupOf(fmt.Sprint(i)) // the head of a queue
			insert(t, store, row)
			synctest.Wait()
			if n.wants(row.ID) {
				t.Fatalf("%d: it was found before the node was woken", i)
			}
			if err := first.Publish(t.Context(), wake); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if !n.wants(row.ID) {
				t.Errorf("%d: it was not found at once", i)
			}
		}
	})
}

func TestANodeReadsWhatItGains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, first := newStore(t), local.New()
		a := join(t, store, first.Peer(), nil)
		b := join(t, store, first.Peer(), nil)
		synctest.Wait()
		row := insert(t, store, ready(a.other()))
		later := ready(a.other())
		later.State, later.NextEventAt, later.ReadyAt = task.Waiting, time.Now().Add(time.Hour), time.Now().Add(time.Hour)
		insert(t, store, later)
		b.close()
		synctest.Wait()
		if !a.wants(row.ID) {
			t.Error("a ready task of the node that left is not started at once")
		}
		at := time.Until(later.NextEventAt)
		a.decide(func(c *core.Core, now time.Time) {
			if wake := c.Wake(); wake.IsZero() || wake.After(later.NextEventAt) {
				t.Errorf("the core wakes at %v, and a task is due in %v", wake, at)
			}
		})
	})
}

func TestASurveyFindsWhatIsBehindAHeadThatIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, first := newStore(t), local.New()
		n := join(t, store, first.Peer(), nil)
		head := insert(t, store, ready(0))
		if err := first.Publish(t.Context(), coord.WakeAll()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !n.wants(head.ID) {
			t.Fatal("the head is not known")
		}
		var rows []*task.Task
		for i := range 50 {
			rows = append(rows, insert(t, store, ready(uint16(i)))) // of the same queue as the head
		}
		time.Sleep(3 * time.Second)
		for i, row := range rows {
			if !n.wants(row.ID) {
				t.Errorf("row %d was not found", i)
			}
		}
	})
}

// knows reports whether a ready row is in the memory of the core.
func (n *node) knows(row *task.Task) (known bool) {
	n.decide(func(c *core.Core, _ time.Time) { known = c.Knows(row.Trigger()) && !c.Behind(row.Trigger()) })
	return known
}

// Rows of the best priority do not fit into memory. Those of a lower one come after them in the store,
// and are to start before.
func TestTasksThatHaveAgedAreFoundBehindRowsThatAreLeftToTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, first := newStore(t), local.New()
		a := joinAgeing(t, store, first.Peer())
		b := joinAgeing(t, store, first.Peer())
		synctest.Wait()
		backlog := func(shard uint16) {
			for range 300 {
				row := ready(shard)
				row.Priority = 0
				insert(t, store, row)
			}
		}
		old := func(shard uint16) *task.Task {
			row := ready(shard)
			row.Priority, row.ReadyAt = 9, time.Now().Add(-time.Hour)
			return insert(t, store, row)
		}
		own, other := b.other(), a.other()
		backlog(own)
		time.Sleep(10500 * time.Millisecond) // between two polls
		if row := old(own); a.knows(row) {
			t.Error("a row is known before it can be")
		} else if time.Sleep(3 * time.Second); !a.knows(row) {
			t.Error("a survey did not find it")
		}
		backlog(other)
		row := old(other)
		b.close()
		synctest.Wait()
		if !a.knows(row) {
			t.Error("it was not read when its shard was gained")
		}
	})
}

func TestAnAttemptIsStoppedAfterAnotherNodeHasChangedItsRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, first := newStore(t), local.New()
		n := join(t, store, first.Peer(), nil)
		kept, cancelled, removed := grabbed(t, store, n.Incarnation()), grabbed(t, store, n.Incarnation()), grabbed(t, store, n.Incarnation())
		for _, row := range []*task.Task{kept, cancelled, removed} {
			n.runs(row.Ref())
		}
		time.Sleep(3 * time.Second)
		if n.mu.Lock(); len(n.finished) != 0 {
			t.Errorf("%v are over though nothing has changed", n.finished)
		}
		n.mu.Unlock()
		change(t, store, task.Change{Ref: cancelled.Ref(), To: task.Cancelled, At: time.Now()})
		if _, err := store.Delete(t.Context(), removed.Ref()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		n.mu.Lock()
		defer n.mu.Unlock()
		over := make(map[task.ID]bool)
		for _, id := range n.finished {
			over[id] = true
		}
		if over[kept.ID] || !over[cancelled.ID] || !over[removed.ID] {
			t.Errorf("over are %v", n.finished)
		}
	})
}
