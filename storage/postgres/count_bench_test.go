//go:build !race

package postgres

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// BenchmarkCount counts more than a million rows by type and state: with notes that are not folded,
// and without notes.
func BenchmarkCount(b *testing.B) {
	c := crowded(b)
	s, err := Open(b.Context(), c.Config().ConnString(), Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	count := func(b *testing.B) {
		for b.Loop() {
			if _, err := s.Count(b.Context(), storage.Filter{}); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("folded", count)
	if _, err := c.Exec(b.Context(), `
insert into taskengine.tally (type, state, n, folded)
select convert_to('type ' || i % 10, 'UTF8'), 2, 1, false from generate_series(1, 10000) i`); err != nil {
		b.Fatal(err)
	}
	b.Run("10000 notes", count)
	b.Run("recount", func(b *testing.B) {
		for b.Loop() {
			if _, err := c.Exec(b.Context(), "select taskengine.recount()"); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkListWhere reads the first page of a list with a function, among a million tasks that have not ended.
func BenchmarkListWhere(b *testing.B) {
	c := crowded(b)
	s, err := Open(b.Context(), c.Config().ConnString(), Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	for name, where := range map[string]func(*task.Task) bool{
		"all":  func(*task.Task) bool { return true },
		"none": func(*task.Task) bool { return false },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := s.List(b.Context(), storage.ListQuery{Limit: 50, Scan: 200_000, Where: where}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkOrphans finds the tasks of dead nodes once, among a million tasks that have not ended.
func BenchmarkOrphans(b *testing.B) {
	c := crowded(b)
	s, err := Open(b.Context(), c.Config().ConnString(), Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	rows, err := c.Query(b.Context(), "select distinct owner from taskengine.task where owner is not null")
	if err != nil {
		b.Fatal(err)
	}
	alive, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (id task.ID, err error) {
		return id, row.Scan((*[16]byte)(&id))
	})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		for after, more := (task.ID{}), true; more; more = !after.IsZero() {
			if _, after, err = s.Orphans(b.Context(), alive, after, 10_000); err != nil {
				b.Fatal(err)
			}
		}
	}
}
