package engine_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

// countingOutdated is a store that counts calls of Outdated.
type countingOutdated struct {
	*memory.Store
	asked atomic.Int64
}

func (s *countingOutdated) Outdated(ctx context.Context, owner task.ID, refs ...task.Ref) ([]bool, error) {
	s.asked.Add(1)
	return s.Store.Outdated(ctx, owner, refs...)
}

func TestRunningTasksAreLookedAtOnceInASecondHoweverOftenANodeIsWoken(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := newGroup(t)
		s := &countingOutdated{Store: g.store}
		g.wrap = func(*memory.Store) storage.Store { return s }
		a := g.join("a", one("work", nil), takes(time.Hour), "work")
		a.submit(engine.Request{Type: "work"})
		for range 1000 { // ten seconds
			time.Sleep(10 * time.Millisecond)
			if err := g.first.Publish(t.Context(), coord.WakeAll()); err != nil {
				t.Fatal(err)
			}
		}
		if n := s.asked.Load(); n < 8 || n > 11 {
			t.Errorf("they were looked at %d times in ten seconds", n)
		}
	})
}

// put adds a row without a hint to a node.
func (g *group) put(change func(*task.Task)) *task.Task {
	g.t.Helper()
	t := &task.Task{ID: g.ids.Next(time.Now()), Type: "work", Priority: 5}
	change(t)
	t.Shard = t.ID.Shard()
	if _, err := g.store.Insert(context.Background(), t); err != nil {
		g.t.Fatal(err)
	}
	return t
}

// A task may be in the store behind one that the node knows and cannot start. Its node finds
// the task all the same, and gives it up when it has waited too long.
func TestATaskThatNodesHaveNotHeardOfIsFoundBehindAKnownOne(t *testing.T) {
	for name, c := range map[string]struct{ queue, expires time.Duration }{
		"its queue timeout":  {queue: 10 * time.Second},
		"its time to expire": {expires: 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				g := newGroup(t)
				set := one("work", nil)
				set.Slots = 1
				a := g.join("a", set, takes(time.Hour), "work")
				b := g.join("b", set, takes(time.Hour), "work")
				for range 20 { // both nodes are full, and know more tasks
					a.submit(engine.Request{Type: "work"})
				}
				time.Sleep(5 * time.Second)
				var late []*task.Task
				for range 50 {
					late = append(late, g.put(func(t *task.Task) {
						if c.expires > 0 {
							t.ExpiresAt = time.Now().Add(c.expires)
						}
						t.Create(task.Submitted, time.Now(), later(c.queue))
					}))
				}
				time.Sleep(12 * time.Second)
				for _, row := range late {
					got, err := g.store.Get(t.Context(), row.ID)
					if err != nil || got.State != task.Error {
						t.Fatalf("task %v is %v, %v", row.ID, got, err)
					}
					if len(g.ran(row.ID)) > 0 {
						t.Errorf("it ran on %v", g.ran(row.ID))
					}
				}
				if s := b.Stats(); s.Wasted > 0 {
					t.Errorf("%d grabs were wasted", s.Wasted)
				}
			})
		})
	}
}

func later(d time.Duration) time.Time {
	if d == 0 {
		return time.Time{}
	}
	return time.Now().Add(d)
}

// A hint of an older program does not say when the task has waited too long, and a slot gets
// free just after that.
func TestATaskIsNotStartedAfterItsQueueTimeoutHoweverItsNodeLearntOfIt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := newGroup(t)
		set := one("work", nil)
		set.Slots = 1
		a := g.join("a", set, takes(10500*time.Millisecond), "work")
		a.submit(engine.Request{Type: "work"})
		row := g.put(func(t *task.Task) { t.Create(task.Submitted, time.Now(), later(10*time.Second)) })
		hint := row.Hint()
		hint.NextEventAt = time.Time{}
		if err := g.first.Publish(t.Context(), hint); err != nil {
			t.Fatal(err)
		}
		time.Sleep(15 * time.Second)
		if got, err := g.store.Get(t.Context(), row.ID); err != nil || got.State != task.Error || len(g.ran(row.ID)) > 0 {
			t.Errorf("it is %v, %v, and ran on %v", got, err, g.ran(row.ID))
		}
	})
}

// Many scheduled tasks that become due at once start at once, though no hint names them.
func TestManyDueTasksThatNodesHaveNotHeardOfStartTogether(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := newGroup(t)
		set := one("work", nil)
		set.Slots = 100
		a := g.join("a", set, takes(0), "work")
		due := time.Now().Add(time.Minute)
		var ids []task.ID
		for range 5500 {
			ids = append(ids, g.put(func(t *task.Task) {
				t.ReadyAt = due
				t.Create(task.Waiting, time.Now(), due)
			}).ID)
		}
		for _, id := range ids {
			a.end(id)
		}
		if late := time.Since(due); late > 1500*time.Millisecond {
			t.Errorf("the last one ended %v after they were due", late)
		}
	})
}
