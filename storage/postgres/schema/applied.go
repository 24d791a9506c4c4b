package schema

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/taskengine/taskengine/internal/pgsession"
)

// Applied returns the migrations that a database has, in their order; none if the schema has no
// tables. Migrations of a newer program have no SQL.
func Applied(ctx context.Context, url string, schema string) (applied []Migration, err error) {
	err = look(ctx, url, schema, func(tx pgx.Tx, schema string) (err error) {
		applied, err = appliedIn(ctx, tx, schema)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("postgres: look at the migrations: %w", err)
	}
	return applied, nil
}

// look calls fn with a transaction that is rolled back.
func look(ctx context.Context, url string, schema string, fn func(tx pgx.Tx, schema string) error) error {
	schema, err := Name(schema)
	if err != nil {
		return err
	}
	config, err := pgxpool.ParseConfig(url) // it removes the options of a pool
	if err != nil {
		return err
	}
	pgsession.Prepare(&config.ConnConfig.Config)
	c, err := pgx.ConnectConfig(ctx, config.ConnConfig)
	if err != nil {
		return advised(err, config.ConnConfig, toRead(schema))
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
	tx, err := c.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // at the latest with its connection
	return fn(tx, schema)
}

// appliedIn is Applied within a transaction. If there are no tables, the transaction has failed.
func appliedIn(ctx context.Context, tx pgx.Tx, schema string) ([]Migration, error) {
	// An error of Query is one of CollectRows, too.
	rows, _ := tx.Query(ctx, Fill(schema)("select version, name, applied_at from {migration} order by version"))
	known := Migrations(schema)
	applied, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (m Migration, err error) {
		err = row.Scan(&m.Version, &m.Name, &m.At)
		if i := m.Version - 1; i >= 0 && i < len(known) {
			m.SQL = known[i].SQL
		}
		return m, err
	})
	switch {
	case IsMissing(err):
		return nil, nil
	case err != nil:
		return nil, advised(err, configOf(tx), toRead(schema))
	case len(applied) > 0 && applied[0].Name != firstName:
		return nil, errUnreleased(schema)
	}
	return applied, nil
}
