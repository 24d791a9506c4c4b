package cells_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/cells"
	"github.com/taskengine/taskengine/task"
)

// outdated is a client with a watch at another server. When that is cut off from the rest, the watch reports no change.
type outdated struct {
	*client
	cutOff atomic.Bool
}

func (o *outdated) Watch(ctx context.Context, prefix string, fn func(cells.Update)) error {
	return o.client.Watch(ctx, prefix, func(u cells.Update) {
		if !o.cutOff.Load() {
			fn(u)
		}
	})
}

func TestANodeThatProvesThatItLivesKnowsWhoHasJoinedThoughItsWatchIsOutdated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		server := &outdated{client: m.connect(nil)}
		a, b := node(t, server), node(t, m.connect(nil))
		var known atomic.Int64
		go func() {
			_ = a.Join(t.Context(), coord.Member{Incarnation: task.ID{1}}, func(all []coord.Member) { known.Store(int64(len(all))) })
		}()
		synctest.Wait()
		server.cutOff.Store(true)
		go func() { _ = b.Join(t.Context(), coord.Member{Incarnation: task.ID{2}}, func([]coord.Member) {}) }()
		synctest.Wait()
		time.Sleep(lease) // a node decides about the tasks of one that it does not know after a lease
		synctest.Wait()
		if n := known.Load(); !a.Proves(task.ID{1}) || n != 2 {
			t.Errorf("it proves that it lives: %v, and knows %d members", a.Proves(task.ID{1}), n)
		}
	})
}

func TestANodeThatHasNotHeardOfAMemberStopsProvingThatItLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		a, b := node(t, m.connect(nil)), node(t, m.connect(nil))
		goOn := make(chan struct{})
		go func() {
			_ = a.Join(t.Context(), coord.Member{Incarnation: task.ID{1}}, func(all []coord.Member) {
				if len(all) == 2 {
					<-goOn
				}
			})
		}()
		synctest.Wait()
		if !a.Proves(task.ID{1}) {
			t.Fatal("a new member does not prove that it lives")
		}
		go func() { _ = b.Join(t.Context(), coord.Member{Incarnation: task.ID{2}}, func([]coord.Member) {}) }()
		time.Sleep(lease)
		synctest.Wait()
		if a.Proves(task.ID{1}) {
			t.Error("it proves that it lives by a lease that is newer than its list of members")
		}
		close(goOn)
		synctest.Wait()
		if !a.Proves(task.ID{1}) {
			t.Error("it does not prove that it lives though it has all members")
		}
	})
}

// follower is a client of a server that answers renewals, and passes them on to the one that ends sessions now and then.
type follower struct {
	outdated               // when it is cut off from the server that ends sessions
	phase    time.Duration // after the multiples of passesOn
}

// passesOn is how often.
const passesOn = lease / 4

func (f *follower) Open(ctx context.Context, lease time.Duration) (cells.Session, error) {
	s, err := f.client.Open(ctx, lease)
	if err != nil {
		return nil, err
	}
	return &followed{memorySession: s.(*memorySession), by: f}, nil
}

type followed struct {
	*memorySession
	by *follower
}

func (s *followed) Lag() time.Duration { return passesOn }

// Renew implements [cells.Session]. It asks the server that ends sessions whether this one has ended, and does not renew it there.
func (s *followed) Renew(ctx context.Context) (cells.Renewal, error) {
	if s.by.cutOff.Load() {
		<-ctx.Done()
		return cells.Renewal{}, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return cells.Renewal{}, cells.ErrOver
	}
	now := time.Now().Add(-s.by.phase)
	time.AfterFunc(now.Truncate(passesOn).Add(passesOn).Sub(now), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.by.cutOff.Load() && !s.over {
			s.end.Reset(s.lease)
		}
	})
	return cells.Renewal{At: s.version}, nil
}

// A renewal that was answered is of no use if the server is cut off before it passes it on.
func TestARenewalCountsWhenItHasReachedTheServerThatEndsSessions(t *testing.T) {
	for range 60 {
		cutAt, phase := 2*lease+rand.N(lease), rand.N(passesOn)
		t.Run(fmt.Sprint("cut off after ", cutAt, ", phase ", phase), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory()
				f := &follower{outdated: outdated{client: m.connect(nil)}, phase: phase}
				a, b := node(t, f), node(t, m.connect(nil))
				held := holding(t, a, task.ID{1})
				want(a, task.ID{1}, 1, 2)
				other := holding(t, b, task.ID{2})
				want(b, task.ID{2}, 1, 2)
				go func() { _ = a.Join(t.Context(), coord.Member{Incarnation: task.ID{1}}, func([]coord.Member) {}) }()
				begin := time.Now()
				for ; time.Since(begin) < cutAt; time.Sleep(lease / 60) {
					if synctest.Wait(); held.Load() != 2 || !a.Holds(task.ID{1}) || !a.Proves(task.ID{1}) {
						t.Fatalf("after %v it does not prove that it holds its %d permits", time.Since(begin), held.Load())
					}
				}
				f.cutOff.Store(true)
				for ; time.Since(begin) < cutAt+3*lease; time.Sleep(lease / 60) {
					if synctest.Wait(); other.Load() > 0 && (a.Holds(task.ID{1}) || a.Proves(task.ID{1})) {
						t.Fatalf("%v after the cut two nodes have the same permits", time.Since(begin)-cutAt)
					}
				}
				if other.Load() != 2 {
					t.Errorf("the other node has %d permits", other.Load())
				}
			})
		})
	}
}
