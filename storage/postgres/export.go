package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/storage"
)

var _ storage.Exporter = (*Store)(nil)

// An export takes as long as whoever takes it.
const patient = `
select set_config(name, '0', true) from pg_settings
where name in ('statement_timeout', 'idle_in_transaction_session_timeout', 'transaction_timeout')`

const selectSettings = `select name, value from {engine_setting} order by name`

const selectEverything = `
select {narrow}, {heavy} from (
	select {narrow}, {heavy} from {task}
	union all
	select {narrow}, {heavy} from {ended}) t
order by seq`

// Export implements [storage.Exporter]. It takes one connection, and its snapshot keeps
// the database from vacuuming what ends meanwhile. The server sorts the rows, on its disk
// if they are many.
func (s *Store) Export(ctx context.Context, setting func(string, []byte) error, row func(*task.Task) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	tx, err := s.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return s.failed("export", err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // it has changed nothing
	if _, err := tx.Exec(ctx, patient); err != nil {
		return s.failed("export", err)
	}
	if err := s.each(ctx, tx, s.fill(selectSettings), func(rows pgx.Rows) error {
		r := reader{values: rows.RawValues()}
		name, value := r.text(), r.bytes()
		return setting(name, append([]byte{}, value...))
	}); err != nil {
		return err
	}
	return s.each(ctx, tx, s.fill(selectEverything), func(rows pgx.Rows) error {
		t, err := scanRow(rows)
		if err != nil {
			return s.failed("export", err)
		}
		return row(t)
	})
}

// each calls fn for the rows of a query as they come. Its error breaks the query off, with
// the connection: the rest of the rows is not waited for.
func (s *Store) each(ctx context.Context, tx pgx.Tx, sql string, fn func(pgx.Rows) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	rows, err := tx.Query(ctx, sql)
	if err != nil {
		return s.failed("export", err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := fn(rows); err != nil {
			cancel()
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return s.failed("export", err)
	}
	return nil
}
