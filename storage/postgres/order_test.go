package postgres_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres"
	"github.com/taskengine/taskengine/storage/postgres/postgrestest"
	"github.com/taskengine/taskengine/task"
)

// runHeads grabs ready tasks and ends them in one batch each, with some more rows, until no task is ready or
// stop is closed. It returns the number of ended tasks.
func runHeads(t *testing.T, s *postgres.Store, me task.ID, more func() []*task.Task) (ended int) {
	t.Helper()
	commit := func(b *storage.Batch) (storage.Outcome, bool) {
		out, err := s.Commit(t.Context(), b).Wait()
		for end := time.Now().Add(3 * time.Minute); isBlocked(err) && time.Now().Before(end); { // the machine is slow: nothing was changed
			time.Sleep(20 * time.Millisecond) // for a moment the store refuses at once
			out, err = s.Commit(t.Context(), b).Wait()
		}
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
		mine, err := postgres.Open(t.Context(), url, postgres.Options{})
		if err != nil {
			t.Fatal(err)
		}
		ids, left := task.NewIDs([32]byte{byte(n)}), rounds
		wg.Go(func() {
			defer mine.Close() // the server counts the deadlocks of a connection when it ends
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

// No batch waits for a transaction that a caller keeps open. Work that it leaves undone is found.
func TestPromoteDoesNotWaitForATransactionThatACallerKeepsOpen(t *testing.T) {
	s := postgrestest.Open(t, postgrestest.Tables(t, server))
	rows := []*task.Task{ordered(1, "k"), ordered(2, "k"), ordered(3, "k")}
	commit(t, s, &storage.Batch{Insert: rows})
	headless := func(want int) {
		t.Helper()
		if page, err := s.Headless(t.Context(), "", 9); err != nil || len(page.Keys) != want {
			t.Errorf("keys without a head: %v, %v", page.Keys, err)
		}
	}
	cancel := func(r *task.Task) task.Change {
		return task.Change{Ref: r.Ref(), To: task.Cancelled, At: time.Now(), OrderingKey: "k"}
	}
	held, err := s.Pool().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = held.Rollback(t.Context()) }()
	if got, err := s.Attach(held).Swap(t.Context(), cancel(rows[1])); err != nil || got[0] == nil { // the next one is locked
		t.Fatalf("%v, %v", got, err)
	}
	if out := commit(t, s, &storage.Batch{Swap: []task.Change{cancel(rows[0])}}); out.Swapped[0] == nil || len(out.Heads) > 0 {
		t.Errorf("the head is cancelled: %v, heads %v", out.Swapped, out.Heads)
	}
	headless(1)
	if err := held.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if heads, err := s.Promote(t.Context(), "k"); err != nil || len(heads) != 1 || heads[0].ID != rows[1].ID {
		t.Fatalf("heads %v, %v", heads, err)
	}
	if held, err = s.Pool().Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Attach(held).Swap(t.Context(), cancel(rows[1])); err != nil || got[0] == nil { // the head is locked
		t.Fatalf("%v, %v", got, err)
	}
	early := ordered(0, "k")
	if out := commit(t, s, &storage.Batch{Insert: []*task.Task{early}}); early.Turn != task.Behind {
		t.Errorf("it is the head beside one that ends: heads %v", out.Heads)
	}
	if err := held.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	headless(1)
	if heads, err := s.Promote(t.Context(), "k"); err != nil || len(heads) != 1 || heads[0].ID != early.ID {
		t.Errorf("heads %v, %v", heads, err)
	}
}

// More keys than one transaction promotes get their heads in further ones.
func TestABatchOfManyKeysGivesEachItsHead(t *testing.T) {
	s := postgrestest.Open(t, postgrestest.Tables(t, server))
	const keys = 600
	var b storage.Batch
	for n := range keys {
		first, second := ordered(1, fmt.Sprint("key ", n)), ordered(2, fmt.Sprint("key ", n))
		b.Insert = append(b.Insert, first, second)
	}
	for _, how := range []string{"in one round trip", "in several"} {
		out := commit(t, s, &b)
		ends := storage.Batch{}
		for i, r := range b.Insert {
			if want := task.Turn(task.Head - task.Turn(i%2)); r.Turn != want {
				t.Fatalf("%s: row %d has turn %v", how, i, r.Turn)
			}
			if i%2 == 0 {
				ends.Swap = append(ends.Swap, task.Change{Ref: r.Ref(), To: task.Cancelled, At: time.Now()})
			}
		}
		if len(out.Heads) != keys {
			t.Errorf("%s: %d heads", how, len(out.Heads))
		}
		list, err := s.ListKeys(t.Context(), storage.KeyQuery{Behind: true, Limit: keys + 1, Scan: 10 * keys})
		if err != nil || len(list.Keys) != keys || list.Next != "" {
			t.Errorf("%s: %d keys are listed, next is %q, %v", how, len(list.Keys), list.Next, err)
		}
		if out = commit(t, s, &ends); len(out.Heads) != keys {
			t.Errorf("%s: after the ends %d heads", how, len(out.Heads))
		}
		page, err := s.Headless(t.Context(), "", 9)
		if err != nil || len(page.Keys) > 0 {
			t.Errorf("keys without a head: %v, %v", page.Keys, err)
		}
		for i := range b.Insert {
			key := fmt.Sprint("other ", i/2)
			b.Insert[i] = ordered(byte(i%2), key)
		}
		b.Follow = [][]*task.Task{nil} // not in one round trip
	}
}

// ordered returns a new row of an ordering key.
func ordered(n byte, key string) *task.Task {
	now := time.Now().Truncate(time.Microsecond)
	t := &task.Task{ID: task.NewIDs([32]byte{n}).NextIn(now, task.ShardOf(key)), Type: "mail", OrderingKey: key, Shard: task.ShardOf(key)}
	t.Create(task.Submitted, now, time.Time{})
	t.ReadyAt = now.Add(time.Duration(n) * time.Second)
	return t
}

func commit(t *testing.T, s *postgres.Store, b *storage.Batch) storage.Outcome {
	t.Helper()
	out, err := s.Commit(t.Context(), b).Wait()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// isBlocked reports whether a batch was not written because another transaction had a lock for too long.
func isBlocked(err error) bool {
	if _, ok := errors.AsType[*storage.Blocked](err); ok {
		return true
	}
	refused, ok := errors.AsType[*pgconn.PgError](err)
	return ok && refused.Code == "55P03"
}
