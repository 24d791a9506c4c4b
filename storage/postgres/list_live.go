package postgres

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

const (
	// newestRows is how many of the newest rows that have not ended are read at least before the rows of some states are looked for by indexes.
	newestRows = 2000

	// mostEntries is how many entries of each index are read for that.
	mostEntries = 10_000
)

// listLive reads the rows of states that have not ended. Most lists are full after the newest rows. If one is not, and its states have indexes that are in
// another order, it reads the ids of all their rows, unless there are too many.
func (s *Store) listLive(ctx context.Context, q storage.ListQuery, how listing) (storage.ListPage, error) {
	sql := s.entriesOf(q)
	if sql == "" {
		return s.listParts(ctx, q, how)
	}
	newest := q
	newest.Scan = min(q.Scan, max(newestRows, 2*q.Limit))
	all, err := s.listParts(ctx, newest, how)
	if err != nil || all.Next.IsZero() || len(all.Tasks) == q.Limit || all.Read >= q.Scan {
		return all, err
	}
	q.Before, q.Limit, q.Scan = all.Next, q.Limit-len(all.Tasks), q.Scan-all.Read
	rest, few, err := s.listEntries(ctx, q, sql)
	if err == nil && !few {
		rest, err = s.listParts(ctx, q, how)
	}
	if err != nil {
		return storage.ListPage{}, err
	}
	all.Tasks, all.Next, all.Read = append(all.Tasks, rest.Tasks...), rest.Next, all.Read+rest.Read
	return all, nil
}

// entriesOf returns the statement that finds the rows of the states of q by the indexes of ready tasks, of tasks behind others, and of those that wait. It
// is empty if q has a state that they do not have, or a key.
func (s *Store) entriesOf(q storage.ListQuery) string {
	submitted, waiting := slices.Contains(q.States, task.Submitted), slices.Contains(q.States, task.Waiting)
	switch {
	case q.Key != "", slices.ContainsFunc(q.States, func(s task.State) bool { return s != task.Submitted && s != task.Waiting }):
		return ""
	case submitted && waiting:
		return s.sql.entries.both
	case submitted && len(q.Types) > 0:
		return s.sql.entries.submittedOf
	case submitted:
		return s.sql.entries.submitted
	}
	return s.sql.entries.waiting
}

// listEntries reads a part of a list by a statement of entriesOf. few is false if there are too many entries.
func (s *Store) listEntries(ctx context.Context, q storage.ListQuery, sql string) (page storage.ListPage, few bool, err error) {
	hits := q.Limit
	if q.Where != nil {
		hits = q.Scan
	}
	args, more := append(s.listArgs(q, hits), min(mostEntries, q.Scan)), false
	err = s.again(ctx, "list", func() error {
		page, few, more = storage.ListPage{Index: storage.IndexState}, false, false
		var p pipe
		p.add(func(rows pgx.Rows) error {
			r := reader{values: rows.RawValues()}
			if few = r.isTrue(); !few || len(r.values[r.at]) == 0 { // there is no row
				return nil
			}
			if more = more || page.Read == q.Scan || len(page.Tasks) == q.Limit; more {
				return nil
			}
			t, err := scanTask(&r)
			if err != nil {
				return err
			}
			page.Read++
			if page.Next = t.ID; q.Selects(t) {
				page.Tasks = append(page.Tasks, t)
			}
			return nil
		}, sql, args...)
		return s.browseBy(ctx, &p, planEntries)
	})
	if !more {
		page.Next = task.ID{}
	}
	return page, few, err
}
