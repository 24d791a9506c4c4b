package schema_test

import (
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/storage/postgres/schema"
)

// odd is a schema with a name that needs quotes in SQL.
const odd = "order"

func TestAppliedTellsWhatMigrateDidAndWhen(t *testing.T) {
	url := server.Database(t)
	if got, err := schema.Applied(t.Context(), url, odd); err != nil || len(got) != 0 {
		t.Fatalf("an empty database has %v, %v", got, err)
	}
	want, err := schema.Migrate(t.Context(), url, odd)
	if err != nil {
		t.Fatal(err)
	}
	got, err := schema.Applied(t.Context(), url, odd)
	if err != nil || len(got) != len(want) {
		t.Fatalf("got %v, %v; want %v", got, err, want)
	}
	for i := range want {
		if !got[i].At.Equal(want[i].At) || time.Since(got[i].At) > time.Hour {
			t.Errorf("version %d was applied at %v, and %v is reported", i+1, want[i].At, got[i].At)
		}
		if got[i].At = want[i].At; got[i] != want[i] {
			t.Errorf("got %+v, want %+v", got[i], want[i])
		}
	}
}

func TestAppliedTellsWhatANewerProgramDid(t *testing.T) {
	url := server.Database(t)
	known, err := schema.Migrate(t.Context(), url, odd)
	if err != nil {
		t.Fatal(err)
	}
	pgtest.Exec(t, pgtest.Connect(t, url), `insert into "order".migration (version, name) select max(version) + 1, 'of tomorrow' from "order".migration`)
	got, err := schema.Applied(t.Context(), url, odd)
	if err != nil || len(got) != len(known)+1 || got[len(known)].Name != "of tomorrow" || got[len(known)].SQL != "" {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := schema.Verify(t.Context(), url, odd); !errors.Is(err, schema.ErrMismatch) {
		t.Errorf("Verify returns %v", err)
	}
}

func TestVerifyFindsNothingWrongWithWhatMigrateMade(t *testing.T) {
	url := server.Database(t)
	if _, err := schema.Verify(t.Context(), url, odd); !errors.Is(err, schema.ErrMismatch) {
		t.Errorf("of an empty database it says %v", err)
	}
	if _, err := schema.Migrate(t.Context(), url, odd); err != nil {
		t.Fatal(err)
	}
	if got, err := schema.Verify(t.Context(), url+"&pool_max_conns=2", odd); err != nil || len(got) > 0 {
		t.Errorf("got %v, %v", got, err)
	}
	pgtest.Exec(t, pgtest.Connect(t, url), `create table "order".ended_3600 partition of "order".ended for values in (3600)`)
	if got, err := schema.Verify(t.Context(), url, odd); err != nil || len(got) > 0 {
		t.Errorf("with a table below ended got %v, %v", got, err)
	}
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	var left int
	if err := c.QueryRow(t.Context(), "select count(*) from pg_namespace where nspname like 'taskengine%'").Scan(&left); err != nil || left > 0 {
		t.Errorf("%d schemas are left behind (%v)", left, err)
	}
}

func TestVerifyTellsEveryDifference(t *testing.T) {
	for sql, want := range map[string]string{
		`drop index "order".task_ready`:                                         "index task_ready is missing: CREATE INDEX task_ready ON task USING btree",
		`create index mine on "order".task (owner)`:                             "index mine should not be there: CREATE INDEX mine ON task USING btree (owner)",
		`alter table "order".task alter due_state type int`:                     "column task.due_state is: integer storage plain; it should be: smallint storage plain",
		`alter table "order".task alter shard drop not null`:                    "column task.shard is: smallint storage plain; it should be: smallint not null storage plain",
		`alter table "order".task alter shard set default 7`:                    "column task.shard is: smallint not null default 7 storage plain; it should",
		`alter table "order".task add mine int`:                                 "column task.mine should not be there: integer",
		`alter table "order".ended drop history cascade`:                        "column ended.history is missing: bytea",
		`alter table "order".task alter payload set storage main`:               "column task.payload is: bytea storage main; it should be: bytea storage external",
		`alter table "order".task reset (fillfactor)`:                           "table task is: there with autovacuum",
		`alter table "order".setting set unlogged`:                              "table setting is: unlogged; it should be: there",
		`drop table "order".setting`:                                            "table setting is missing: there",
		`create table "order".mine ()`:                                          "table mine should not be there: there",
		`alter table "order".key drop constraint key_pkey`:                      "constraint key_pkey of key is missing: PRIMARY KEY (type, key, ordering_key)",
		`alter table "order".key add check (type <> '') not valid`:              "constraint key_type_check of key should not be there: CHECK (type <> ",
		`alter sequence "order".task_seq cache 50`:                              "sequence task_seq is: there bigint from 1 by 1, 1 to 9223372036854775807, cache 50",
		`create view "order".mine as select id from "order".task`:               "view mine should not be there: there",
		`create function "order".mine(a int) returns int language sql return 1`: "function mine(a integer) should not be there: returns integer sql volatile",
		`alter table "order".key drop id cascade; alter table "order".key add id uuid not null; alter table "order".key drop key cascade, add key bytea not null`: "order of columns of key is: type, ordering_key, id, key; it should be: type, ordering_key, key, id",
	} {
		t.Run(sql, func(t *testing.T) {
			url := server.Database(t)
			if _, err := schema.Migrate(t.Context(), url, odd); err != nil {
				t.Fatal(err)
			}
			pgtest.Exec(t, pgtest.Connect(t, url), sql)
			got, err := schema.Verify(t.Context(), url, odd)
			if err != nil {
				t.Fatal(err)
			}
			var said strings.Builder
			for _, d := range got {
				said.WriteString(d.String() + "\n")
			}
			if !strings.Contains("\n"+said.String(), "\n"+want) {
				t.Errorf("it says\n%s", &said)
			}
		})
	}
}

func TestAScriptDoesWhatMigrateDoes(t *testing.T) {
	url := server.Database(t)
	script := schema.Script(odd, schema.Migrations(odd))
	psql(t, url, script)
	if got, err := schema.Verify(t.Context(), url, odd); err != nil || len(got) > 0 {
		t.Errorf("Verify says %v, %v", got, err)
	}
	again, err := schema.Migrate(t.Context(), url, odd)
	if err != nil || len(again) > 0 {
		t.Errorf("there is more to apply: %v, %v", again, err)
	}
	applied, err := schema.Applied(t.Context(), url, odd)
	if err != nil || len(applied) != len(schema.Migrations(odd)) {
		t.Errorf("applied are %v, %v", applied, err)
	}
	if said := psqlFails(t, url, script); !strings.Contains(said, "these migrations begin after version 0, and the tables are at version") {
		t.Errorf("a second time it says %s", said)
	}
	if got := schema.Script(odd, nil); got != "" {
		t.Errorf("the script of nothing is %q", got)
	}
}

func psql(t *testing.T, url, script string) {
	t.Helper()
	if out, err := psqlCommand(t, url, script).CombinedOutput(); err != nil {
		t.Fatalf("psql: %v: %s", err, out)
	}
}

func psqlFails(t *testing.T, url, script string) string {
	t.Helper()
	out, err := psqlCommand(t, url, script).CombinedOutput()
	if err == nil {
		t.Fatalf("psql does not fail: %s", out)
	}
	return string(out)
}

func psqlCommand(t *testing.T, url, script string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), "psql", "--no-psqlrc", "--set", "ON_ERROR_STOP=1", "--dbname", url)
	cmd.Stdin = strings.NewReader(script)
	return cmd
}
