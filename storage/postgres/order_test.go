package postgres_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres"
	"github.com/taskengine/taskengine/storage/postgres/postgrestest"
)

// runHeads grabs what is ready and ends it in one batch each, with some more rows, until nothing is ready or
// stop is closed. It returns how many tasks it has ended.
func runHeads(t *testing.T, s *postgres.Store, me task.ID, more func() []*task.Task) (ended int) {
	t.Helper()
	commit := func(b *storage.Batch) (storage.Outcome, bool) {
		out, err := s.Commit(t.Context(), b).Wait()
		if err != nil {
			t.Error(err)
		}
		return out, err == nil
	}
	for {
		ready, err := s.Ready(t.Context(), storage.ReadyQuery{Queue: task.Queue{Type: "mail"}, Limit: 20})
		if err != nil {
			t.Error(err)
			return ended
		}
		b := &storage.Batch{Insert: more()}
		if len(ready)+len(b.Insert) == 0 {
			return ended
		}
		now := time.Now()
		for _, r := range ready {
			b.Swap = append(b.Swap, task.Change{Ref: r.Ref, To: task.Processing, At: now, NextEventAt: now, Owner: me})
		}
		out, ok := commit(b)
		if !ok {
			return ended
		}
		var ends, others storage.Batch // in one batch they could deadlock with grabs of the same tasks, ordered or not
		for _, r := range out.Swapped {
			if r == nil {
				continue
			}
			c := task.Change{Ref: r.Ref(), To: task.Done, At: now, Outcome: task.Completed, OrderingKey: r.OrderingKey}
			switch rand.IntN(6) {
			case 0:
				c.OrderingKey = ""
				ends.Swap = append(ends.Swap, c)
			case 1:
				c.To, c.Outcome, c.Error = task.Failed, task.Errored, "no"
				others.Swap = append(others.Swap, c)
			case 2:
				c.To, c.Outcome = task.Submitted, task.HandedBack
				others.Swap = append(others.Swap, c)
				ended--
			default:
				ends.Swap = append(ends.Swap, c)
			}
			ended++
		}
		for _, b := range []*storage.Batch{&ends, &others} {
			if len(b.Swap) == 0 {
				continue
			}
			if out, ok = commit(b); !ok {
				return ended
			}
			for _, r := range out.Swapped {
				if r == nil {
					t.Error("a change of a task that runs was not made")
				}
			}
		}
	}
}

func TestManyConnectionsThatAddAndEndTasksOfFewKeysLeaveNoKeyWithoutAHeadAndDoNotDeadlock(t *testing.T) {
	const clients, rounds, keys = 8, 40, 5
	url := server.Database(t)
	s := postgrestest.Open(t, url)
	var wg sync.WaitGroup
	ended := make([]int, clients)
	for n := range clients {
		mine := postgrestest.Open(t, url)
		ids, left := task.NewIDs([32]byte{byte(n)}), rounds
		wg.Go(func() {
			ended[n] = runHeads(t, mine, task.ID{1, byte(n)}, func() (ts []*task.Task) {
				if left--; left < 0 {
					return nil
				}
				for range 1 + rand.IntN(4) {
					now := time.Now()
					key := fmt.Sprint("key ", rand.IntN(keys))
					r := &task.Task{ID: ids.NextIn(now, task.ShardOf(key)), Type: "mail", OrderingKey: key, Shard: task.ShardOf(key)}
					r.Create(task.Submitted, now, time.Time{})
					r.ReadyAt = now.Add(-time.Duration(rand.IntN(1000)) * time.Millisecond)
					ts = append(ts, r)
				}
				return ts
			})
		})
	}
	wg.Wait()
	promoted, headless := 0, 0
	for {
		page, err := s.Headless(t.Context(), "", 100)
		if err != nil {
			t.Fatal(err)
		}
		heads, err := s.Promote(t.Context(), page.Keys...)
		if err != nil || len(heads) != len(page.Keys) {
			t.Fatalf("of %d keys without a head %d got one: %v", len(page.Keys), len(heads), err)
		}
		headless += len(page.Keys)
		n := runHeads(t, s, task.ID{2}, func() []*task.Task { return nil })
		if promoted += n; n == 0 && len(heads) == 0 {
			break
		}
	}
	c := pgtest.Connect(t, url)
	if left := one[int](t, c, "select count(*) from taskengine.task"); left > 0 {
		t.Errorf("%d tasks have not ended", left)
	}
	if headless > 0 {
		t.Errorf("%d keys had no head after everything had committed", headless)
	}
	if n := one[int](t, c, "select deadlocks from pg_stat_database where datname = current_database()"); n > 0 {
		t.Errorf("there were %d deadlocks", n)
	}
	t.Logf("the clients ended %v, and after that %d", ended, promoted)
}
