package postgres_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
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

// throttled is the version of the tables whose function add knows of throttling.
const throttled = 10

// A node is started before the tables are migrated, and goes on beside one that is started then.
func TestAProgramWorksWithTheTablesOfTheVersionBeforeWhileTheyAreMigrated(t *testing.T) {
	url := server.Database(t)
	c := pgtest.Connect(t, url)
	all := schema.Migrations(schema.Default)
	pgtest.Exec(t, c, schema.Script(schema.Default, all[:throttled-1]))
	before, err := postgres.Open(t.Context(), url, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = before.Close() })
	rules := storage.TypeRules{
		Type: "mail", Priority: 5, MaxPayload: 10, MaxResult: 20, KeepDone: time.Hour,
		Unique: storage.UniqueRules{OnConflict: "throttle", Window: time.Microsecond},
	}
	setRules := func(s *postgres.Store) {
		t.Helper()
		if err := s.SetRules(t.Context(), rules); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Rules(t.Context(), "mail"); err != nil || !cmp.Equal(got, rules) {
			t.Errorf("the rules are %+v, %v; want %+v", got, err, rules)
		}
	}
	setRules(before)
	add := func(want string) {
		t.Helper()
		if got := one[string](t, c, "select outcome from taskengine.add('mail', key => 'ended', ordering_key => 'a')"); got != want {
			t.Errorf("the function add says %s, want %s", got, want)
		}
	}
	live, ended := keyed(1, "a", "live"), keyed(2, "a", "ended")
	for _, row := range []*task.Task{live, ended} {
		if at := holder(t, before, row); !at.IsZero() {
			t.Fatalf("%v is in the way", at)
		}
	}
	end := []task.Change{{Ref: ended.Ref(), To: task.Cancelled, At: time.Now(), NextEventAt: time.Now().Add(time.Hour)}}
	if out := commit(t, before, &storage.Batch{Swap: end}); out.Swapped[0] == nil {
		t.Fatal("a task does not end")
	}
	add("existing") // the functions do not know of throttling

	pgtest.Exec(t, c, schema.Script(schema.Default, all[throttled-1:]))
	now := postgrestest.Open(t, url)
	setRules(now)
	third := keyed(3, "b", "live")
	if at := holder(t, before, third); !at.IsZero() {
		t.Fatalf("%v is in the way", at)
	}
	for i, s := range []*postgres.Store{before, now} {
		for _, was := range []*task.Task{live, ended, third} {
			if at := holder(t, s, keyed(byte(10+i), was.OrderingKey, was.Key)); at != was.ID {
				t.Errorf("store %d: the key %s within %s is that of %v", i, was.Key, was.OrderingKey, at)
			}
		}
	}
	if gone, err := before.Delete(t.Context(), third.Ref()); err != nil || !gone[0] {
		t.Fatalf("not deleted: %v, %v", gone, err)
	}
	if at := holder(t, now, keyed(4, "b", "live")); !at.IsZero() {
		t.Errorf("the key of a task that is gone is that of %v", at)
	}
	add("created")
	add("existing") // that waits
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
