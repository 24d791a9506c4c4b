package schema

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/taskengine/taskengine/internal/pgsession"
)

// If the schema exists, the role does not need the right to create one.
const beforeMigrations = `
do $$ begin
	if to_regnamespace({schema_literal}) is null then
		create schema {schema};
	end if;
end $$;
create table if not exists {migration} (
	version    integer     primary key,
	name       text        not null,
	applied_at timestamptz not null default now(),
	functions  text -- which functions were made with it; null if others have replaced them
);`

// They go after the functions of a program.
const (
	selectFunctions = "select functions from {migration} order by version desc limit 1"
	noteFunctions   = "update {migration} set functions = case version when (select max(version) from {migration}) then '%s' end"
)

// Migrate applies the migrations that the database does not have, in one transaction, and returns
// them. Then it replaces the functions if this program has others. Of several concurrent calls one does so,
// and the others wait for it. It does not change tables or functions of the version after this program's. For newer tables,
// and for tables from before the first release, the error wraps [ErrMismatch].
func Migrate(ctx context.Context, url string, schema string) (applied []Migration, err error) {
	return migrate(ctx, url, schema, own)
}

func migrate(ctx context.Context, url, schema string, of func(schema string) release) (applied []Migration, err error) {
	schema, err = Name(schema)
	if err != nil {
		return nil, err
	}
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("postgres: migrate: %w", err)
	}
	pgsession.Prepare(&config.ConnConfig.Config)
	c, err := pgx.ConnectConfig(ctx, config.ConnConfig)
	if err != nil {
		return nil, fmt.Errorf("postgres: migrate: %w", advised(err, config.ConnConfig, toMigrate(schema)))
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
	err = pgx.BeginTxFunc(ctx, c, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) (err error) {
		if err := pgsession.Begin(ctx, tx); err != nil {
			return err
		}
		if err := checkEncoding(ctx, tx); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "select pg_advisory_xact_lock($1)", Lock("migrate", schema)); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, Fill(schema)(beforeMigrations), pgx.QueryExecModeSimpleProtocol); err != nil {
			return err
		}
		applied, err = of(schema).apply(ctx, tx, schema)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("postgres: migrate: %w", advised(err, config.ConnConfig, toMigrate(schema)))
	}
	return applied, nil
}

// apply brings tables and functions to the state of r, unless they are newer.
func (r release) apply(ctx context.Context, tx pgx.Tx, schema string) (applied []Migration, err error) {
	at, err := readVersion(ctx, tx, schema)
	if err != nil {
		return nil, err
	}
	if err := r.checkNew(at); err != nil || at > len(r.migrations) {
		return nil, err
	}
	fill := Fill(schema)
	for _, m := range r.migrations[at:] {
		if _, err := tx.Exec(ctx, m.SQL, pgx.QueryExecModeSimpleProtocol); err != nil {
			return nil, fmt.Errorf("version %d (%s): %w", m.Version, m.Name, err)
		}
		if err := tx.QueryRow(ctx, fill("insert into {migration} (version, name) values ($1, $2) returning applied_at"), m.Version, m.Name).Scan(&m.At); err != nil {
			return nil, err
		}
		applied = append(applied, m)
	}
	var there *string
	if err := tx.QueryRow(ctx, fill(selectFunctions)).Scan(&there); err != nil {
		return nil, err
	}
	if there != nil && *there == r.fingerprint() {
		return applied, nil
	}
	if _, err := tx.Exec(ctx, r.functions, pgx.QueryExecModeSimpleProtocol); err != nil {
		return nil, fmt.Errorf("the functions of version %d: %w", len(r.migrations), err)
	}
	_, err = tx.Exec(ctx, fmt.Sprintf(fill(noteFunctions), r.fingerprint()))
	return applied, err
}
