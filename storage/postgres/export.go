package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

var _ storage.Exporter = (*Store)(nil)

// An export may take as long as its caller takes.
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

const selectPacked = `select {narrow}, {heavy} from {packed} order by seq`

// Export implements [storage.Exporter]. It uses one connection. Until it ends, its snapshot keeps
// vacuum from removing rows that die. The server sorts the rows, on its disk if they are many.
func (s *Store) Export(ctx context.Context, setting func(string, []byte) error, row func(*task.Task) error) error {
	return s.snapshot(ctx, "export", func(ctx context.Context, tx pgx.Tx) error {
		if err := s.each(ctx, tx, "export", selectSettings, func(rows pgx.Rows) error {
			r := reader{values: rows.RawValues()}
			name, value := r.text(), r.bytes()
			return setting(name, append([]byte{}, value...))
		}); err != nil {
			return err
		}
		return s.each(ctx, tx, "export", selectEverything, s.taskTo(row))
	})
}

// Packed calls row with each task that is packed to be moved to another database, whole, in the
// order of Seq. All of them are as they were at one moment. Packed ends with the first error of
// row, and returns it as it is. Package placement uses it.
func (s *Store) Packed(ctx context.Context, row func(*task.Task) error) error {
	return s.snapshot(ctx, "read the packed tasks", func(ctx context.Context, tx pgx.Tx) error {
		return s.each(ctx, tx, "read the packed tasks", selectPacked, s.taskTo(row))
	})
}

// taskTo returns a function that reads a row and calls fn with it.
func (s *Store) taskTo(fn func(*task.Task) error) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		t, err := scanRow(rows)
		if err != nil {
			return s.failed("read a row", err)
		}
		return fn(t)
	}
}

// snapshot calls fn with a transaction that sees the database as it is at one moment, and that
// may last as long as fn does.
func (s *Store) snapshot(ctx context.Context, doing string, fn func(context.Context, pgx.Tx) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	tx, err := s.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return s.failed(doing, err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // it has changed nothing
	if _, err := tx.Exec(ctx, patient); err != nil {
		return s.failed(doing, err)
	}
	return fn(ctx, tx)
}

// each calls fn with the rows of a query as they arrive. An error of fn ends the query with its
// connection, without waiting for the other rows.
func (s *Store) each(ctx context.Context, tx pgx.Tx, doing, sql string, fn func(pgx.Rows) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	rows, err := tx.Query(ctx, s.fill(sql))
	if err != nil {
		return s.failed(doing, err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := fn(rows); err != nil {
			cancel()
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return s.failed(doing, err)
	}
	return nil
}
