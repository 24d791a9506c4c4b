package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres/internal/partition"
	"github.com/taskengine/taskengine/storage/postgres/schema"
)

// How many rows there are is noted by triggers, in the table tally, with every statement
// that changes rows: 5 to 8 % of the processor time of a whole life, mostly for copies of
// rows that PostgreSQL makes for them. Statements that noted it themselves would take less,
// and the counts would be wrong as soon as anybody else writes: a program of the version
// before, SQL by hand.

// What is packed is in no other table: a task on its way to another database is not gone.
const selectCount = `
select state, type, sum(n)::bigint from (
	select state, type, n from {tally_now}
	union all
	select state, type, 1 from {packed}) t
where state = any($1::smallint[]) and ($2::bytea[] is null or type = any($2))
group by state, type having sum(n) <> 0`

// Where nobody takes notes yet.
const selectCountRows = `
select state, type, count(*) from (
	select state, type from {task}
	union all
	select state, type from {ended}
	union all
	select state, type from {packed}) t
where state = any($1::smallint[]) and ($2::bytea[] is null or type = any($2))
group by state, type`

// Count implements [storage.Inspector]. It costs about as much as there are types, and
// tables below ended: see [Store.Fold]. Tasks that [Move] has packed are counted too, each of
// them, until it has forgotten them; those that have arrived are counted where they are by then.
func (s *Store) Count(ctx context.Context, f storage.Filter) (map[storage.StateType]int64, error) {
	n := make(map[storage.StateType]int64)
	count := func(sql string) error {
		return s.query(ctx, "count", s.browse, func() { clear(n) }, func(r *reader) {
			n[storage.StateType{State: task.State(r.int16()), Type: r.text()}] += r.int64()
		}, sql, statesOf(f), typesOf(f))
	}
	err := count(s.sql.count)
	if isUntallied(err) {
		err = count(s.sql.countRows)
	}
	return n, err
}

// foldTally deletes notes and inserts their sums, in one statement: what it deletes is what
// it adds up, whatever is noted meanwhile. Of two at a time the second finds no turn, or
// rows that are gone. To fold is worth it when there are more notes than sums would be
// written anew. A table below ended that is dropped takes its notes with it.
const foldTally = `
with turn as (select pg_try_advisory_xact_lock($1) as mine),
size as (select count(*) filter (where folded) as sums, count(*) filter (where not folded) as notes from {tally}),
gone as (
	delete from {tally} where (select mine and notes > greatest(sums, $2) from turn, size)
	returning type, state, keep, since, n, folded),
sums as (
	insert into {tally} (type, state, keep, since, n, folded)
	select type, state, keep, since, sum(n), true from gone
	group by type, state, keep, since
	having sum(n) <> 0 and (keep is null or exists (
		select from pg_catalog.pg_class c where c.relnamespace = to_regnamespace({schema_literal}) and c.relname ~ {slot_pattern})))
select count(*) from gone where not folded`

// foldFrom is from how many notes on they are folded.
const foldFrom = 100

// Fold implements [storage.LiveCounter]. Nobody who takes notes waits for it.
func (s *Store) Fold(ctx context.Context) (notes int64, err error) {
	err = s.query(ctx, "fold the notes of how many tasks there are", s.browse, func() { notes = 0 }, func(r *reader) {
		notes = r.int64()
	}, s.sql.fold, schema.Lock("tally", s.slots.schema), foldFrom)
	if isUntallied(err) {
		err = nil
	}
	return notes, err
}

// voidNotes deletes what was noted of a table below ended that was dropped and had the name
// of this one, which is being made.
func (s *slots) voidNotes(ctx context.Context, tx pgx.Tx, m partition.Slot) error {
	fill := schema.Fill(s.schema)
	var taken bool
	if err := tx.QueryRow(ctx, "select to_regclass($1) is not null", fill("{tally}")).Scan(&taken); err != nil || !taken {
		return err
	}
	_, err := tx.Exec(ctx, fill("delete from {tally} where keep = $1 and since = $2"), m.Number(), m.From/1e6)
	return err
}

// isUntallied reports whether an error says that nobody takes notes: the tables are those
// of the version before.
func isUntallied(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && e.Code == "42P01"
}

var _ storage.LiveCounter = (*Store)(nil)
