package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Applied returns the migrations that a database has, in their order; none if it has no
// tables in the schema. Those that only a newer program knows have no SQL.
func Applied(ctx context.Context, url string, o Options) (applied []Migration, err error) {
	err = look(ctx, url, o, func(tx pgx.Tx, schema string) (err error) {
		applied, err = appliedIn(ctx, tx, schema)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("postgres: look at the migrations: %w", err)
	}
	return applied, nil
}

// look calls fn with a transaction that is rolled back.
func look(ctx context.Context, url string, o Options, fn func(tx pgx.Tx, schema string) error) error {
	schema, err := schemaOf(o)
	if err != nil {
		return err
	}
	config, err := pgxpool.ParseConfig(url) // it knows the options of a pool, and takes them away
	if err != nil {
		return err
	}
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

// appliedIn is Applied within a transaction, which is of no use any more if there are no
// tables.
func appliedIn(ctx context.Context, tx pgx.Tx, schema string) ([]Migration, error) {
	// An error of Query is one of CollectRows, too.
	rows, _ := tx.Query(ctx, filler(schema)("select version, name, applied_at from {migration} order by version"))
	known := Migrations(schema)
	applied, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (m Migration, err error) {
		err = row.Scan(&m.Version, &m.Name, &m.At)
		if i := m.Version - 1; i >= 0 && i < len(known) {
			m.SQL = known[i].SQL
		}
		return m, err
	})
	switch {
	case isNoTable(err):
		return nil, nil
	case err != nil:
		return nil, advised(err, configOf(tx), toRead(schema))
	}
	return applied, nil
}

// Script returns SQL that does what [Migrate] does for the given migrations of a schema,
// which follow each other: for people who let no program change their tables. It refuses
// to run on a database that has others than those before the first of them.
func Script(schema string, ms []Migration) string {
	if len(ms) == 0 {
		return ""
	}
	fill := filler(schema)
	var b strings.Builder
	fmt.Fprintf(&b, "begin isolation level read committed;\n\n-- Those who run taskengine migrate apply wait.\ndo $$ begin perform pg_advisory_xact_lock(%d); end $$;\n", lockOf("migrate", schema))
	b.WriteString(fill(beforeMigrations) + "\n")
	b.WriteString(fill(fmt.Sprintf(`
do $$
begin
	if (select coalesce(max(version), 0) from {migration}) <> %d then
		raise exception 'these migrations begin after version %[1]d, and the tables are at version %%', (select coalesce(max(version), 0) from {migration});
	end if;
end
$$;
`, ms[0].Version-1)))
	for _, m := range ms {
		fmt.Fprintf(&b, "\n-- Version %d: %s\n\n%s\n", m.Version, m.Name, strings.TrimSpace(m.SQL))
		fmt.Fprintf(&b, "\n"+fill("insert into {migration} (version, name) values (%d, '%s');\n"), m.Version, strings.ReplaceAll(m.Name, "'", "''"))
	}
	b.WriteString("\ncommit;\n")
	return b.String()
}
