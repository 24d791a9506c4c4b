package postgres

import (
	"context"
	"encoding/binary"
	"math"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/storage"
)

// query runs one statement by means of do, and calls row with each row of its answer.
func (v *verbs) query(ctx context.Context, doing string, do func(context.Context, *pipe) error, begin func(), row func(*reader), sql string, args ...any) error {
	return v.again(ctx, doing, func() error {
		begin()
		var p pipe
		p.add(func(rows pgx.Rows) error {
			r := reader{values: rows.RawValues()}
			row(&r)
			return r.err
		}, sql, args...)
		return do(ctx, &p)
	})
}

// Due implements [storage.Tasks]. Rows in the states waiting, submitted and error are
// found by an index. Nobody asks for the others often: what runs is looked for when its
// node has died, and what has ended is dropped by tables.
func (v *verbs) Due(ctx context.Context, q storage.DueQuery) (page []storage.Due, err error) {
	sql, do := v.store.sql.dueRunning, v.browse
	switch {
	case finished(q.State):
		sql = v.store.sql.dueEnded
	case q.State != task.Processing:
		sql, do = v.store.sql.due, v.do
	}
	after := int64(math.MinInt64)
	if q.After != (storage.Due{}) {
		after = micro(q.After.At)
	}
	err = v.query(ctx, "due", do, func() { page = nil }, func(r *reader) {
		d := storage.Due{Trigger: scanTrigger(r)}
		d.At = r.moment()
		page = append(page, d)
	}, sql, int16(q.State), micro(q.Before), after, q.After.ID, max(0, q.Limit), bitmap(q.Shards))
	return page, err
}

// Ready implements [storage.Tasks].
func (v *verbs) Ready(ctx context.Context, q storage.ReadyQuery) (page []task.Trigger, err error) {
	priority, ready, seq := int16(-1), int64(0), int64(0)
	if q.After != nil {
		priority, ready, seq = int16(q.After.Priority), q.After.ReadyAt, int64(q.After.Seq)
	}
	err = v.query(ctx, "ready", v.do, func() { page = nil }, func(r *reader) {
		page = append(page, scanTrigger(r))
	}, v.store.sql.ready, []byte(q.Leaf.Type), []byte(q.Leaf.Group), priority, ready, seq, max(0, q.Limit), bitmap(q.Shards))
	return page, err
}

// Leaves implements [storage.Tasks].
func (v *verbs) Leaves(ctx context.Context, after task.Leaf, limit int) (page []task.Leaf, err error) {
	sql := v.store.sql.leaves
	if after == (task.Leaf{}) {
		sql = v.store.sql.allLeaves
	}
	err = v.query(ctx, "leaves", v.do, func() { page = nil }, func(r *reader) {
		page = append(page, task.Leaf{Type: r.text(), Group: r.text()})
	}, sql, []byte(after.Type), []byte(after.Group), max(0, limit))
	return page, err
}

// Setting implements [storage.Settings].
func (s *Store) Setting(ctx context.Context, name string) (value []byte, err error) {
	err = s.query(ctx, "read a setting", s.do, func() { value = nil }, func(r *reader) {
		value = append([]byte{}, r.next()...)
	}, s.sql.setting, []byte(name))
	return value, err
}

// SetSetting implements [storage.Settings].
func (s *Store) SetSetting(ctx context.Context, name string, value []byte) error {
	sql, args := s.sql.setSetting, []any{[]byte(name), value}
	if value == nil {
		sql, args = s.sql.unset, args[:1]
	}
	return s.query(ctx, "write a setting", s.do, func() {}, func(*reader) {}, sql, args...)
}

// SwapSetting implements [storage.Shared].
func (s *Store) SwapSetting(ctx context.Context, name string, old, value []byte) (swapped bool, err error) {
	err = s.query(ctx, "write a setting", s.do, func() { swapped = false }, func(r *reader) {
		swapped = r.int64() > 0
	}, s.sql.swapSetting, []byte(name), old, value)
	return swapped, err
}

// bitmap returns shards as get_bit takes them, nil for all.
func bitmap(shards *task.Shards) []byte {
	if shards == nil {
		return nil
	}
	var b []byte
	for _, word := range shards {
		b = binary.LittleEndian.AppendUint64(b, word)
	}
	return b
}
