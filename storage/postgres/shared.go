package postgres

import (
	"context"
	"math"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres/internal/home"
	"github.com/taskengine/taskengine/task"
)

// deep is how many rows of a queue are read to find the first one of some shards.
const deep = 1000

// Unclaimed implements [storage.Shared].
func (s *Store) Unclaimed(ctx context.Context, q storage.UnclaimedQuery) (out storage.UnclaimedPage, err error) {
	sql, queues := s.sql.unclaimed, 0
	if q.After == (task.Queue{}) {
		sql = s.sql.allUnclaimed
	}
	err = s.query(ctx, "look for unclaimed tasks", s.browse, func() { out, queues = storage.UnclaimedPage{}, 0 }, func(r *reader) {
		h := task.Hint{State: task.Submitted}
		h.Queue = task.Queue{Type: r.text(), Group: r.text()}
		if queues++; queues == q.Limit {
			out.Next = h.Queue
		}
		if len(r.values[r.at]) == 0 {
			return // it has no such row
		}
		copy(h.ID[:], r.next())
		h.Version, h.Priority, h.ReadyAt = uint64(r.int64()), uint8(r.int16()), r.int64()
		h.Seq = uint64(r.int64())
		h.Shard, h.Turn = uint16(r.int16()), task.Turn(r.int16())
		h.NextEventAt = r.moment()
		out.Heads = append(out.Heads, h)
	}, sql, []byte(q.After.Type), []byte(q.After.Group), home.Bitmap(q.Shards), max(0, q.Limit))
	return out, err
}

// Submitted implements [storage.Shared]. Of the rows that it reads, some may have been grabbed.
func (s *Store) Submitted(ctx context.Context, q storage.SubmittedQuery) (page []task.Hint, next storage.Cursor, err error) {
	return s.submitted(ctx, s.sql.submitted, q)
}

// submitted is Submitted by one of two statements: for all queues, or for the rows of one.
func (v *verbs) submitted(ctx context.Context, sql string, q storage.SubmittedQuery) (page []task.Hint, next storage.Cursor, err error) {
	if q.Scan < 1 {
		return nil, next, ctx.Err()
	}
	priority, ready, seq := int16(q.After.Priority), q.After.ReadyAt, int64(q.After.Seq)
	if q.After.Rank == (task.Rank{}) {
		priority = -1
	}
	err = v.query(ctx, "submitted", v.read, func() { page, next = nil, storage.Cursor{} }, func(r *reader) {
		n, hit := r.int64(), r.sized(1)[0] != 0
		h := task.Hint{Trigger: scanTrigger(r), State: task.Submitted}
		h.NextEventAt = r.moment()
		if hit {
			page = append(page, h)
		}
		if n == int64(q.Scan) {
			next = storage.Cursor{Queue: h.Queue, Rank: h.Rank}
		}
	}, sql, []byte(q.After.Type), []byte(q.After.Group), priority, ready, seq, home.Bitmap(q.Shards), q.Scan)
	return page, next, err
}

// Outdated implements [storage.Shared].
func (s *Store) Outdated(ctx context.Context, owner task.ID, refs ...task.Ref) (out []bool, err error) {
	if len(refs) == 0 {
		return nil, ctx.Err()
	}
	versions := make([]int64, len(refs))
	for i, ref := range refs {
		versions[i] = int64(ref.Version)
	}
	err = s.query(ctx, "look at versions", s.read, func() { out = make([]bool, len(refs)) }, func(r *reader) {
		out[r.int64()-1] = true
	}, s.sql.outdated, uuids(refs, func(r task.Ref) task.ID { return r.ID }), versions, owner)
	return out, err
}

// Orphans implements [storage.Shared].
func (s *Store) Orphans(ctx context.Context, alive []task.ID, after task.ID, scan int) (ts []*task.Task, next task.ID, err error) {
	scan = min(max(scan, 0), math.MaxInt32)
	err = s.again(ctx, "look for orphans", func() error {
		ts, next = nil, task.ID{}
		var p pipe
		p.add(func(rows pgx.Rows) error {
			r := reader{values: rows.RawValues()}
			n, hit := int(r.int64()), r.sized(1)[0] != 0
			t, err := scanTask(&r)
			if err != nil {
				return err
			}
			if hit {
				ts = append(ts, t)
			}
			if n == scan {
				next = t.ID
			}
			return nil
		}, s.sql.orphans, after, scan, uuids(alive, itself))
		return s.browse(ctx, &p)
	})
	return ts, next, err
}

var _ storage.ShardOwner = (*Store)(nil)

// Holdings implements [storage.ShardOwner].
func (s *Store) Holdings(ctx context.Context) (storage.Holdings, error) {
	var row home.Row
	err := s.again(ctx, "read which shards it holds", func() (err error) {
		row, err = home.Read(ctx, s.pool, s.partitions.schema)
		return err
	})
	return row.Holdings, err
}
