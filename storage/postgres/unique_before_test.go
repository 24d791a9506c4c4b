package postgres_test

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres"
	"github.com/taskengine/taskengine/storage/postgres/postgrestest"
	"github.com/taskengine/taskengine/storage/postgres/schema"
)

// keyed returns a new row with a key within an ordering key; "" for none.
func keyed(n byte, order, key string) *task.Task {
	t := ordered(n, order)
	t.Key = key
	if order == "" {
		t.Turn = task.Unordered
	}
	return t
}

// holder inserts a row and returns the one that has its key; the zero ID if the row was inserted.
func holder(t *testing.T, s *postgres.Store, row *task.Task) task.ID {
	t.Helper()
	got, err := s.Insert(t.Context(), row)
	if err != nil {
		t.Fatal(err)
	}
	return got[0].Existing
}

// A store that was opened before the migration is as a program of the version before.
func TestKeysWithinOrderingKeysAreUniqueBesideAProgramOfTheVersionBefore(t *testing.T) {
	url := server.Database(t)
	c := pgtest.Connect(t, url)
	pgtest.Exec(t, c, schema.Script(schema.Default, schema.Migrations(schema.Default)[:schema.Unique-1]))
	before, err := postgres.Open(t.Context(), url, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = before.Close() })
	live, ended, plain := keyed(1, "a", "live"), keyed(2, "a", "ended"), keyed(3, "", "plain")
	for _, row := range []*task.Task{live, ended, plain} {
		if at := holder(t, before, row); !at.IsZero() {
			t.Fatalf("%v is in the way", at)
		}
	}
	out := commit(t, before, &storage.Batch{Swap: []task.Change{{Ref: ended.Ref(), To: task.Cancelled, At: time.Now(), NextEventAt: time.Now().Add(time.Hour)}}})
	if out.Swapped[0] == nil || holder(t, before, keyed(9, "b", "live")) != live.ID {
		t.Error("the program of the version before does not do what it did")
	}

	now := postgrestest.Open(t, url)
	for _, was := range []*task.Task{live, ended} {
		for _, s := range []*postgres.Store{before, now} { // the version before finds it by its own entry
			if at := holder(t, s, keyed(4, was.OrderingKey, was.Key)); at != was.ID {
				t.Errorf("the key %s is that of %v", was.Key, at)
			}
		}
	}
	second := keyed(5, "b", "live")
	if at := holder(t, now, second); !at.IsZero() {
		t.Errorf("within another ordering key it is that of %v", at)
	}
	third := keyed(6, "c", "new")
	if at := holder(t, now, third); !at.IsZero() {
		t.Fatalf("%v is in the way", at)
	}
	_, err = before.Insert(t.Context(), keyed(7, "c", "new"))
	var e *pgconn.PgError
	if !errors.As(err, &e) || e.Code != "23505" {
		t.Errorf("the version before adds a second task: %v", err)
	}
	fourth := keyed(8, "c", "of the version before")
	if at := holder(t, before, fourth); !at.IsZero() {
		t.Fatalf("%v is in the way", at)
	}
	if at := holder(t, now, keyed(9, "c", "of the version before")); at != fourth.ID {
		t.Errorf("its key is that of %v", at)
	}

	// These statements are those of the version before, without the id.
	sameKey := keyed(10, "", "new")
	if at := holder(t, now, sameKey); !at.IsZero() {
		t.Fatalf("%v is in the way", at)
	}
	for _, gone := range []*task.Task{third, fourth, live} {
		if _, err := c.Exec(t.Context(), `
			with gone as (delete from taskengine.task t where t.id = $1 returning t.type, t.key)
			delete from taskengine.key k using gone where gone.key is not null and k.type = gone.type and k.key = gone.key`, gone.ID); err != nil {
			t.Fatal(err)
		}
		if at := holder(t, now, keyed(11, gone.OrderingKey, gone.Key)); !at.IsZero() {
			t.Errorf("the key %s of a task that is gone is that of %v", gone.Key, at)
		}
	}
	if at := holder(t, now, keyed(12, "", "new")); at != sameKey.ID {
		t.Errorf("the key of another task was given back: it is that of %v", at)
	}
	pgtest.Exec(t, c, "delete from taskengine.ended")
	pgtest.Exec(t, c, "delete from taskengine.task where key = 'plain'; delete from taskengine.key where key = 'plain'")
	if n := one[int](t, c, "select count(*) from taskengine.key k where not taskengine.is_taken(k.id) and position('\\xff'::bytea in k.key) > 0"); n != 0 {
		t.Errorf("%d keys within ordering keys have no task", n)
	}

	// A table of ended tasks that the version before drops leaves keys behind.
	pgtest.Exec(t, c, "insert into taskengine.key values ('mail', 'a'::bytea || '\\xff'::bytea || 'lost'::bytea, '0190a6f0-7c3e-7cc0-8b5e-3f1d2c4b5a69')")
	if _, _, err := now.Expire(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	if at := holder(t, now, keyed(13, "a", "lost")); !at.IsZero() {
		t.Errorf("a key of a task that is gone is that of %v", at)
	}
	if at := holder(t, now, keyed(14, second.OrderingKey, second.Key)); at != second.ID {
		t.Errorf("the key of a task that is there is that of %v", at)
	}
}
