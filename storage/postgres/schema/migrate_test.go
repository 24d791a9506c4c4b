package schema_test

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/storage/postgres"
	"github.com/taskengine/taskengine/storage/postgres/postgrestest"
	"github.com/taskengine/taskengine/storage/postgres/schema"
)

// userOf returns a URL with which another role uses the database.
func userOf(url, role string) string { return url + "&user=" + role }

func TestErrorsOfTheDatabaseSayWhatToDo(t *testing.T) {
	own, foreign, empty := server.Database(t), server.Database(t), server.Database(t)
	postgrestest.Open(t, own)
	pgtest.Exec(t, pgtest.Connect(t, own), "drop role if exists stranger", "create role stranger login")
	t.Cleanup(func() { pgtest.Exec(t, pgtest.Connect(t, own), "drop role stranger") })
	pgtest.Exec(t, pgtest.Connect(t, foreign), "create schema taskengine", "create table taskengine.migration (version integer)")
	var database string
	if err := pgtest.Connect(t, empty).QueryRow(t.Context(), "select current_database()").Scan(&database); err != nil {
		t.Fatal(err)
	}
	nowhere := strings.Replace(empty, database, "nodb", 1)

	migrate := func(url string) error {
		_, err := schema.Migrate(t.Context(), url, schema.Default)
		return err
	}
	applied := func(url string) error {
		_, err := schema.Applied(t.Context(), url, schema.Default)
		return err
	}
	verify := func(url string) error {
		_, err := schema.Verify(t.Context(), url, schema.Default)
		return err
	}
	use := func(url string) error {
		s, err := postgres.Open(t.Context(), url, postgres.Options{})
		if err == nil {
			err = s.Close()
		}
		return err
	}
	const owns, reads = "connect as the role that owns", "grant usage on schema taskengine to stranger; grant select on all tables in schema taskengine to stranger"
	for name, c := range map[string]struct {
		do   func(url string) error
		url  string
		says []string
	}{
		"no schema, and no right to make one": {migrate, userOf(empty, "stranger"), []string{"permission denied", "grant create on database " + database + " to stranger", owns}},
		"a schema of another role":            {migrate, userOf(foreign, "stranger"), []string{"permission denied", owns}},
		"tables of another role, planned":     {applied, userOf(own, "stranger"), []string{"permission denied", owns, reads}},
		"tables of another role, verified":    {verify, userOf(own, "stranger"), []string{"permission denied", owns, reads}},
		"tables of another role, used":        {use, userOf(own, "stranger"), []string{"permission denied", owns, reads}},
		"no database to migrate":              {migrate, userOf(nowhere, "stranger"), []string{`database "nodb" does not exist`, "create database nodb owner stranger"}},
		"no database to look at":              {applied, nowhere, []string{`database "nodb" does not exist`, "create database nodb"}},
		"no database to verify":               {verify, nowhere, []string{`database "nodb" does not exist`, "create database nodb"}},
		"no database to use":                  {use, nowhere, []string{`database "nodb" does not exist`, "create database nodb"}},
		"no role":                             {use, userOf(own, "nobody"), []string{"does not exist", "create role"}},
		"another password":                    {use, refusing(t, "28P01", `password authentication failed for user "u"`), []string{"password authentication failed", "PGPASSWORD"}},
		"another password, to migrate":        {migrate, refusing(t, "28P01", `password authentication failed for user "u"`), []string{"PGPASSWORD"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.do(c.url)
			if err == nil {
				t.Fatal("there is no error")
			}
			for _, says := range c.says {
				if strings.Count(err.Error(), says) != 1 {
					t.Errorf("the error is %q, without %q or with more of it", err, says)
				}
			}
		})
	}
}

// refusing returns the URL of a server that refuses all connections: the servers of the tests accept all.
func refusing(t *testing.T, code, message string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { _ = l.Close(); <-done })
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			b := pgproto3.NewBackend(c, c)
			if _, err := b.ReceiveStartupMessage(); err == nil {
				b.Send(&pgproto3.ErrorResponse{Severity: "FATAL", Code: code, Message: message})
				_ = b.Flush()
			}
			_ = c.Close()
		}
	}()
	return fmt.Sprintf("postgres://u:secret@%s/tasks?sslmode=disable", l.Addr())
}

func TestTablesOfTheNextVersionAreUsedAndNotMigrated(t *testing.T) {
	url := server.Database(t)
	postgrestest.Open(t, url)
	c := pgtest.Connect(t, url)
	tomorrow := len(schema.Migrations(schema.Default)) + 1
	add := func(version int) {
		pgtest.Exec(t, c, fmt.Sprintf("insert into taskengine.migration (version, name) values (%d, 'of tomorrow')", version))
	}
	add(tomorrow)
	if applied, err := schema.Migrate(t.Context(), url, schema.Default); err != nil || len(applied) != 0 {
		t.Errorf("tables of the next version: %v were applied, %v", applied, err)
	}
	postgrestest.Open(t, url)
	if _, err := schema.Verify(t.Context(), url, schema.Default); !errors.Is(err, schema.ErrMismatch) || strings.Contains(err.Error(), "the one after it") {
		t.Errorf("verifying them: %v", err)
	}
	if err := schema.CheckVersion(tomorrow); err != nil {
		t.Error(err)
	}
	add(tomorrow + 1)
	for what, err := range map[string]error{
		"migrate": func() error { _, err := schema.Migrate(t.Context(), url, schema.Default); return err }(),
		"open":    func() error { _, err := postgres.Open(t.Context(), url, postgres.Options{}); return err }(),
		"check":   schema.CheckVersion(tomorrow + 1),
	} {
		if !errors.Is(err, schema.ErrMismatch) || !strings.Contains(err.Error(), "run a newer version") {
			t.Errorf("%s, with tables of the version after the next: %v", what, err)
		}
	}
}

func TestTablesAreMadeWhateverTheIsolationLevelIsByDefault(t *testing.T) {
	for name, migrate := range map[string]func(url string) error{
		"apply": func(url string) error {
			_, err := schema.Migrate(t.Context(), url, schema.Default)
			return err
		},
		"sql": func(url string) error {
			_, err := pgtest.Connect(t, url).Exec(t.Context(), schema.Script(schema.Default, schema.Migrations(schema.Default)), pgx.QueryExecModeSimpleProtocol)
			return err
		},
	} {
		url := server.Database(t)
		if err := migrate(url + "&default_transaction_isolation=serializable"); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if wrong, err := schema.Verify(t.Context(), url, schema.Default); err != nil || len(wrong) > 0 {
			t.Errorf("%s: %v, %v", name, wrong, err)
		}
	}
}
