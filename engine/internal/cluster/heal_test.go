package cluster

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/local"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

func TestWhatRanBeforeIsHealedBeforeALoneNodeStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		var rows []*task.Task
		for range healPage + 1 {
			rows = append(rows, grabbed(t, store, task.ID{9}))
		}
		n := open(t, store, nil)
		for _, row := range rows {
			has(t, store, row.ID, task.Submitted)
			if healed, err := store.Get(t.Context(), row.ID); err != nil || healed.Version != row.Version+1 {
				t.Fatalf("%v, %v: want one change after version %d", healed, err, row.Version)
			}
		}
		if len(n.unhealed.refs) != 0 {
			t.Errorf("%d tasks are left", len(n.unhealed.refs))
		}
	})
}

// unreadable is a store that cannot read a row for a while.
type unreadable struct {
	*memory.Store
	id   task.ID
	away atomic.Bool
}

func (s *unreadable) Get(ctx context.Context, id task.ID) (*task.Task, error) {
	if id == s.id && s.away.Load() {
		return nil, errors.New("a bad block")
	}
	return s.Store.Get(ctx, id)
}

func TestATaskThatCannotBeHealedAtTheStartIsHealedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &unreadable{Store: newStore(t)}
		bad, good := grabbed(t, s, task.ID{9}), grabbed(t, s, task.ID{9})
		s.id = bad.ID
		s.away.Store(true)
		n := open(t, s, nil)
		has(t, s, good.ID, task.Submitted)
		n.HealRest(t.Context())
		s.away.Store(false)
		has(t, s, bad.ID, task.Processing)
		for range 2 { // the second finds out that it is done
			n.HealRest(t.Context())
		}
		has(t, s, bad.ID, task.Submitted)
		if len(n.unhealed.refs) != 0 {
			t.Errorf("%d tasks are left", len(n.unhealed.refs))
		}
	})
}

func TestTheTasksOfAMemberAreHealedWhenItIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, first := newStore(t), local.New()
		stranger := grabbed(t, store, task.ID{9}) // of a node that is in no list of members
		a := join(t, store, first.Peer(), nil)
		b := join(t, store, first.Peer(), nil)
		kept, row := grabbed(t, store, a.Incarnation()), grabbed(t, store, b.Incarnation())
		time.Sleep(a.config.Lease / 4)
		has(t, store, stranger.ID, task.Processing) // its node may just have joined
		time.Sleep(time.Hour)
		has(t, store, stranger.ID, task.Submitted)
		has(t, store, row.ID, task.Processing) // too long is not dead
		b.close()
		time.Sleep(a.config.Lease)
		has(t, store, row.ID, task.Submitted)
		has(t, store, kept.ID, task.Processing)
	})
}

// leased is a membership with a lease of its own.
type leased struct {
	coord.Membership
	lease time.Duration
}

func (l leased) Lease() time.Duration { return l.lease }

func TestAHealerWaitsForTheLeaseThatTheMembershipReallyHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		row := grabbed(t, store, task.ID{9})
		n := open(t, store, func(c *Config) { c.Coordinator.Membership = leased{local.New(), 10 * c.Lease} })
		if n.Lease() != 10*n.config.Lease {
			t.Errorf("its lease is %v", n.Lease())
		}
		time.Sleep(9 * n.config.Lease) // its node may have joined, and this one may not have heard of that yet
		has(t, store, row.ID, task.Processing)
		time.Sleep(3 * n.config.Lease)
		has(t, store, row.ID, task.Submitted)
	})
}

func TestALeaseThatIsNotKnownIsTheOneThatWasAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, m := range []coord.Membership{local.New(), leased{local.New(), 0}} {
			if n := open(t, newStore(t), func(c *Config) { c.Coordinator.Membership = m }); n.Lease() != n.config.Lease {
				t.Errorf("with a %T the lease is %v", m, n.Lease())
			}
		}
	})
}

func TestANodeThatCannotProveThatItIsAliveHealsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		row := grabbed(t, store, task.ID{9})
		p := &prover{Membership: local.New()}
		n := open(t, store, func(c *Config) { c.Coordinator.Membership = p })
		time.Sleep(time.Hour)
		has(t, store, row.ID, task.Processing)
		p.proves.Store(true)
		time.Sleep(healEvery + n.config.Lease)
		has(t, store, row.ID, task.Submitted)
	})
}

// informed is a prover that learns of one more member while it proves that it is alive.
type informed struct {
	*local.Node
	see   func()
	armed atomic.Bool
	more  coord.Member
}

func (m *informed) Join(ctx context.Context, self coord.Member, fn func([]coord.Member)) error {
	return m.Node.Join(ctx, self, func(all []coord.Member) {
		m.see = func() { fn(append(all, m.more)) }
		fn(all)
	})
}

func (m *informed) Proves(task.ID) bool {
	if m.armed.CompareAndSwap(true, false) {
		m.see()
	}
	return true
}

func TestThoseWhoAreAliveAreNotThoseFromBeforeTheProof(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &informed{Node: local.New(), more: coord.Member{Incarnation: task.ID{9}}}
		n := open(t, newStore(t), func(c *Config) { c.Coordinator.Membership = m })
		m.armed.Store(true)
		if alive := n.Alive(); !slices.Contains(alive, m.more.Incarnation) {
			t.Errorf("%v are alive, without a node that joined before it was proved that they are all", alive)
		}
	})
}
