package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taskengine/taskengine/storage/postgres"
	"github.com/taskengine/taskengine/storage/postgres/postgrestest"
	"github.com/taskengine/taskengine/task"
)

// moment is the time of the tests.
var moment = time.Date(2024, time.March, 1, 12, 0, 0, 0, time.UTC)

// finish adds a task and completes it, to be kept for some time; 0 is for ever.
func finish(t *testing.T, s *postgres.Store, ids *task.IDs, at time.Time, keep time.Duration, key string) *task.Task {
	t.Helper()
	row := &task.Task{ID: ids.Next(at), Version: 1, State: task.Processing, Type: "mail", Key: key, CreatedAt: at, UpdatedAt: at, ReadyAt: at}
	if _, err := s.Insert(t.Context(), row); err != nil {
		t.Fatal(err)
	}
	c := task.Change{Ref: row.Ref(), To: task.Done, At: at, Outcome: task.Completed}
	if keep > 0 {
		c.NextEventAt = at.Add(keep)
	}
	got, err := s.Swap(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return got[0]
}

func expire(t *testing.T, s *postgres.Store, now time.Time) time.Time {
	t.Helper()
	_, next, err := s.Expire(t.Context(), now)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

func TestWhatHasEndedIsKeptAsLongAsItShouldBeAndALittleLonger(t *testing.T) {
	s := postgrestest.Open(t, postgrestest.Tables(t, server))
	ids := task.NewIDs([32]byte{1})
	kept := map[time.Duration]*task.Task{}
	for _, keep := range []time.Duration{time.Hour, 24 * time.Hour, 36 * time.Hour, 7 * 24 * time.Hour, 0} {
		kept[keep] = finish(t, s, ids, moment, keep, fmt.Sprint("key ", keep))
	}
	for _, keep := range slices.Sorted(maps.Keys(kept)) {
		row := kept[keep]
		if keep == 0 {
			continue
		}
		expire(t, s, moment.Add(keep))
		if _, err := s.Get(t.Context(), row.ID); err != nil {
			t.Errorf("a row that is kept for %v: %v", keep, err)
		}
	}
	for keep, row := range kept {
		if keep == 0 {
			continue
		}
		longest := map[time.Duration]time.Duration{36 * time.Hour: 48 * time.Hour}[keep] // the next longer one that there is
		longest = max(longest, keep)
		expire(t, s, moment.Add(longest+longest/4))
		if _, err := s.Get(t.Context(), row.ID); !errors.Is(err, task.ErrNotFound) {
			t.Errorf("a row that is kept for %v is there after %v: %v", keep, longest+longest/4, err)
		}
	}
	if next := expire(t, s, moment.Add(1e5*time.Hour)); !next.IsZero() {
		t.Errorf("there is more to expire at %v", next)
	}
	if _, err := s.Get(t.Context(), kept[0].ID); err != nil {
		t.Errorf("a row that is kept for ever: %v", err)
	}
	// Their ids and keys are free, except the kept ones.
	for keep := range kept {
		in, err := s.Insert(t.Context(), &task.Task{ID: ids.Next(moment), Version: 1, State: task.Submitted, Type: "mail", Key: fmt.Sprint("key ", keep)})
		if err != nil || in[0].Created() != (keep > 0) {
			t.Errorf("the key of a row that was kept for %v: %+v, %v", keep, in, err)
		}
	}
}

func TestConcurrentCallsOfExpireDoNotDisturbEachOther(t *testing.T) {
	s := postgrestest.Open(t, postgrestest.Tables(t, server))
	for range 100 {
		if next := expire(t, s, moment); !next.IsZero() {
			t.Fatalf("of an empty store there is something to expire at %v", next)
		}
	}
}

func TestTasksEndWhileOthersAreSwept(t *testing.T) {
	s := postgrestest.Open(t, postgrestest.Tables(t, server))
	other := postgrestest.Open(t, s.Pool().Config().ConnString())
	ids := task.NewIDs([32]byte{1})
	var clock atomic.Int64 // minutes since the moment
	now := func() time.Time { return moment.Add(time.Duration(clock.Load()) * time.Minute) }
	ctx, stop := context.WithCancel(t.Context())
	var expiring sync.WaitGroup
	for _, one := range []*postgres.Store{s, other} {
		expiring.Go(func() {
			for ctx.Err() == nil {
				if _, _, err := one.Expire(t.Context(), now()); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := range 60 {
		for j, one := range []*postgres.Store{s, other} {
			if finish(t, one, ids, now(), time.Hour, fmt.Sprint("key ", i, j)) == nil {
				t.Error("a task did not end")
			}
		}
		clock.Add(10)
	}
	stop()
	expiring.Wait()
	expire(t, s, now().Add(2*time.Hour))
	var left int
	if err := s.Pool().QueryRow(t.Context(), "select (select count(*) from taskengine.ended) + (select count(*) from taskengine.key)").Scan(&left); err != nil || left != 0 {
		t.Errorf("%d rows are left: %v", left, err)
	}
}

func TestACallOfExpireThatWasInterruptedIsFinishedByTheNext(t *testing.T) {
	s := postgrestest.Open(t, postgrestest.Tables(t, server))
	ids := task.NewIDs([32]byte{1})
	finish(t, s, ids, moment, time.Hour, "")
	// A transaction that has read the rows does not end: Expire has to wait for it, and is cancelled.
	holder, err := s.Pool().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := holder.Exec(t.Context(), "select count(*) from taskengine.ended"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, _, err := s.Expire(ctx, moment.Add(2*time.Hour)); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
	if row := finish(t, s, ids, moment.Add(24*time.Hour), time.Hour, ""); row == nil { // the others go on
		t.Error("a task did not end")
	}
	if err := holder.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	expire(t, s, moment.Add(2*time.Hour))
	var tables int
	if err := s.Pool().QueryRow(t.Context(), "select count(*) from pg_class where relname like 'ended\\_3600\\_%' and relkind = 'r'").Scan(&tables); err != nil || tables != 1 {
		t.Errorf("%d tables are left, %v; want that of the other day", tables, err)
	}
}

func TestATableThatWasDetachedByHandIsLeftAlone(t *testing.T) {
	s := postgrestest.Open(t, postgrestest.Tables(t, server))
	finish(t, s, task.NewIDs([32]byte{1}), moment, time.Hour, "")
	var table string
	if err := s.Pool().QueryRow(t.Context(), "select tableoid::regclass::text from taskengine.ended").Scan(&table); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Pool().Exec(t.Context(), "alter table taskengine.ended_3600 detach partition "+table); err != nil {
		t.Fatal(err)
	}
	expire(t, s, moment.Add(time.Minute))
	var rows int
	if err := s.Pool().QueryRow(t.Context(), "select count(*) from "+table).Scan(&rows); err != nil || rows != 1 {
		t.Errorf("%d rows are in it: %v", rows, err)
	}
}
