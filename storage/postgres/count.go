package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres/internal/ended"
	"github.com/taskengine/taskengine/storage/postgres/schema"
	"github.com/taskengine/taskengine/task"
)

// Triggers note in the table tally how each statement changes the number of rows. That takes 5 to
// 8 % of the processor time of a task's life, mostly for copies of rows that PostgreSQL makes for
// triggers. Statements that wrote the notes themselves would take less, but counts would be wrong
// after any other write, by hand.

// Tasks that are packed, on their way to another database, are in no other table.
const selectCount = `
select state, type, sum(n)::bigint from (
	select state, type, n from {tally_now}
	union all
	select state, type, 1 from {packed}) t
where state = any($1::smallint[]) and ($2::bytea[] is null or type = any($2))
group by state, type having sum(n) <> 0`

// Count implements [storage.Inspector]. Its cost grows with the number of types and of partitions of
// the table ended, see [Store.Fold]. It reads the tasks that are packed to be moved to another
// database. They are counted here until the move has forgotten them, and there from their arrival.
func (s *Store) Count(ctx context.Context, f storage.Filter) (map[storage.StateType]int64, error) {
	n := make(map[storage.StateType]int64)
	err := s.query(ctx, "count", s.browse, func() { clear(n) }, func(r *reader) {
		n[storage.StateType{State: task.State(r.int16()), Type: r.text()}] += r.int64()
	}, s.sql.count, statesOf(f), typesOf(f))
	return n, err
}

// foldTally deletes notes and inserts their sums in one statement, so that it sums exactly the notes
// that it deletes. Of two at a time the second does not get the lock, or finds the rows deleted. It
// is worth it if there are more notes than sums that would be written again. The notes of a
// partition of ended that was dropped are deleted.
const foldTally = `
with turn as (select pg_try_advisory_xact_lock($1) as mine),
size as (select count(*) filter (where folded) as sums, count(*) filter (where not folded) as notes from {tally}),
gone as (
	delete from {tally} where (select mine and notes > greatest(sums, $2) from turn, size)
	returning type, state, keep, since, kind, node, n, folded),
sums as (
	insert into {tally} (type, state, keep, since, kind, node, n, folded)
	select type, state, keep, since, kind, node, sum(n), true from gone
	group by type, state, keep, since, kind, node
	having sum(n) <> 0 and (keep is null or {slot} in (
		select {slot_named} from pg_catalog.pg_class c where c.relnamespace = to_regnamespace({schema_literal}))))
select count(*) from gone where not folded`

// foldFrom is the number of notes above which they are folded.
const foldFrom = 100

// Fold implements [storage.LiveCounter]. It does not block statements that write notes.
func (s *Store) Fold(ctx context.Context) (notes int64, err error) {
	err = s.query(ctx, "fold the notes of how many tasks there are", s.browse, func() { notes = 0 }, func(r *reader) {
		notes = r.int64()
	}, s.sql.fold, schema.Lock("tally", s.partitions.schema), foldFrom)
	return notes, err
}

// deleteNotes deletes the notes of a partition that is being made: they are of an earlier table of the
// same name, which was dropped.
func (s *partitions) deleteNotes(ctx context.Context, tx pgx.Tx, p ended.Partition) error {
	_, err := tx.Exec(ctx, schema.Fill(s.schema)("delete from {tally} where keep = $1 and since = $2"), p.Number(), p.From/1e6)
	return err
}

var _ storage.LiveCounter = (*Store)(nil)
