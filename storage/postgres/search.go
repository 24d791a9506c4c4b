package postgres

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// searchNumber returns a search value as the columns have it. It keeps their order.
func searchNumber(v task.SearchValue) int64 { return int64(uint64(v) ^ 1<<63) }

// encodeSearch returns the search values of a row as the text of an array, "" if it has none.
func encodeSearch(t *task.Task) string {
	if len(t.Search) == 0 {
		return ""
	}
	return searchArray(t.Search)
}

// searches returns the search values of rows as an argument.
func searches[T any](some []T, of func(T) *task.Task) *array {
	return columnOf(pgtype.TextOID, 16, some, func(a *array, one T) {
		if s := encodeSearch(of(one)); s != "" {
			a.text(s)
		} else {
			a.null()
		}
	})
}

// searchArray returns search values as the text of an array.
func searchArray(values []task.SearchValue) string {
	var b strings.Builder
	for i, v := range values {
		b.WriteByte("{,"[min(i, 1)])
		b.WriteString(strconv.FormatInt(searchNumber(v), 10))
	}
	return b.String() + "}"
}

// decodeSearch reads the search values of a row.
func decodeSearch(v *reader) []task.SearchValue {
	const head, element = 20, 12 // an array of one dimension
	b := v.next()
	if b == nil {
		return nil
	}
	if len(b) < head || (len(b)-head)%element != 0 {
		v.fail()
		return nil
	}
	var values []task.SearchValue
	for e := range slices.Chunk(b[head:], element) {
		values = append(values, task.SearchValue(binary.BigEndian.Uint64(e[4:])^1<<63))
	}
	return values
}

// searchTexts are the parts of the statement of a search: pageSearch in selectList, and searchEnded.
type searchTexts struct{ list, ended string }

// of returns the statement of a search, with the arguments of searchArgs after those of other lists.
func (s searchTexts) of(q storage.ListQuery) string {
	conditions := make([]string, len(q.Search))
	for i := range q.Search {
		conditions[i] = fmt.Sprintf("search && $%d::bigint[]", 8+i)
	}
	search, kinds, also, n := "search is not null and "+strings.Join(conditions, " and "), "", s.ended, 8+len(q.Search)
	switch {
	case len(q.Kinds) == 1:
		kinds = fmt.Sprintf("and kind >= $%d and kind <= $%d", n, n+1)
	case q.Kinds != nil:
		kinds = fmt.Sprintf("and exists (select from unnest($%d::bigint[], $%d::bigint[]) as r (first, last) where kind >= r.first and kind <= r.last)", n, n+1)
	}
	if q.Kinds != nil || len(q.States) > 0 && !slices.ContainsFunc(q.States, finished) {
		also = ""
	}
	return strings.NewReplacer("{search}", search, "{kinds}", kinds).Replace(strings.ReplaceAll(s.list, "{also}", also))
}

// searchArgs returns the arguments that a search has after those of other lists.
func searchArgs(q storage.ListQuery) []any {
	args := []any{q.Above}
	for _, set := range q.Search {
		args = append(args, bigints(set.Values, searchNumber))
	}
	switch {
	case len(q.Kinds) == 1:
		args = append(args, kindNumber(q.Kinds[0].From), kindNumber(q.Kinds[0].To))
	case q.Kinds != nil:
		args = append(args, bigints(q.Kinds, func(r task.KindRange) int64 { return kindNumber(r.From) }), bigints(q.Kinds, func(r task.KindRange) int64 { return kindNumber(r.To) }))
	}
	return args
}

// searchNames returns the name of an index for some sets. The database chooses which of them it reads.
func searchNames(sets []task.SearchSet) string {
	names := make([]string, len(sets))
	for i, set := range sets {
		names[i] = set.Name
	}
	return strings.Join(names, ", ")
}

var _ storage.Fenced = (*Store)(nil)

// Fence implements [storage.Fenced].
func (s *Store) Fence(ctx context.Context) (func(context.Context) (bool, error), error) {
	var next int64 // no transaction that has begun to write has this number, or a later one
	err := s.query(ctx, "read the number of the next transaction", s.read, func() {}, func(r *reader) { next = r.int64() },
		"select pg_snapshot_xmax(pg_current_snapshot())::text::bigint")
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (passed bool, err error) {
		err = s.query(ctx, "look for earlier transactions", s.read, func() {}, func(r *reader) { passed = r.isTrue() },
			"select pg_snapshot_xmin(pg_current_snapshot())::text::bigint >= $1", next)
		return passed, err
	}, nil
}
