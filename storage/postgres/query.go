package postgres

import (
	"context"
	"math"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres/internal/home"
	"github.com/taskengine/taskengine/task"
)

// query sends one statement by do, and calls row with each row of its answer. It calls begin before
// each attempt.
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

// Due implements [storage.Tasks]. It finds rows in the states waiting, submitted and error by an
// index. Other states are rarely asked for: processing when a node has died, and ended ones never,
// as they are dropped by partition.
func (v *verbs) Due(ctx context.Context, q storage.DueQuery) (page []storage.Due, err error) {
	sql, do := v.store.sql.dueRunning, v.browse
	switch {
	case finished(q.State):
		sql = v.store.sql.dueEnded
	case q.State != task.Processing && q.Shards != nil:
		return inParts(q.Limit, func(scan int) (part []storage.Due, more bool, err error) {
			part, q.After, err = v.dueOf(ctx, q, scan)
			return part, q.After != storage.Due{}, err
		})
	case q.State != task.Processing:
		sql, do = v.store.sql.due, v.read
	}
	err = v.query(ctx, "due", do, func() { page = nil }, func(r *reader) {
		d := storage.Due{Trigger: scanTrigger(r)}
		d.At = r.moment()
		page = append(page, d)
	}, sql, int16(q.State), micro(q.Before), afterDue(q.After), q.After.ID, max(0, q.Limit), home.Bitmap(q.Shards))
	return page, err
}

func afterDue(after storage.Due) int64 {
	if after == (storage.Due{}) {
		return math.MinInt64
	}
	return micro(after.At)
}

// dueOf is Due for the rows of some shards. It reads at most scan rows. last is where to go on from,
// zero at the end.
func (v *verbs) dueOf(ctx context.Context, q storage.DueQuery, scan int) (part []storage.Due, last storage.Due, err error) {
	err = v.query(ctx, "due", v.read, func() { part, last = nil, storage.Due{} }, func(r *reader) {
		n, hit := r.int64(), r.sized(1)[0] != 0
		d := storage.Due{Trigger: scanTrigger(r)}
		d.At = r.moment()
		if hit {
			part = append(part, d)
		}
		if n == int64(scan) {
			last = d
		}
	}, v.store.sql.dueOf, int16(q.State), micro(q.Before), afterDue(q.After), q.After.ID, scan, home.Bitmap(q.Shards))
	return part, last, err
}

// Ready implements [storage.Tasks].
func (v *verbs) Ready(ctx context.Context, q storage.ReadyQuery) (page []task.Trigger, err error) {
	if q.Shards != nil {
		part := storage.SubmittedQuery{Shards: q.Shards, After: storage.Cursor{Queue: q.Queue}}
		if q.After != nil {
			part.After.Rank = *q.After
		}
		return inParts(q.Limit, func(scan int) (ts []task.Trigger, more bool, err error) {
			part.Scan = scan
			hints, next, err := v.submitted(ctx, v.store.sql.submittedOf, part)
			for _, h := range hints {
				ts = append(ts, h.Trigger)
			}
			part.After = next
			return ts, next != storage.Cursor{}, err
		})
	}
	priority, ready, seq := int16(-1), int64(0), int64(0)
	if q.After != nil {
		priority, ready, seq = int16(q.After.Priority), q.After.ReadyAt, int64(q.After.Seq)
	}
	err = v.query(ctx, "ready", v.read, func() { page = nil }, func(r *reader) {
		page = append(page, scanTrigger(r))
	}, v.store.sql.ready, []byte(q.Queue.Type), []byte(q.Queue.Group), priority, ready, seq, max(0, q.Limit))
	return page, err
}

// How many rows one statement reads to find the rows of some shards, at least and at most.
const (
	leastScan = 1000
	mostScan  = 20_000
)

// inParts returns the first rows that match, at most limit. It reads them in parts. A part is one
// statement that reads a bounded number of rows, so that it stays within its time limit if rows of
// other shards are in between.
func inParts[T any](limit int, part func(scan int) (rows []T, more bool, err error)) (page []T, err error) {
	for scan := max(leastScan, min(limit, mostScan)); len(page) < limit; scan = min(4*scan, mostScan) {
		rows, more, err := part(scan)
		if err != nil {
			return nil, err
		}
		if page = append(page, rows...); !more {
			break
		}
	}
	return page[:min(len(page), max(0, limit))], nil
}

// Queues implements [storage.Tasks].
func (v *verbs) Queues(ctx context.Context, after task.Queue, limit int) (page []task.Queue, err error) {
	sql := v.store.sql.queues
	if after == (task.Queue{}) {
		sql = v.store.sql.allQueues
	}
	err = v.query(ctx, "queues", v.read, func() { page = nil }, func(r *reader) {
		page = append(page, task.Queue{Type: r.text(), Group: r.text()})
	}, sql, []byte(after.Type), []byte(after.Group), max(0, limit))
	return page, err
}

// Setting implements [storage.Settings].
func (s *Store) Setting(ctx context.Context, name string) (value []byte, err error) {
	err = s.query(ctx, "read a setting", s.read, func() { value = nil }, func(r *reader) {
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
