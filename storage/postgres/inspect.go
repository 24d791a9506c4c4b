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

// How many rows are read first if a function selects among them. Most rows that have the search values of a list are selected.
const (
	listPart   = 500
	searchPart = 100
)

// mostRows is how many rows a statement reads or returns at most: it adds 2 to the number.
const mostRows = math.MaxInt32 - 2

// List implements [storage.Inspector]. For a filter of states that have not ended it reads the table
// task only, see listLive; for tasks in error, and for workflows, it reads only these: of one table if all their states are in it.
func (s *Store) List(ctx context.Context, q storage.ListQuery) (all storage.ListPage, err error) {
	how := s.listing(q)
	switch {
	case q.Limit < 1 || q.Scan < 1:
		return all, nil
	case how.all && q.Where == nil: // the server reads what it sends
		q.Scan = min(q.Scan, q.Limit)
		return s.list(ctx, q, how)
	case how.states:
		return s.listLive(ctx, q, how)
	}
	return s.listParts(ctx, q, how)
}

// listing is how rows are listed.
type listing struct {
	sql    string
	plan   string // goes before it
	index  string // as in [storage.ListPage]
	all    bool   // the statement reads only rows that the query selects apart from q.Where
	sorts  bool   // the server reads all rows of a part, to sort them or because more conditions follow
	states bool   // the statement reads rows of states that have not ended, and knows how many of them there are
}

// listing returns how the rows of q are listed.
func (s *Store) listing(q storage.ListQuery) listing {
	inError, ofTypes := isInError(q.States), len(q.Types) > 0
	switch {
	case q.Key != "" && !q.Scattered:
		return listing{sql: s.sql.listKey, plan: plans, index: storage.IndexKey}
	case q.Search != nil:
		return listing{sql: s.sql.searches.of(q), plan: planSearch, index: searchNames(q.Search), sorts: true}
	case q.Kinds != nil:
		return listing{sql: s.sql.listKinds, plan: plans, index: storage.IndexKind, sorts: true, all: inError && !ofTypes && q.Key == ""}
	case inError && ofTypes:
		return listing{sql: s.sql.listErrorsOf, plan: plans, index: storage.IndexState, sorts: true, all: q.Key == ""}
	}
	how, open := listing{sql: s.sql.listAll, plan: planStream}, len(q.States) > 0 && !slices.ContainsFunc(q.States, finished)
	switch {
	case inError:
		how.sql, how.index, how.all = s.sql.listErrors, storage.IndexState, q.Key == ""
	case len(q.Types) == 1 && q.Types[0] == task.WorkflowType:
		how.sql, how.index, how.all = s.sql.listWorkflows, storage.IndexType, len(q.States) == 0 && q.Key == ""
		switch {
		case open:
			how.sql = s.sql.listOpenWorkflows
		case len(q.States) > 0 && !slices.ContainsFunc(q.States, func(s task.State) bool { return !finished(s) }):
			how.sql = s.sql.listEndedWorkflows
		}
	case open:
		how.sql, how.index, how.states = s.sql.listLive, storage.IndexState, true
	case q.Before.IsZero() && len(q.States)+len(q.Types) > 0:
		how.sql = s.sql.listSome
	}
	return how
}

// listParts reads the rows of a list. The server sends all rows among which q.Where selects, and reads all that it sorts: they are
// read in parts that grow, since the first ones often suffice.
func (s *Store) listParts(ctx context.Context, q storage.ListQuery, how listing) (all storage.ListPage, err error) {
	if q.Where == nil && !how.sorts {
		return s.list(ctx, q, how)
	}
	all.Next = q.Before
	size := max(listPart, q.Limit)
	if q.Search != nil {
		size = max(searchPart, q.Limit)
	}
	for ; ; size *= 4 {
		part := q
		part.Before, part.Limit, part.Scan = all.Next, q.Limit-len(all.Tasks), min(size, q.Scan-all.Read)
		page, err := s.list(ctx, part, how)
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
func (s *Store) list(ctx context.Context, q storage.ListQuery, how listing) (page storage.ListPage, err error) {
	hits := q.Limit
	if q.Where != nil || (q.Kinds != nil || q.Search != nil) && !how.all {
		hits = q.Scan
	}
	args := append(s.listArgs(q, hits), kindArgs(q, how)...)
	more, below := false, false
	err = s.again(ctx, "list", func() error {
		page, more, below = storage.ListPage{Index: how.index}, false, false
		var p pipe
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
			more = n == q.Scan && !hit // the server may leave out the row after it
			return nil
		}, how.sql, args...)
		return s.browseBy(ctx, &p, how.plan)
	})
	if !more || below {
		page.Next = task.ID{}
	}
	return page, err
}

// listArgs returns the arguments that all lists have. hits is how many rows the server sends at most.
func (s *Store) listArgs(q storage.ListQuery, hits int) []any {
	before := q.Before
	if before.IsZero() {
		for i := range before {
			before[i] = 0xff
		}
	}
	var key []byte
	if q.Key != "" {
		key = []byte(q.Key)
	}
	return []any{before, min(q.Scan, mostRows), statesOf(q.Filter), typesOf(q.Filter), min(hits, mostRows), key}
}

// kindArgs returns the arguments after these.
func kindArgs(q storage.ListQuery, how listing) []any {
	switch {
	case how.index == storage.IndexKey:
		return nil
	case q.Search != nil:
		return searchArgs(q)
	case how.index == storage.IndexKind:
		return []any{bigints(q.Kinds, func(r task.KindRange) int64 { return kindNumber(r.From) }), bigints(q.Kinds, func(r task.KindRange) int64 { return kindNumber(r.To) })}
	}
	return nil
}

// isInError reports whether states are that of tasks in error alone.
func isInError(states []task.State) bool {
	return len(states) > 0 && !slices.ContainsFunc(states, func(s task.State) bool { return s != task.Error })
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
