package postgres

import (
	"context"
	"math"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

var _ storage.KeyInspector = (*Store)(nil)

// How many ordering keys one statement of ListKeys reads, at least and at most.
const (
	leastKeys = 100
	mostKeys  = 5000
)

// ListKeys implements [storage.KeyInspector]. It reads keys in parts, so that a page of the first ones does not
// cost more if q.Scan allows that.
func (s *Store) ListKeys(ctx context.Context, q storage.KeyQuery) (page storage.KeyPage, err error) {
	if q.Limit < 1 || q.Scan < 1 {
		return page, ctx.Err()
	}
	for part := max(leastKeys, min(q.Limit, mostKeys)); ; part = min(4*part, mostKeys) {
		part = min(part, q.Scan)
		found, err := s.keys(ctx, q, part)
		if err != nil {
			return storage.KeyPage{}, err
		}
		page.Keys, page.Next = append(page.Keys, found.Keys...), found.Next
		q.After, q.Limit, q.Scan = found.Next, q.Limit-len(found.Keys), q.Scan-part
		if q.After == "" || q.Limit == 0 || q.Scan == 0 {
			return page, nil
		}
	}
}

// keys is ListKeys for the keys of one statement, at most part.
func (s *Store) keys(ctx context.Context, q storage.KeyQuery, part int) (page storage.KeyPage, err error) {
	sql, count, states := s.sql.keys, min(max(0, q.Count), math.MaxInt32), []int16(nil)
	if q.Behind {
		sql = s.sql.keysBehind
	}
	for _, state := range q.States {
		states = append(states, int16(state))
	}
	err = s.again(ctx, "list ordering keys", func() error {
		page = storage.KeyPage{}
		var p pipe
		p.add(func(rows pgx.Rows) error {
			n, k, err := scanKey(&reader{values: rows.RawValues()}, count)
			if err != nil || len(page.Keys) == q.Limit {
				return err // the page ends before this key
			}
			if q.Match(&k) {
				page.Keys = append(page.Keys, k)
			}
			if n == int64(part) || len(page.Keys) == q.Limit {
				page.Next = k.Key
			}
			return nil
		}, sql, []byte(q.After), part, count+1, states)
		return s.read(ctx, &p)
	})
	return page, err
}

// scanKey reads a key, and its number among the keys that were read. At most count rows behind its head are counted.
func scanKey(r *reader, count int) (n int64, k storage.KeyOrder, err error) {
	n, k.Key = r.int64(), r.text()
	if len(r.next()) > 0 { // a row is behind
		r.at--
		k.Include(r.moment())
	}
	behind := int(r.int64())
	k.Behind, k.More = min(behind, count), behind > count
	if r.err != nil || len(r.values[r.at]) == 0 {
		return n, k, r.err // it has no head
	}
	if k.Head, err = scanTask(r); err == nil {
		k.Include(k.Head.ReadyAt)
	}
	return n, k, err
}

// ListKey implements [storage.KeyInspector].
func (s *Store) ListKey(ctx context.Context, key string, after *task.Seat, limit int) (rows storage.KeyRows, err error) {
	from := task.Seat{ReadyAt: math.MinInt64}
	if after != nil {
		from = *after
	}
	limit = min(max(0, limit), math.MaxInt32)
	err = s.again(ctx, "list the tasks of an ordering key", func() error {
		rows = storage.KeyRows{}
		var p pipe
		p.add(func(r pgx.Rows) error {
			t, err := scanRow(r)
			switch {
			case err != nil:
				return err
			case t.Turn == task.Head:
				rows.Head = t
			default:
				rows.Behind = append(rows.Behind, t)
			}
			return nil
		}, s.sql.key, []byte(key), from.ReadyAt, int64(from.Seq), limit+1)
		return s.read(ctx, &p)
	})
	slices.SortFunc(rows.Behind, func(a, b *task.Task) int { return a.Seat().Compare(b.Seat()) })
	if rows.More = len(rows.Behind) > limit; rows.More {
		rows.Behind = rows.Behind[:limit]
	}
	return rows, err
}
