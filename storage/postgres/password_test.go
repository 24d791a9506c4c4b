package postgres_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres"
	"github.com/taskengine/taskengine/storage/postgres/schema"
	"github.com/taskengine/taskengine/task"
)

// TestAPasswordThatIsReplacedIsReadAgain replaces the password of the role, ends its connections, and then replaces the
// password where the store has it from.
func TestAPasswordThatIsReplacedIsReadAgain(t *testing.T) {
	t.Parallel()
	url := server.Database(t)
	admin := pgtest.Connect(t, url)
	database := admin.Config().Database
	role := "checked_" + database
	pgtest.Exec(t, admin, "create role "+role+" login password 'one'", "grant create on database "+database+" to "+role)
	t.Cleanup(func() { pgtest.Exec(t, admin, "drop owned by "+role, "drop role "+role) })
	var rules string
	if err := admin.QueryRow(t.Context(), "show hba_file").Scan(&rules); err != nil {
		t.Fatal(err)
	}
	pgtest.Exec(t, admin, "copy (values ('host "+database+" "+role+" 127.0.0.1/32 scram-sha-256'), ('host all all 127.0.0.1/32 trust'), ('local all all trust')) to '"+rules+"'",
		"select pg_reload_conf()")
	with := func(password string) string { return strings.Replace(url, "postgres@", role+":"+password+"@", 1) }
	for { // the server reads the file soon
		conn, err := pgx.Connect(t.Context(), with("wrong"))
		if err != nil {
			break
		}
		if err := conn.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := schema.Migrate(t.Context(), with("one"), schema.Default); err != nil {
		t.Fatal(err)
	}
	var now atomic.Value
	now.Store(with("one"))
	s, err := postgres.Open(t.Context(), with("one"), postgres.Options{Again: func() (string, error) { return now.Load().(string), nil }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ids := task.NewIDs([32]byte{1})
	add := func() error {
		_, err := s.Insert(t.Context(), &task.Task{ID: ids.Next(moment), Version: 1, State: task.Submitted, Type: "mail", CreatedAt: moment, ReadyAt: moment})
		return err
	}
	if err := add(); err != nil {
		t.Fatal(err)
	}
	pgtest.Exec(t, admin, "alter role "+role+" password 'two'",
		"select pg_terminate_backend(pid) from pg_stat_activity where usename = '"+role+"'")
	for n := 0; ; n++ { // at first a connection that was cut may be used
		err := add()
		if err == nil || !errors.Is(err, storage.ErrUnavailable) {
			t.Fatalf("with the old password: %v, want %v", err, storage.ErrUnavailable)
		}
		if strings.Contains(err.Error(), "28P01") {
			break
		}
		if n == 100 {
			t.Fatalf("it does not connect again: %v", err)
		}
	}
	now.Store(with("two"))
	if err := add(); err != nil {
		t.Errorf("with the new password: %v", err)
	}
}
