//go:build !race

package postgres_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/storage/postgres/postgrestest"
	"github.com/taskengine/taskengine/task"
)

// TestEveryTableHasAPrimaryKey looks at the tables of a database in use: logical replication, on which upgrades without
// an outage and change data capture are built, needs a key to identify a row that was changed or deleted.
func TestEveryTableHasAPrimaryKey(t *testing.T) {
	t.Parallel()
	s := postgrestest.Open(t, postgrestest.Tables(t, server))
	finish(t, s, task.NewIDs([32]byte{1}), moment, time.Hour, "")
	rows, _ := s.Pool().Query(t.Context(), `
select c.relname from pg_catalog.pg_class c where c.relnamespace = 'taskengine'::regnamespace and c.relkind in ('r', 'p')
	and not exists (select from pg_catalog.pg_index i where i.indrelid = c.oid and i.indisprimary)`)
	without, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(without) > 0 {
		t.Errorf("without a primary key: %v, %v", without, err)
	}
	rows, _ = s.Pool().Query(t.Context(), "select inhrelid::regclass::text from pg_catalog.pg_inherits")
	if parts, err := pgx.CollectRows(rows, pgx.RowTo[string]); err != nil || len(parts) < 2 {
		t.Errorf("the partitions are %v, %v", parts, err)
	}
}

// TestTasksEndInADatabaseThatPublishesAllItsTables has changes and deletions of each table that the store writes.
func TestTasksEndInADatabaseThatPublishesAllItsTables(t *testing.T) {
	t.Parallel()
	s := postgrestest.Open(t, postgrestest.Tables(t, server))
	execIn(t, s, "create publication everything for all tables")
	ids := task.NewIDs([32]byte{1})
	for i := range 3 {
		finish(t, s, ids, moment.Add(time.Duration(i)*time.Hour), time.Hour, "")
	}
	for _, sql := range []string{
		"update taskengine.ended set ended_at = ended_at + 1 where ended_at = (select min(ended_at) from taskengine.ended)",
		"delete from taskengine.ended where ended_at = (select max(ended_at) from taskengine.ended)",
		"update taskengine.tally set n = n",
	} {
		execIn(t, s, sql)
	}
	expire(t, s, moment.Add(100*time.Hour))
	for range 200 {
		mustAdd(t, s.Pool(), "'ship'")
	}
	if folded, err := s.Fold(t.Context()); err != nil || folded == 0 {
		t.Errorf("%d notes were folded, %v", folded, err)
	}
	countsAre(t, s, "at the end")
}
