package postgres_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/storage/postgres/postgrestest"
	"github.com/taskengine/taskengine/task"
)

// listIndexes returns the sizes of the indexes of tasks by which lists find rows.
func listIndexes(t *testing.T, tx pgx.Tx) map[string]int64 {
	t.Helper()
	rows, _ := tx.Query(t.Context(), `
select c.relname::text, pg_relation_size(c.oid) from pg_index i join pg_class c on c.oid = i.indexrelid
where i.indrelid in (select oid from pg_class where relnamespace = 'taskengine'::regnamespace and relname ~ '^(task|ended.*)$')
	and c.relkind = 'i' and not i.indisprimary and c.relname <> 'task_ready'`)
	sizes := make(map[string]int64)
	var name string
	var size int64
	if _, err := pgx.ForEachRow(rows, []any{&name, &size}, func() error {
		sizes[name] = size
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return sizes
}

// A task that is added, runs and is done has entries in no other index than those of ids and of ready tasks, and its grab in none.
func TestAPlainLifeWritesNoEntriesForLists(t *testing.T) {
	s := postgrestest.Open(t, server.Database(t))
	ids := task.NewIDs([32]byte{8})
	finish(t, s, ids, moment, time.Hour, "") // it makes the partition
	tx, err := s.Pool().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	before := listIndexes(t, tx)
	if len(before) < 10 {
		t.Fatalf("the indexes are %v", before)
	}
	const n = 2000 // the entries would fill several pages of an index
	x := s.Attach(tx)
	var rows []*task.Task
	for range n {
		id := ids.Next(moment)
		rows = append(rows, &task.Task{ID: id, Version: 1, State: task.Submitted, Type: "mail", Shard: id.Shard(), CreatedAt: moment, UpdatedAt: moment, ReadyAt: moment})
	}
	if _, err := x.Insert(t.Context(), rows...); err != nil {
		t.Fatal(err)
	}
	var grabs, ends []task.Change
	for _, row := range rows {
		grab := task.Change{Ref: row.Ref(), To: task.Processing, At: moment, NextEventAt: moment, Owner: task.ID{1}, Node: "n1"}
		end := task.Change{Ref: task.Ref{ID: row.ID, Version: 2}, To: task.Done, At: moment, Outcome: task.Completed, NextEventAt: moment.Add(time.Hour)}
		grabs, ends = append(grabs, grab), append(ends, end)
	}
	for _, cs := range [][]task.Change{grabs, ends} {
		after, err := x.Swap(t.Context(), cs...)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range after {
			if row == nil {
				t.Fatal("a change came too late")
			}
		}
	}
	if hot := one[int](t, tx, "select n_tup_hot_upd from pg_stat_xact_user_tables where schemaname = 'taskengine' and relname = 'task'"); hot < n*3/4 { // some pages have no room left before the transaction ends
		t.Errorf("%d of %d grabs were updates in place", hot, n)
	}
	for name, size := range listIndexes(t, tx) {
		if size != before[name] {
			t.Errorf("the index %s has grown from %d to %d bytes", name, before[name], size)
		}
	}
}
