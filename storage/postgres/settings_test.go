//go:build !race

package postgres_test

import (
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/storage/postgres"
	"github.com/taskengine/taskengine/storage/postgres/schema"
	"github.com/taskengine/taskengine/task"
)

// TestSettingsOfTheRoleChangeNothing has a role with settings under which the statements of the store would mean
// something else or fail.
func TestSettingsOfTheRoleChangeNothing(t *testing.T) {
	t.Parallel()
	url := server.Database(t)
	admin := pgtest.Connect(t, url)
	database := admin.Config().Database
	role := "odd_" + database
	pgtest.Exec(t, admin, "create role "+role+" login", "grant create on database "+database+" to "+role)
	t.Cleanup(func() { pgtest.Exec(t, admin, "drop owned by "+role, "drop role "+role) })
	for _, setting := range []string{
		"client_encoding = 'LATIN1'", "standard_conforming_strings = off", "default_transaction_isolation = 'serializable'",
		"bytea_output = 'escape'", "datestyle = 'German'", "intervalstyle = 'sql_standard'", "search_path = ''", "timezone = 'Asia/Tokyo'",
	} {
		pgtest.Exec(t, admin, "alter role "+role+" set "+setting)
	}
	odd := strings.Replace(url, "postgres@", role+"@", 1)
	if _, err := schema.Migrate(t.Context(), odd, schema.Default); err != nil {
		t.Fatal(err)
	}
	s, err := postgres.Open(t.Context(), odd, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, setting := range []string{"client_encoding UTF8", "standard_conforming_strings on", "default_transaction_isolation read committed"} {
		name, want, _ := strings.Cut(setting, " ")
		var got string
		if err := s.Pool().QueryRow(t.Context(), "select current_setting($1)", name).Scan(&got); err != nil || got != want {
			t.Errorf("%s is %s, %v, want %s", name, got, err, want)
		}
	}
	ids := task.NewIDs([32]byte{1})
	finish(t, s, ids, moment, time.Hour, "clé 日")
	mustAdd(t, s.Pool(), "'ship', key => 'clé 日'")
	expire(t, s, moment.Add(100*time.Hour))
	countsAre(t, s, "at the end")
}

func TestADatabaseThatIsNotUTF8IsRefused(t *testing.T) {
	t.Parallel()
	url := server.Database(t)
	admin := pgtest.Connect(t, url)
	name := admin.Config().Database + "_latin"
	pgtest.Exec(t, admin, "create database "+name+" encoding 'LATIN1' lc_collate 'C' lc_ctype 'C' template template0")
	t.Cleanup(func() { pgtest.Exec(t, admin, "drop database "+name+" with (force)") })
	latin := strings.Replace(url, admin.Config().Database, name, 1)
	_, migrated := schema.Migrate(t.Context(), latin, schema.Default)
	_, opened := postgres.Open(t.Context(), latin, postgres.Options{})
	for _, err := range []error{migrated, opened} {
		if err == nil || !strings.Contains(err.Error(), "the database has the encoding LATIN1 and needs UTF8") {
			t.Errorf("the error is %v", err)
		}
	}
}
