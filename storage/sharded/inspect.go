package sharded

import (
	"context"

	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/storage"
)

// List implements [storage.Inspector]. Each place reads its share of scan, but one row at
// least.
func (s *Store) List(ctx context.Context, f storage.Filter, before task.ID, limit, scan int) ([]*task.Task, task.ID, error) {
	pages, err := ask(ctx, &s.verbs, "list", func(place int, _ storage.Tasks) (p page, err error) {
		p.rows, p.next, err = s.places[place].Store.List(ctx, f, before, limit, s.share(scan))
		outwardAll(place, p.rows)
		return p, err
	})
	if err != nil {
		return nil, task.ID{}, err
	}
	ts, next := s.join(pages, func(a, b *task.Task) int { return compareID(b, a) })
	if limit > 0 && len(ts) > limit {
		ts = first(ts, limit)
		next = ts[limit-1].ID
	}
	return ts, next, nil
}

// Count implements [storage.Inspector].
func (s *Store) Count(ctx context.Context, f storage.Filter) (map[storage.StateType]int64, error) {
	counts, err := ask(ctx, &s.verbs, "count", func(place int, _ storage.Tasks) (map[storage.StateType]int64, error) {
		return s.places[place].Store.Count(ctx, f)
	})
	if err != nil {
		return nil, err
	}
	sum := make(map[storage.StateType]int64)
	for _, some := range counts {
		for of, n := range some {
			sum[of] += n
		}
	}
	return sum, nil
}
