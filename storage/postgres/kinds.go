package postgres

import (
	"context"
	"math"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// kindNumber returns a kind as a column: numbers of PostgreSQL have a sign, and keep the order.
func kindNumber(k task.ErrorKind) int64 { return int64(uint64(k) ^ 1<<63) }

// kindColumn returns the column kind of a row; ok is false for null.
func kindColumn(t *task.Task) (kind int64, ok bool) {
	if t.State != task.Error || t.LastError == "" {
		return 0, false
	}
	return kindNumber(task.KindOfError(t.LastError)), true
}

var _ storage.KindCounter = (*Store)(nil)

// CountKinds implements [storage.KindCounter]. It does not count tasks that are on their way to another database.
func (s *Store) CountKinds(ctx context.Context, types []string, limit int) (kinds []storage.KindCount, complete bool, err error) {
	row := func(r *reader) {
		k := storage.KindCount{Kind: task.ErrorKind(uint64(r.int64()) ^ 1<<63), Type: r.text(), Rows: r.int64()}
		if node := r.text(); node != "" {
			k.Nodes = []string{node}
		}
		k.First, k.Last = r.moment(), r.moment()
		copy(k.Sample[:], r.next())
		k.Error = r.text()
		if n := len(kinds) - 1; n >= 0 && kinds[n].Kind == k.Kind && kinds[n].Type == k.Type {
			kinds[n].Merge(k)
		} else {
			kinds = append(kinds, k)
		}
	}
	limit = min(max(0, limit), math.MaxInt32-1)
	err = s.query(ctx, "count kinds of errors", s.browse, func() { kinds = nil }, row, s.sql.countKinds, typesOf(storage.Filter{Types: types}), limit)
	if err != nil || len(kinds) > limit {
		return nil, false, err
	}
	return kinds, true, nil
}
