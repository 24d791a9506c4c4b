package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	coordination "github.com/taskengine/taskengine/coord/postgres"
)

// ErrSchema says that the tables are not those that this version of the program works
// with.
var ErrSchema = errors.New("the schema of the database does not fit")

//go:embed migrations/*.sql
var files embed.FS

// Migration is a step from one version of the tables to the next. Programs of one version
// work with the tables of the version before, too.
type Migration struct {
	Version int       // from 1
	Name    string    // what it does
	SQL     string    // with the name of the schema filled in
	At      time.Time // when it was applied, by the database's clock; zero if it was not
}

// coordinationVersion is the version whose tables are those of package coord/postgres, and
// livenessVersion that which has its second version, too. From earlyVersion on the tables know
// of what ended early: see maxEarly.
const (
	coordinationVersion = 3
	livenessVersion     = 5
	earlyVersion        = 5
)

// Migrations returns all of them for a schema, in their order, none of them applied.
func Migrations(schema string) []Migration {
	entries, err := files.ReadDir("migrations")
	if err != nil {
		panic(err) // it is part of the program
	}
	out := make([]Migration, 0, len(entries)+1)
	add := func(name, sql string) {
		out = append(out, Migration{Version: len(out) + 1, Name: name, SQL: sql})
		if len(out) == coordinationVersion-1 {
			out = append(out, Migration{Version: coordinationVersion, Name: "coordination", SQL: coordination.DDL(schema)})
		}
	}
	for _, e := range entries {
		text, err := files.ReadFile(path.Join("migrations", e.Name()))
		if err != nil {
			panic(err)
		}
		number, name, _ := strings.Cut(strings.TrimSuffix(e.Name(), ".sql"), "_")
		version, err := strconv.Atoi(number)
		if err != nil || version != len(out)+1 {
			panic(fmt.Sprintf("migration %s is not number %d", e.Name(), len(out)+1))
		}
		sql := filler(schema)(string(text))
		if version == livenessVersion {
			sql += coordination.Upgrade(schema)
		}
		add(strings.ReplaceAll(name, "_", " "), sql)
	}
	return out
}

// A schema that somebody else has made takes no right to make one.
const beforeMigrations = `
do $$ begin
	if to_regnamespace({schema_literal}) is null then
		create schema {schema};
	end if;
end $$;
create table if not exists {migration} (version integer primary key, name text not null, applied_at timestamptz not null default now());`

// Migrate applies the migrations that have not been, in one transaction, and returns
// them. Several may do so at once: one does it, and the others wait. Tables of the version
// after this program's are left as they are, and newer ones are refused with [ErrSchema].
func Migrate(ctx context.Context, url string, o Options) (applied []Migration, err error) {
	schema, err := schemaOf(o)
	if err != nil {
		return nil, err
	}
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("postgres: migrate: %w", err)
	}
	c, err := pgx.ConnectConfig(ctx, config.ConnConfig)
	if err != nil {
		return nil, fmt.Errorf("postgres: migrate: %w", advised(err, config.ConnConfig, toMigrate(schema)))
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
	err = pgx.BeginTxFunc(ctx, c, readCommitted, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "select pg_advisory_xact_lock($1)", lockOf("migrate", schema)); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, filler(schema)(beforeMigrations), pgx.QueryExecModeSimpleProtocol); err != nil {
			return err
		}
		at, err := readVersion(ctx, tx, schema)
		if err != nil {
			return err
		}
		if err := CheckVersion(at); err != nil {
			return err
		}
		all := Migrations(schema)
		for _, m := range all[min(at, len(all)):] {
			if _, err := tx.Exec(ctx, m.SQL, pgx.QueryExecModeSimpleProtocol); err != nil {
				return fmt.Errorf("version %d (%s): %w", m.Version, m.Name, err)
			}
			if err := tx.QueryRow(ctx, filler(schema)("insert into {migration} (version, name) values ($1, $2) returning applied_at"), m.Version, m.Name).Scan(&m.At); err != nil {
				return err
			}
			applied = append(applied, m)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("postgres: migrate: %w", advised(err, config.ConnConfig, toMigrate(schema)))
	}
	return applied, nil
}

// querier is a connection, a pool or a transaction.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// versionOf returns the version of the tables, 0 if there are none. Its error says what to
// do about it, if that is known.
func versionOf(ctx context.Context, q querier, schema string) (int, error) {
	version, err := readVersion(ctx, q, schema)
	if err != nil {
		return 0, advised(err, configOf(q), toRead(schema))
	}
	return version, nil
}

func readVersion(ctx context.Context, q querier, schema string) (version int, err error) {
	err = q.QueryRow(ctx, filler(schema)("select coalesce(max(version), 0) from {migration}")).Scan(&version)
	if isNoTable(err) {
		return 0, nil
	}
	return version, err
}

// checkSchema returns the version of the tables, and an error that wraps ErrSchema unless they
// fit.
func checkSchema(ctx context.Context, q querier, schema string) (int, error) {
	at, err := versionOf(ctx, q, schema)
	if err != nil {
		return 0, fmt.Errorf("postgres: look at the schema %s: %w", schema, err)
	}
	want := len(Migrations(schema))
	switch {
	case at == 0:
		return 0, fmt.Errorf("postgres: %w: there are no tables in the schema %s of this database; run `taskengine migrate apply`", ErrSchema, schema)
	case at < want-1:
		return 0, fmt.Errorf("postgres: %w: it is at version %d, and this program needs %d or %d; run `taskengine migrate apply`", ErrSchema, at, want-1, want)
	}
	if err := CheckVersion(at); err != nil {
		return 0, fmt.Errorf("postgres: %w", err)
	}
	return at, nil
}

// CheckVersion returns an error that wraps [ErrSchema] if tables at a version are too new
// for this program: newer than by one.
func CheckVersion(at int) error {
	if known := len(Migrations(DefaultSchema)); at > known+1 {
		return fmt.Errorf("%w: it is at version %d, and this program works with %d and the one after it; run a newer version of the program", ErrSchema, at, known)
	}
	return nil
}

// unknown says that nobody here knows what tables of a version are like.
func unknown(at, known int) error {
	return fmt.Errorf("%w: a newer program has made it, at version %d, and this one knows what it is like up to %d only; use the newer one", ErrSchema, at, known)
}
