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
create table if not exists {migration} (version integer primary key, name text not null, applied_at timestamptz not null default now());`

// Migrate applies the migrations that the database does not have, in one transaction, and returns
// them. Of several concurrent calls one does so, and the others wait for it. It does not change
// tables of the version after this program's. For newer tables the error wraps [ErrMismatch].
func Migrate(ctx context.Context, url string, schema string) (applied []Migration, err error) {
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
	err = pgx.BeginTxFunc(ctx, c, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
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
			if err := tx.QueryRow(ctx, Fill(schema)("insert into {migration} (version, name) values ($1, $2) returning applied_at"), m.Version, m.Name).Scan(&m.At); err != nil {
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
