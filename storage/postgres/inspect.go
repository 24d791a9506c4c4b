package postgres

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// listPart is how many rows are read first if a function selects among them.
const listPart = 500

// List implements [storage.Inspector]. For a filter of states that have not ended it reads the table
// task only, and for tasks in error only these. The server sends all rows among which q.Where selects, and sorts those of several kinds or types: they are
// read in parts that grow, since the first ones often suffice.
func (s *Store) List(ctx context.Context, q storage.ListQuery) (all storage.ListPage, err error) {
	if q.Limit < 1 || q.Scan < 1 {
		return all, nil
	}
	if q.Where == nil && q.Kinds == nil && q.Search == nil && !ofTypesInError(q) {
		return s.list(ctx, q)
	}
	all.Next = q.Before
	for size := listPart; ; size *= 4 {
		part := q
		part.Before, part.Limit, part.Scan = all.Next, q.Limit-len(all.Tasks), min(size, q.Scan-all.Read)
		page, err := s.list(ctx, part)
		if err != nil {
			return storage.ListPage{}, err
		}
		all.Tasks = append(all.Tasks, page.Tasks...)
		all.Next, all.Read, all.Index = page.Next, all.Read+page.Read, page.Index
		if all.Next.IsZero() || len(all.Tasks) == q.Limit || all.Read >= q.Scan {
			return all, nil
		}
	}
}

// list reads a part of a list by one query.
func (s *Store) list(ctx context.Context, q storage.ListQuery) (page storage.ListPage, err error) {
	before := q.Before
	if before.IsZero() {
		for i := range before {
			before[i] = 0xff
		}
	}
	sql, states, types := s.sql.listAll, statesOf(q.Filter), typesOf(q.Filter)
	var key []byte
	if q.Key != "" {
		key = []byte(q.Key)
	}
	index := storage.IndexState
	switch {
	case q.Key != "" && !q.Scattered:
		sql, index = s.sql.listKey, storage.IndexKey
	case q.Search != nil:
		sql, index = s.sql.searches.of(q), searchNames(q.Search)
	case q.Kinds != nil:
		sql, index = s.sql.listKinds, storage.IndexKind
	case len(q.States) == 0 || slices.ContainsFunc(q.States, finished):
		index = ""
	case ofTypesInError(q):
		sql = s.sql.listErrorsOf
	case isInError(q.States):
		sql = s.sql.listErrors
	default:
		sql = s.sql.listLive
	}
	hits := q.Limit
	if q.Where != nil || q.Kinds != nil || q.Search != nil {
		hits = q.Scan
	}
	args := []any{before, min(q.Scan, math.MaxInt32), states, types, min(hits, math.MaxInt32), key}
	if q.Search != nil && sql != s.sql.listKey {
		args = append(args, searchArgs(q)...)
	} else if index == storage.IndexKind {
		args = append(args, bigints(q.Kinds, func(r task.KindRange) int64 { return kindNumber(r.From) }), bigints(q.Kinds, func(r task.KindRange) int64 { return kindNumber(r.To) }))
	}
	more, below := false, false
	err = s.again(ctx, "list", func() error {
		page, more, below = storage.ListPage{Index: index}, false, false
		var p pipe
		if q.Search != nil {
			p.add(nil, planSearch)
		}
		p.add(func(rows pgx.Rows) error {
			r := reader{values: rows.RawValues()}
			n, hit := int(r.int64()), r.sized(1)[0] != 0
			if more = more || n > q.Scan || len(page.Tasks) == q.Limit; more {
				return nil
			}
			t, err := scanTask(&r)
			if below = below || err == nil && !q.Above.IsZero() && t.ID.Compare(q.Above) <= 0; err != nil || below {
				return err
			}
			page.Read = n
			if page.Next = t.ID; hit && q.Selects(t) {
				page.Tasks = append(page.Tasks, t)
			}
			return nil
		}, sql, args...)
		return s.browse(ctx, &p)
	})
	if !more || below {
		page.Next = task.ID{}
	}
	return page, err
}

// isInError reports whether states are that of tasks in error alone.
func isInError(states []task.State) bool {
	return len(states) > 0 && !slices.ContainsFunc(states, func(s task.State) bool { return s != task.Error })
}

// ofTypesInError reports whether a list is of tasks in error of some types, and has no index that selects fewer rows.
func ofTypesInError(q storage.ListQuery) bool {
	return isInError(q.States) && len(q.Types) > 0 && q.Kinds == nil && q.Search == nil && (q.Key == "" || q.Scattered)
}

var _ storage.KeyFinder = (*Store)(nil)

// FindKey implements [storage.KeyFinder].
func (s *Store) FindKey(ctx context.Context, typ, orderingKey, key string) (*task.Task, error) {
	var id task.ID
	err := s.query(ctx, "find a key", s.read, func() { id = task.ID{} }, func(r *reader) { copy(id[:], r.next()) }, s.sql.findKey, []byte(typ), []byte(orderingKey), []byte(key))
	if err != nil {
		return nil, err
	}
	if !id.IsZero() {
		return s.Get(ctx, id)
	}
	return nil, fmt.Errorf("no task has the key: %w", task.ErrNotFound)
}

// KeysOf implements [storage.KeyFinder]. It reads a range of the primary key of the table key.
func (s *Store) KeysOf(ctx context.Context, typ, prefix, after string, limit int) (found []storage.KeyHolder, err error) {
	var end []byte // null: no end
	if text, ok := storage.AfterPrefix(prefix); ok {
		end = []byte(text)
	}
	row := func(r *reader) {
		one := storage.KeyHolder{Key: r.text()}
		copy(one.ID[:], r.next())
		found = append(found, one)
	}
	err = s.query(ctx, "list unique keys", s.read, func() { found = nil }, row,
		s.sql.keysOf, []byte(typ), []byte(max(prefix, after+"\x00")), end, min(max(0, limit), math.MaxInt32))
	return found, err
}

// statesOf returns the states that f selects, all if there are none.
func statesOf(f storage.Filter) []int16 {
	states := f.States
	if len(states) == 0 {
		states = task.States()
	}
	out := make([]int16, len(states))
	for i, s := range states {
		out[i] = int16(s)
	}
	return out
}

// typesOf returns the types that f selects, nil for all.
func typesOf(f storage.Filter) [][]byte {
	var out [][]byte
	for _, t := range f.Types {
		out = append(out, []byte(t))
	}
	return out
}
