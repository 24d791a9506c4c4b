package postgres

import (
	"context"
	"math"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/storage"
)

// deep is how many rows of a leaf are looked at for one of some shards.
const deep = 1000

// Overlooked implements [storage.Shared].
func (s *Store) Overlooked(ctx context.Context, q storage.OverlookedQuery) (out storage.Overlooked, err error) {
	sql, leaves := s.sql.overlooked, 0
	if q.After == (task.Leaf{}) {
		sql = s.sql.allOverlooked
	}
	err = s.query(ctx, "look for what was overlooked", s.browse, func() { out, leaves = storage.Overlooked{}, 0 }, func(r *reader) {
		state, leaf := task.State(r.int16()), task.Leaf{Type: r.text(), Group: r.text()}
		if state == task.Submitted {
			if leaves++; leaves == q.Limit {
				out.Next = leaf
			}
			if len(r.values[r.at]) == 0 {
				return // it has no such row
			}
		}
		tr := task.Trigger{Leaf: leaf}
		copy(tr.ID[:], r.next())
		tr.Version, tr.Priority, tr.ReadyAt = uint64(r.int64()), uint8(r.int16()), r.int64()
		tr.Seq, tr.Shard = uint64(r.int64()), uint16(r.int32())
		if state == task.Waiting {
			out.Due = append(out.Due, storage.Due{Trigger: tr, At: r.moment()})
			return
		}
		out.Heads = append(out.Heads, tr)
	}, sql, []byte(q.After.Type), []byte(q.After.Group), bitmap(q.Shards), max(0, q.Limit), micro(q.Before))
	return out, err
}

// Outdated implements [storage.Shared].
func (s *Store) Outdated(ctx context.Context, refs ...task.Ref) (out []bool, err error) {
	if len(refs) == 0 {
		return nil, ctx.Err()
	}
	versions := make([]int64, len(refs))
	for i, ref := range refs {
		versions[i] = int64(ref.Version)
	}
	err = s.query(ctx, "look at versions", s.do, func() { out = make([]bool, len(refs)) }, func(r *reader) {
		out[r.int64()-1] = true
	}, s.sql.outdated, uuids(refs, func(r task.Ref) task.ID { return r.ID }), versions)
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
