package cluster

import (
	"context"
	"errors"
	"slices"
	"strings"
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

// counting is a store that counts how often it is read.
type counting struct {
	*memory.Store
	reads atomic.Int64
}

func (s *counting) Get(ctx context.Context, id task.ID) (*task.Task, error) {
	s.reads.Add(1)
	return s.Store.Get(ctx, id)
}

func (s *counting) Due(ctx context.Context, q storage.DueQuery) ([]storage.Due, error) {
	s.reads.Add(1)
	return s.Store.Due(ctx, q)
}

func (s *counting) Queues(ctx context.Context, after task.Queue, limit int) ([]task.Queue, error) {
	s.reads.Add(1)
	return s.Store.Queues(ctx, after, limit)
}

func (s *counting) UnclaimedPage(ctx context.Context, q storage.UnclaimedQuery) (storage.UnclaimedPage, error) {
	s.reads.Add(1)
	return s.Store.Unclaimed(ctx, q)
}

func (s *counting) Orphans(ctx context.Context, alive []task.ID, after task.ID, scan int) ([]*task.Task, task.ID, error) {
	s.reads.Add(1)
	return s.Store.Orphans(ctx, alive, after, scan)
}

func (s *counting) Setting(ctx context.Context, name string) ([]byte, error) {
	s.reads.Add(1)
	return s.Store.Setting(ctx, name)
}

func TestALoneNodeOwnsAllShardsAndReadsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &counting{Store: newStore(t)} // nodes could share it
		n := open(t, s, nil)
		owned := n.Owned()
		if owned.Any() != nil || n.IsShared() || n.Members() != nil || !n.IsMember() || !n.Proves(n.Incarnation()) {
			t.Errorf("it owns %v; IsShared %t, Members %v, IsMember %t", owned.Any(), n.IsShared(), n.Members(), n.IsMember())
		}
		if got := n.Alive(); !slices.Equal(got, sorted(n)) {
			t.Errorf("alive are %v", got)
		}
		before, incarnation := s.reads.Load(), n.Incarnation()
		time.Sleep(24 * time.Hour)
		n.Drain()
		synctest.Wait()
		if reads := s.reads.Load() - before; reads != 0 {
			t.Errorf("it has read the store %d times within a day", reads)
		}
		if owned = n.Owned(); owned.Any() != nil || n.Incarnation() != incarnation {
			t.Error("it became another")
		}
	})
}

func TestNodesDivideTheShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, first := newStore(t), local.New()
		a := join(t, store, first.Peer(), nil)
		b := join(t, store, first.Peer(), nil)
		check := func(when string, nodes ...*node) {
			t.Helper()
			synctest.Wait()
			for shard := range uint16(task.ShardCount) {
				owners := 0
				for _, n := range nodes {
					if owned := n.Owned(); owned.Has("work", shard) {
						owners++
					}
				}
				if owners != 1 {
					t.Fatalf("%s, shard %d has %d owners", when, shard, owners)
				}
			}
			if got := incarnations(nodes[0].Members()); !slices.Equal(got, sorted(nodes...)) {
				t.Errorf("%s, the members are %v", when, got)
			}
		}
		check("when two have joined", a, b)
		c := join(t, store, first.Peer(), nil)
		check("when a third has joined", a, b, c)
		c.mu.Lock()
		c.draining = true
		c.mu.Unlock()
		c.Drain()
		check("when the third drains", a, b, c)
		if owned := c.Owned(); !owned.Any().IsEmpty() {
			t.Errorf("a node that drains owns %v", owned.Any())
		}
		c.close()
		check("when the third has left", a, b)
		b.close()
		check("when the second has left", a)
	})
}

func TestTheAddressOfANodeReachesTheOthersWheneverItIsSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, first := newStore(t), local.New()
		a := join(t, store, first.Peer(), func(c *Config) { c.Version = "1.2.3" })
		b := join(t, store, first.Peer(), nil)
		a.Advertise("http://a:1")
		synctest.Wait()
		if m := b.view.Load().member(a.Incarnation()); m == nil || m.Address != "http://a:1" || m.Version != "1.2.3" {
			t.Errorf("the other node sees %+v", m)
		}
		b.address.Store(new("http://b:1")) // as if it had joined with the value from before
		b.see(a.Members())
		synctest.Wait()
		if m := a.view.Load().member(b.Incarnation()); m == nil || m.Address != "http://b:1" {
			t.Errorf("the first node sees %+v", m)
		}
	})
}

func TestANodeThatLosesItsLeaseStopsEverythingAndJoinsAsAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, first := newStore(t), local.New()
		n := join(t, store, first.Peer(), nil)
		before := n.Incarnation()
		n.runs(task.Ref{ID: task.ID{1}, Version: 2})
		n.coord.Sever()
		synctest.Wait()
		if owned := n.Owned(); n.IsMember() || n.Members() != nil || n.Alive() != nil || !owned.Any().IsEmpty() || n.count(&n.stops) != 1 {
			t.Errorf("it has members %v, owns %v, and has stopped everything %d times", n.Members(), owned.Any(), n.count(&n.stops))
		}
		row := insert(t, store, ready(7))
		n.hear([]task.Hint{row.Hint()})
		time.Sleep(rejoinAfter / 2)
		if n.wants(row.ID) {
			t.Error("it starts a task though it cannot prove that it is alive")
		}
		submitted := ready(8)
		n.decide(func(c *core.Core, now time.Time) { c.Submit(now, submitted) })
		if submitted.State != task.Submitted {
			t.Error("it starts a task with its submit though it cannot prove that it is alive")
		}
		time.Sleep(rejoinAfter)
		synctest.Wait()
		if now := n.Incarnation(); now == before || !n.IsMember() || !n.IsOurs(before) || !n.IsOurs(now) || n.IsOurs(task.ID{9}) {
			t.Errorf("it was %v and is %v", before, now)
		}
		if !n.wants(row.ID) {
			t.Error("a task that was added in that time is not started")
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		if owner := n.grabs[row.ID]; owner != n.Incarnation() {
			t.Errorf("it is started by %v, which is not the present incarnation", owner)
		}
	})
}

// prover is a membership that may not be able to prove that a member is alive.
type prover struct {
	coord.Membership
	proves atomic.Bool
}

func (p *prover) Proves(task.ID) bool { return p.proves.Load() }

func TestANodeThatCannotProveThatItIsAliveKnowsNoLivingNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &prover{Membership: local.New()}
		n := open(t, newStore(t), func(c *Config) { c.Coordinator.Membership = p })
		if n.Alive() != nil || n.Proves(n.Incarnation()) {
			t.Errorf("alive are %v", n.Alive())
		}
		p.proves.Store(true)
		if got := n.Alive(); !slices.Equal(got, sorted(n)) {
			t.Errorf("alive are %v", got)
		}
	})
}

func TestAMembershipNeedsAStoreThatNodesCanShare(t *testing.T) {
	type unshared struct{ storage.Store } // which hides all else
	_, err := New(Config{Store: unshared{newStore(t)}, Coordinator: local.New().Coordinator(), IDs: ids})
	if err == nil || !strings.Contains(err.Error(), "shared") {
		t.Errorf("got %v", err)
	}
}

func TestJoinedEndsWithItsContext(t *testing.T) {
	k, err := New(Config{Store: newStore(t), IDs: ids})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	cancel(why)
	if err := k.Joined(ctx); !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
}

func TestADutyThatEndsBeginsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := open(t, newStore(t), nil)
		ctx, cancel := context.WithCancel(t.Context())
		begun := 0
		n.Lead(ctx, "duty", func(ctx context.Context) error {
			if begun++; begun < 5 {
				return errors.New("the store is away")
			}
			cancel()
			<-ctx.Done()
			return ctx.Err()
		})
		if begun != 5 {
			t.Errorf("it began %d times", begun)
		}
	})
}

func TestANodeSaysWhereATaskIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, first := newStore(t), local.New()
		a := join(t, store, first.Peer(), nil)
		b := join(t, store, first.Peer(), func(c *Config) { c.Name = "b" })
		synctest.Wait()
		ours, theirs := uint16(task.ShardCount), uint16(task.ShardCount)
		for shard := range uint16(task.ShardCount) {
			if owned := a.Owned(); owned.Has("work", shard) {
				ours = shard
			} else {
				theirs = shard
			}
		}
		for _, c := range []struct {
			name string
			row  task.Task
			at   Location
			node string
		}{
			{"runs on b", task.Task{State: task.Processing, Owner: b.Incarnation()}, RunsThere, "b"},
			{"runs on a dead node", task.Task{State: task.Processing, Owner: task.ID{9}}, RunnerGone, ""},
			{"of a", task.Task{Type: "work", State: task.Submitted, Shard: ours}, Here, ""},
			{"of b", task.Task{Type: "work", State: task.Submitted, Shard: theirs}, StartsThere, "b"},
		} {
			if at, node := a.Locate(&c.row); at != c.at || node.Name != c.node {
				t.Errorf("a task that %s is at %d of %q, want %d of %q", c.name, at, node.Name, c.at, c.node)
			}
		}
	})
}

func TestAViewRemembersWhenAMemberLeft(t *testing.T) {
	a, b := coord.Member{Incarnation: task.ID{1}}, coord.Member{Incarnation: task.ID{2}}
	begin := time.Now()
	at := func(hours float64) time.Time { return begin.Add(time.Duration(hours * float64(time.Hour))) }
	v := (&view{incarnation: a.Incarnation}).withMembers([]coord.Member{a, b}, nil, at(0))
	check := func(when string, want time.Time) {
		t.Helper()
		if got := v.left[b.Incarnation]; !got.Equal(want) {
			t.Errorf("%s, it left at %v, want %v", when, got, want)
		}
	}
	v = v.withMembers([]coord.Member{a}, nil, at(1))
	check("when it has left", at(1))
	v = v.withMembers([]coord.Member{a}, nil, at(1.5))
	check("while it is away", at(1))
	v = v.withMembers([]coord.Member{a, b}, nil, at(1.7))
	check("when it is back", time.Time{})
	v = v.withMembers([]coord.Member{a}, nil, at(2)).withMembers([]coord.Member{a}, nil, at(3))
	check("long after it has left", time.Time{})
}
