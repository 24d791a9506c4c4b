package schema_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/storage/postgres"
	"github.com/taskengine/taskengine/storage/postgres/schema"
)

// What a made-up next version changes.
const (
	nextTables    = "alter table {task} add mine integer not null default 7;"
	nextFunctions = `
create or replace function {schema}.moment(us bigint) returns timestamptz language sql immutable as $$ select timestamptz '2100-01-01 00:00:00+00' $$;
create or replace function {schema}.mine() returns integer language sql as $$ select max(mine) from {task} $$;`
)

func TestTheNextVersionMigratesTheTablesAndReplacesTheFunctions(t *testing.T) {
	for name, migrate := range map[string]func(url string) error{
		"apply": func(url string) error {
			applied, err := schema.MigrateNext(t.Context(), url, odd, nextTables, nextFunctions)
			if err == nil && (len(applied) != 1 || applied[0].Name != "of tomorrow" || applied[0].At.IsZero()) {
				t.Errorf("applied are %+v", applied)
			}
			return err
		},
		"sql": func(url string) error {
			psql(t, url, schema.ScriptNext(odd, nextTables, nextFunctions))
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			url := server.Database(t)
			if _, err := schema.Migrate(t.Context(), url, odd); err != nil {
				t.Fatal(err)
			}
			c := pgtest.Connect(t, url)
			pgtest.Exec(t, c, `select "order".add('mail')`, `grant execute on function "order".add(text, jsonb, text, text, integer, timestamptz, timestamptz, jsonb, uuid, boolean, uuid[], boolean) to public`)
			var definers int
			if err := c.QueryRow(t.Context(), `select count(*) from pg_proc where prosecdef and pronamespace = '"order"'::regnamespace`).Scan(&definers); err != nil {
				t.Fatal(err)
			}
			if err := migrate(url); err != nil {
				t.Fatal(err)
			}
			var mine, year, granted, owned int
			if err := c.QueryRow(t.Context(), `
select "order".mine(), extract(year from "order".moment(0)), count(*) filter (where has_function_privilege('public', oid, 'execute')),
	count(*) filter (where not has_function_privilege('public', oid, 'execute'))
from pg_proc where prosecdef and pronamespace = '"order"'::regnamespace`).Scan(&mine, &year, &granted, &owned); err != nil {
				t.Fatal(err)
			}
			if mine != 7 || year != 2100 || granted != 1 || owned != definers-1 {
				t.Errorf("the new column has %d, a replaced function returns the year %d, %d rights stay, and %d functions of %d are of the owner", mine, year, granted, owned, definers)
			}
			// This program works on these tables, and leaves them and the functions alone.
			if applied, err := schema.Migrate(t.Context(), url, odd); err != nil || len(applied) != 0 {
				t.Errorf("this program applies %v, %v", applied, err)
			}
			if err := c.QueryRow(t.Context(), `select extract(year from "order".moment(0))`).Scan(&year); err != nil || year != 2100 {
				t.Errorf("this program takes functions back: %d, %v", year, err)
			}
			s, err := postgres.Open(t.Context(), url, postgres.Options{Schema: odd})
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if _, err := schema.Verify(t.Context(), url, odd); !errors.Is(err, schema.ErrMismatch) {
				t.Errorf("Verify returns %v", err)
			}
		})
	}
}

func TestTheNextVersionMakesTheTablesOfAnEmptyDatabase(t *testing.T) {
	url := server.Database(t)
	applied, err := schema.MigrateNext(t.Context(), url, odd, nextTables, nextFunctions)
	if err != nil || len(applied) != len(schema.Migrations(odd))+1 {
		t.Fatalf("applied are %v, %v", applied, err)
	}
	if _, err := schema.Migrate(t.Context(), url, odd); err != nil {
		t.Error(err)
	}
}

func TestTheNextVersionWorksOnTheTablesOfThisOne(t *testing.T) {
	at := len(schema.Migrations(odd))
	for version, fits := range map[int]bool{0: false, at: true, at + 1: true, at + 2: true, at + 3: false} {
		if err := schema.CheckNext(version, odd); (err == nil) != fits || err != nil && !errors.Is(err, schema.ErrMismatch) {
			t.Errorf("tables at version %d: %v", version, err)
		}
	}
}

func TestOtherFunctionsAreReplacedThoughTheVersionIsTheSame(t *testing.T) {
	url := server.Database(t)
	if _, err := schema.Migrate(t.Context(), url, odd); err != nil {
		t.Fatal(err)
	}
	c := pgtest.Connect(t, url)
	pgtest.Exec(t, c, `create or replace function "order".moment(us bigint) returns timestamptz language sql immutable as $$ select now() $$`,
		`update "order".migration set functions = 'others'`)
	if found, err := schema.Verify(t.Context(), url, odd); err != nil || len(found) != 1 {
		t.Errorf("Verify finds %v, %v", found, err)
	}
	if applied, err := schema.Migrate(t.Context(), url, odd); err != nil || len(applied) != 0 {
		t.Errorf("applied are %v, %v", applied, err)
	}
	if found, err := schema.Verify(t.Context(), url, odd); err != nil || len(found) != 0 {
		t.Errorf("Verify finds %v, %v", found, err)
	}
}

func TestTablesOfADevelopmentBuildAreRefused(t *testing.T) {
	url := server.Database(t)
	pgtest.Exec(t, pgtest.Connect(t, url), `create schema "order"`,
		`create table "order".migration (version integer primary key, name text not null, applied_at timestamptz not null default now())`,
		`insert into "order".migration (version, name) values (1, 'tasks'), (2, 'add')`)
	for name, do := range map[string]func() error{
		"migrate": func() error { _, err := schema.Migrate(t.Context(), url, odd); return err },
		"plan":    func() error { _, err := schema.Applied(t.Context(), url, odd); return err },
		"verify":  func() error { _, err := schema.Verify(t.Context(), url, odd); return err },
		"open":    func() error { _, err := postgres.Open(t.Context(), url, postgres.Options{Schema: odd}); return err },
	} {
		if err := do(); !errors.Is(err, schema.ErrMismatch) || !strings.Contains(err.Error(), "a development build has made the tables in the schema order") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
