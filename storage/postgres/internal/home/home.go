// Package home reads and writes which shards a database holds: one row of the table home, and a
// constraint of the table task that enforces it.
package home

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres/schema"
	"github.com/taskengine/taskengine/task"
)

// Row is the row of the table home.
type Row struct {
	storage.Holdings
	Written bool        // the table has the row; if not, the database holds all shards
	Coming  task.Shards // shards that are on their way to this database; none of Here
}

// Holds reports whether the database holds all of these shards.
func (r *Row) Holds(shards task.Shards) bool { return r.Owned.With(&shards) == r.Owned }

// patience is how long a read of the row may take.
const patience = 10 * time.Second

// Read reads the row of a schema.
func Read(ctx context.Context, q schema.Querier, name string) (r Row, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var here, coming, leaving []byte
	err = q.QueryRow(ctx, schema.Fill(name)("select here, coming, leaving, to_name, xmin::text::bigint from {home}")).Scan(&here, &coming, &leaving, &r.To, &r.Revision)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		r.Owned = task.AllShards()
		return r, nil
	case err != nil:
		return r, err
	}
	r.Written, r.Owned, r.Coming, r.Migrating = true, shardsOf(here), shardsOf(coming), shardsOf(leaving)
	return r, nil
}

// ReadForUpdate reads the row in a transaction, which alone may write it from then on until it
// ends. Others that call it wait.
func ReadForUpdate(ctx context.Context, tx pgx.Tx, name string) (Row, error) {
	if _, err := tx.Exec(ctx, "select pg_advisory_xact_lock($1)", schema.Lock("home", name)); err != nil {
		return Row{}, err
	}
	return Read(ctx, tx, name)
}

// Write writes the row, in a transaction that has called [ReadForUpdate].
func Write(ctx context.Context, tx pgx.Tx, name string, r Row) error {
	_, err := tx.Exec(ctx, schema.Fill(name)(`
insert into {home} as h (here, coming, leaving, to_name) values ($1, $2, $3, $4)
on conflict (one) do update set here = excluded.here, coming = excluded.coming, leaving = excluded.leaving, to_name = excluded.to_name`),
		Bitmap(&r.Owned), Bitmap(&r.Coming), Bitmap(&r.Migrating), r.To)
	return err
}

// constraint is the name of the constraint of the table task. It holds for every program, also
// for programs that do not know the table home.
const constraint = "task_home"

// Enforce makes the table task accept new and changed rows of these shards only. It waits up to
// wait for transactions that use the table, and blocks later ones in that time; then it fails
// with the code 55P03.
func Enforce(ctx context.Context, tx pgx.Tx, name string, shards task.Shards, wait time.Duration) error {
	sql := fmt.Sprintf("set local lock_timeout = %d; alter table {task} drop constraint if exists %s;", wait.Milliseconds(), constraint)
	if shards != task.AllShards() {
		sql += fmt.Sprintf(`
alter table {task} add constraint %s check (%s) not valid;`,
			constraint, Condition(fmt.Sprintf(`'\x%x'::bytea`, Bitmap(&shards))))
	}
	_, err := tx.Exec(ctx, schema.Fill(name)(sql), pgx.QueryExecModeSimpleProtocol)
	return err
}

// IsRefused reports whether an error of the driver says that a row was refused because the
// database does not hold its shard.
func IsRefused(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && e.Code == "23514" && e.ConstraintName == constraint
}

// Condition returns the SQL condition that the id of a row is of a shard of a bitmap, which is an
// expression. It calls only functions of PostgreSQL: it is evaluated for every row.
func Condition(bitmap string) string {
	return "get_bit(" + bitmap + ", get_byte(uuid_send(id), 3) # get_byte(uuid_send(id), 7) # get_byte(uuid_send(id), 15)) = 1"
}

// Bitmap returns shards as the function get_bit of PostgreSQL reads them, nil for nil.
func Bitmap(shards *task.Shards) []byte {
	if shards == nil {
		return nil
	}
	var b []byte
	for _, word := range shards {
		b = binary.LittleEndian.AppendUint64(b, word)
	}
	return b
}

// shardsOf is the inverse of Bitmap.
func shardsOf(b []byte) (shards task.Shards) {
	for i := range shards {
		if len(b) >= 8 {
			shards[i], b = binary.LittleEndian.Uint64(b), b[8:]
		}
	}
	return shards
}
