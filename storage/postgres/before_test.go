//go:build !race

package postgres_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres"
	"github.com/taskengine/taskengine/storage/postgres/postgrestest"
	"github.com/taskengine/taskengine/storage/postgres/schema"
	"github.com/taskengine/taskengine/task"
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

// A node is started before the tables are migrated, and goes on beside one that is started then.
func TestAProgramWorksWithTheTablesOfTheVersionBeforeWhileTheyAreMigrated(t *testing.T) {
	url := server.Database(t)
	c := pgtest.Connect(t, url)
	all := schema.Migrations(schema.Default)
	pgtest.Exec(t, c, schema.Script(schema.Default, all[:schema.Inherits-1]))
	before, err := postgres.Open(t.Context(), url, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = before.Close() })
	rules := storage.TypeRules{Type: "mail", Priority: 5, MaxPayload: 10, MaxResult: 20, KeepDone: time.Hour, Inherits: true}
	setRules := func(s *postgres.Store, want storage.TypeRules) {
		t.Helper()
		if err := s.SetRules(t.Context(), rules); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Rules(t.Context(), "mail"); err != nil || !cmp.Equal(got, want) {
			t.Errorf("the rules are %+v, %v; want %+v", got, err, want)
		}
	}
	runsWith := func(s *postgres.Store, key string, want uint8) {
		t.Helper()
		if heads, err := s.Promote(t.Context(), key); err != nil || len(heads) != 1 || heads[0].Priority != want {
			t.Errorf("the heads of %s are %+v, %v; want one with priority %d", key, heads, err, want)
		}
	}
	none := rules
	none.Inherits = false
	setRules(before, none)
	commit(t, before, &storage.Batch{Insert: []*task.Task{heir(1, "a", 7), heir(2, "a", 3)}})
	runsWith(before, "a", 3)
	mustAdd(t, c, "'mail', ordering_key => 'a', priority => 1") // the function does not know that it is to inherit
	runsWith(before, "a", 3)

	pgtest.Exec(t, c, schema.Script(schema.Default, all[schema.Inherits-1:]))
	now := postgrestest.Open(t, url)
	runsWith(now, "a", 3)
	setRules(now, rules)
	mustAdd(t, c, "'mail', ordering_key => 'a', priority => 2")
	runsWith(before, "a", 2)
	for i, s := range []*postgres.Store{before, now} {
		commit(t, s, &storage.Batch{Insert: []*task.Task{heir(byte(10+2*i), "a", uint8(1-i))}})
		runsWith(now, "a", uint8(1-i))
		runsWith(before, "a", uint8(1-i))
	}
}

// heir returns a new row of an ordering key whose type inherits.
func heir(n byte, key string, priority uint8) *task.Task {
	t := ordered(n, key)
	t.Priority, t.Inherits, t.ReadyAt = priority, true, t.ReadyAt.Add(-time.Hour)
	return t
}

// The statements are those of the version before: it does not know the own priority of a head that has inherited another.
func TestAProgramOfTheVersionBeforeKeepsTheOwnPriorityOfAHead(t *testing.T) {
	s := postgrestest.Open(t, server.Database(t))
	head, yields, urgent := heir(1, "a", 7), heir(1, "b", 6), heir(2, "a", 2)
	commit(t, s, &storage.Batch{Insert: []*task.Task{head, yields, urgent, heir(2, "b", 4)}})
	is := func(id task.ID, priority, boost uint8) {
		t.Helper()
		got, err := s.Get(t.Context(), id)
		if err != nil || !got.Inherits || got.Priority != priority || got.Boost != boost || len(got.Headers) > 0 {
			t.Errorf("the row is %+v, %v; want one that inherits, with priority %d and boost %d", got, err, priority, boost)
		}
	}
	is(head.ID, 7, 5)
	is(yields.ID, 6, 2)
	if _, err := s.Insert(t.Context(), &task.Task{ID: task.ID{7}, Version: 1, State: task.Done, UpdatedAt: time.Now()}); err != nil { // makes the partition
		t.Fatal(err)
	}
	if _, err := s.Pool().Exec(t.Context(), `
with gone as (delete from taskengine.task where id = $1 returning *)
insert into taskengine.ended
select gone.*, $2::bigint, 0 from gone`, head.ID, time.Now().UnixMicro()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Pool().Exec(t.Context(), "update taskengine.ended set state = 7 where id = $1", head.ID); err != nil {
		t.Fatal(err)
	}
	is(head.ID, 7, 0)
	if _, err := s.Pool().Exec(t.Context(), "update taskengine.task set version = version + 1, priority = 4, shard = (shard & 65535) + 65536, ready_at = ready_at + 60000000, queued = false where id = $1", yields.ID); err != nil {
		t.Fatal(err)
	}
	is(yields.ID, 6, 0)
	heads, err := s.Promote(t.Context(), "a", "b")
	if err != nil || len(heads) != 2 {
		t.Fatalf("heads: %v, %v", heads, err)
	}
	is(urgent.ID, 2, 0)
}

func TestTasksFromSQLInheritIfTheirTypeDoes(t *testing.T) {
	url := server.Database(t)
	s, c := postgrestest.Open(t, url), pgtest.Connect(t, url)
	if err := s.SetRules(t.Context(), storage.TypeRules{Type: "mail", Priority: 5, Inherits: true}, storage.TypeRules{Type: "sms", Priority: 5}); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]task.Task{
		"'mail', ordering_key => 'k'":                                            {Priority: 5, Inherits: true},
		"'mail', ordering_key => 'k', priority => 9, headers => '{\"a\":\"b\"}'": {Priority: 9, Inherits: true, Headers: map[string]string{"a": "b"}},
		"'mail', headers => '{\"a\":\"b\"}'":                                     {Priority: 5, Headers: map[string]string{"a": "b"}},
		"'sms', ordering_key => 'k', headers => '{\"\":\"\"}'":                   {Priority: 5, Headers: map[string]string{"": ""}},
	} {
		got, err := s.Get(t.Context(), mustAdd(t, c, args).id)
		if err != nil {
			t.Fatal(err)
		}
		if got := (task.Task{Priority: got.Priority, Inherits: got.Inherits, Headers: got.Headers}); !cmp.Equal(got, want) {
			t.Errorf("add(%s) makes %+v, want %+v", args, got, want)
		}
	}
}

// Programs of version 7 of the tables know a key by its type only. They may still run when the tables are migrated.
func TestTriggersMakeGoodWhatAProgramDoesThatKnowsNoKeysWithinOrderingKeys(t *testing.T) {
	url := server.Database(t)
	c := pgtest.Connect(t, url)
	all := schema.Migrations(schema.Default)
	pgtest.Exec(t, c, schema.Script(schema.Default, all[:7]))
	live := mustAdd7(t, c, "'mail', ordering_key => 'a', key => 'live'")
	pgtest.Exec(t, c, schema.Script(schema.Default, all[7:]))
	now := postgrestest.Open(t, url)
	// The statements are those of version 7.
	insert := func(row *task.Task) error {
		return pgx.BeginFunc(t.Context(), c, func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), "insert into taskengine.key (type, key, id) values ('mail', $1, $2) on conflict do nothing", []byte(row.Key), row.ID)
			if err == nil {
				_, err = tx.Exec(t.Context(), `
insert into taskengine.task
select (jsonb_populate_record(t, jsonb_build_object('id', $2::uuid, 'key', $3::bytea, 'ordering_key', $4::bytea, 'seq', nextval('taskengine.task_seq')))).* from taskengine.task t where t.id = $1`,
					live, row.ID, []byte(row.Key), []byte(row.OrderingKey))
			}
			return err
		})
	}
	remove := func(id task.ID) {
		t.Helper()
		if _, err := c.Exec(t.Context(), `
with gone as (delete from taskengine.task t where t.id = $1 returning t.type, t.key)
delete from taskengine.key k using gone where gone.key is not null and k.type = gone.type and k.key = gone.key`, id); err != nil {
			t.Fatal(err)
		}
	}

	if at := holder(t, now, keyed(1, "a", "live")); at != live {
		t.Errorf("a key from before the migration is that of %v", at)
	}
	third, fourth, sameKey := keyed(3, "c", "new"), keyed(4, "c", "of version 7"), keyed(5, "", "new")
	for _, row := range []*task.Task{keyed(2, "b", "live"), third, sameKey} {
		if at := holder(t, now, row); !at.IsZero() {
			t.Fatalf("%v is in the way", at)
		}
	}
	var e *pgconn.PgError
	if err := insert(keyed(6, "c", "new")); !errors.As(err, &e) || e.Code != "23505" {
		t.Errorf("version 7 adds a second task: %v", err)
	}
	if err := insert(fourth); err != nil {
		t.Fatal(err)
	}
	if at := holder(t, now, keyed(7, "c", "of version 7")); at != fourth.ID {
		t.Errorf("its key is that of %v", at)
	}
	for i, gone := range []*task.Task{third, fourth, {ID: live, OrderingKey: "a", Key: "live"}} {
		remove(gone.ID)
		if at := holder(t, now, keyed(byte(10+i), gone.OrderingKey, gone.Key)); !at.IsZero() {
			t.Errorf("the key %s of a task that is gone is that of %v", gone.Key, at)
		}
	}
	if at := holder(t, now, keyed(8, "", "new")); at != sameKey.ID {
		t.Errorf("the key of another task was given back: it is that of %v", at)
	}
}

// mustAdd7 calls the function add of version 7 of the tables, and returns the id of the task.
func mustAdd7(t *testing.T, c *pgx.Conn, args string) task.ID {
	t.Helper()
	id, err := task.ParseID(one[string](t, c, "select id::text from taskengine.add("+args+")"))
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// A table of ended tasks that a program of version 7 drops leaves keys behind.
func TestKeysOfTasksThatAreGoneAreGivenBack(t *testing.T) {
	url := server.Database(t)
	s := postgrestest.Open(t, url)
	kept := keyed(1, "b", "kept")
	if at := holder(t, s, kept); !at.IsZero() {
		t.Fatalf("%v is in the way", at)
	}
	pgtest.Exec(t, pgtest.Connect(t, url), "insert into taskengine.key values ('mail', 'a'::bytea || '\\xff'::bytea || 'lost'::bytea, '0190a6f0-7c3e-7cc0-8b5e-3f1d2c4b5a69')")
	if _, _, err := s.Expire(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	if at := holder(t, s, keyed(2, "a", "lost")); !at.IsZero() {
		t.Errorf("a key of a task that is gone is that of %v", at)
	}
	if at := holder(t, s, keyed(3, kept.OrderingKey, kept.Key)); at != kept.ID {
		t.Errorf("the key of a task that is there is that of %v", at)
	}
}
