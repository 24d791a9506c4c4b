//go:build !race

package postgres

import (
	"context"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/taskengine/taskengine/storage/postgres/internal/ended"
	"github.com/taskengine/taskengine/task"
)

// idAt returns an id of version 7 with a time in it.
func idAt(at time.Time, n uint16) (id task.ID) {
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(at.UnixMilli()))
	copy(id[:], ms[2:])
	id[6], id[8] = 0x70, 0x80
	binary.BigEndian.PutUint16(id[10:], n)
	return id
}

// end adds a task and ends it.
func end(t *testing.T, s *Store, id task.ID, keep time.Duration) {
	t.Helper()
	now := time.Now()
	row := &task.Task{ID: id, Version: 1, State: task.Processing, Type: "mail", Key: id.String(), CreatedAt: now, UpdatedAt: now, ReadyAt: now}
	if in, err := s.Insert(t.Context(), row); err != nil || !in[0].Created() {
		t.Fatalf("task %v: %+v, %v", id, in, err)
	}
	c := task.Change{Ref: row.Ref(), To: task.Done, At: now, Outcome: task.Completed}
	if keep > 0 {
		c.NextEventAt = now.Add(keep)
	}
	if got, err := s.Swap(t.Context(), c); err != nil || got[0] == nil {
		t.Fatalf("task %v does not end: %v", id, err)
	}
}

// tables returns the names of the partitions of the partitions of ended.
func tables(t *testing.T, pool *pgxpool.Pool) (names []string) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), "select coalesce(array_agg(relname::text order by relname), '{}') from pg_class where relname ~ $1 and relname <> $2 and relkind = 'r'", ended.PartitionNames, ended.Spare.Name()).Scan(&names); err != nil {
		t.Fatal(err)
	}
	return names
}

// recount makes counts right, and returns how many sums were wrong.
func recount(t *testing.T, pool *pgxpool.Pool) (wrong int64) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), "select taskengine.recount()").Scan(&wrong); err != nil {
		t.Fatal(err)
	}
	return wrong
}

// taken fails the test unless an id and a key that are used by a task that has ended are
// refused, by Go and by SQL.
func taken(t *testing.T, s *Store, id task.ID) {
	t.Helper()
	for _, key := range []string{"", id.String(), "another"} {
		row := &task.Task{ID: id, Version: 1, State: task.Submitted, Type: "mail", Key: key}
		if in, err := s.Insert(t.Context(), row); err != nil || in[0].Created() {
			t.Errorf("task %v with the key %q was added again: %v", id, key, err)
		}
	}
	var created bool
	if err := s.pool.QueryRow(t.Context(), "select (taskengine.add('mail', id => $1::text::uuid)).created", id.String()).Scan(&created); err != nil || created {
		t.Errorf("task %v was added again by SQL: %v", id, err)
	}
	if in, err := s.Insert(t.Context(), &task.Task{ID: idAt(time.Now(), 1), Version: 1, State: task.Submitted, Type: "mail", Key: id.String()}); err != nil || in[0].Existing != id {
		t.Errorf("the holder of the key: %+v, %v", in, err)
	}
	if got, err := s.Get(t.Context(), id); err != nil || got.State != task.Done {
		t.Errorf("got %+v, %v", got, err)
	}
}

func openEmpty(t *testing.T) *Store {
	t.Helper()
	s, err := Open(t.Context(), emptyTables(t), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// Callers may choose ids of any time. They need no tables of their own, and stay taken.
func TestIDsOfAnyTimeNeedFewTables(t *testing.T) {
	s, now := openEmpty(t), time.Now()
	var ids []task.ID
	for _, keep := range []time.Duration{time.Hour, 24 * time.Hour, 0} {
		for _, years := range []int{-50, -1, 1, 2, 5, 100, 8000} {
			id := idAt(now.AddDate(years, 0, 0), uint16(len(ids)))
			end(t, s, id, keep)
			ids = append(ids, id)
		}
	}
	for _, id := range ids {
		taken(t, s, id)
	}
	got := tables(t, s.pool)
	if len(got) > 12 { // one for each retention, and one for early ends; two if a span ends just now
		t.Errorf("%d tables: %q", len(got), got)
	}
	if wrong := recount(t, s.Pool()); wrong != 0 {
		t.Errorf("%d sums are wrong", wrong)
	}
	if _, err := s.Fold(t.Context()); err != nil {
		t.Fatal(err)
	}
	if wrong := recount(t, s.Pool()); wrong != 0 {
		t.Errorf("after they were folded %d sums are wrong", wrong)
	}
	if _, _, err := s.Expire(t.Context(), now.Add(24*time.Hour)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Expire(t.Context(), now.Add(48*time.Hour)); err != nil {
		t.Fatal(err)
	}
	for i, id := range ids {
		if _, err := s.Get(t.Context(), id); (err == nil) != (i >= 14) { // rows that are kept for ever
			t.Errorf("task %d after two days: %v", i, err)
		}
	}
}

// A person may detach a table to keep its rows. Tasks of its time can end all the same.
func TestTasksEndThoughTheTableOfTheirTimeIsDetached(t *testing.T) {
	for _, parent := range []string{"ended_86400", "ended"} {
		t.Run(parent, func(t *testing.T) {
			s := openEmpty(t)
			end(t, s, idAt(time.Now(), 1), 24*time.Hour)
			name := "ended_86400"
			if parent != "ended" {
				name = tables(t, s.pool)[0]
			}
			if _, err := s.pool.Exec(t.Context(), fmt.Sprintf("alter table taskengine.%s detach partition taskengine.%s", parent, name)); err != nil {
				t.Fatal(err)
			}
			other, err := Open(t.Context(), s.pool.Config().ConnString(), Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer other.Close()
			for n, s := range []*Store{s, other} { // one that knew the table, and one that did not
				id := idAt(time.Now(), uint16(10+n))
				end(t, s, id, 24*time.Hour)
				taken(t, s, id)
			}
			if wrong := recount(t, s.Pool()); wrong != 0 {
				t.Errorf("%d sums are wrong", wrong)
			}
			var kept int
			if err := s.pool.QueryRow(t.Context(), "select count(*) from taskengine."+name).Scan(&kept); err != nil || kept != 1 {
				t.Errorf("the table has %d rows, %v", kept, err)
			}
			if _, _, err := s.Expire(context.Background(), time.Now().Add(72*time.Hour)); err != nil {
				t.Fatal(err)
			}
			if got := tables(t, s.pool); len(got) != 0 {
				t.Errorf("after their time there are %q", got)
			}
		})
	}
}
