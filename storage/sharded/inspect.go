package sharded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// List implements [storage.Inspector]. Each database reads its share of scan, but one row at
// least.
func (s *Store) List(ctx context.Context, q storage.ListQuery) (all storage.ListPage, err error) {
	read, indexes := make([]int, len(s.databases)), make([]string, len(s.databases))
	pages, err := ask(ctx, &s.verbs, "list", func(database int, _ storage.Tasks) (page, error) {
		part := q
		part.Scan, part.Scattered = s.share(q.Scan), len(s.databases) > 1
		got, err := s.databases[database].Store.List(ctx, part)
		outwardAll(database, got.Tasks)
		read[database], indexes[database] = got.Read, got.Index
		return page{got.Tasks, got.Next}, err
	})
	if err != nil {
		return storage.ListPage{}, err
	}
	for _, n := range read {
		all.Read += n
	}
	if all.Index = indexes[0]; slices.ContainsFunc(indexes, func(index string) bool { return index != all.Index }) {
		all.Index = ""
	}
	all.Tasks, all.Next = s.join(pages, func(a, b *task.Task) int { return compareID(b, a) })
	if q.Limit > 0 && len(all.Tasks) > q.Limit {
		all.Tasks = first(all.Tasks, q.Limit)
		all.Next = all.Tasks[q.Limit-1].ID
	}
	return all, nil
}

// FindKey implements [storage.KeyFinder]. It asks all databases: the key of an older task may be of another shard than the
// task. It fails with [errors.ErrUnsupported] if a database is no KeyFinder.
func (s *Store) FindKey(ctx context.Context, typ, orderingKey, key string) (*task.Task, error) {
	rows, err := ask(ctx, &s.verbs, "find a key", func(database int, in storage.Tasks) (*task.Task, error) {
		of, ok := in.(storage.KeyFinder)
		if !ok {
			return nil, fmt.Errorf("the store does not find keys: %w", errors.ErrUnsupported)
		}
		t, err := of.FindKey(ctx, typ, orderingKey, key)
		if errors.Is(err, task.ErrNotFound) {
			return nil, nil
		}
		outwardAll(database, []*task.Task{t})
		return t, err
	})
	if err != nil {
		return nil, err
	}
	for _, t := range rows {
		if t != nil {
			return t, nil
		}
	}
	return nil, fmt.Errorf("no task has the key: %w", task.ErrNotFound)
}

// KeysOf implements [storage.KeyFinder]. It asks all databases. It fails with [errors.ErrUnsupported] if a database is no KeyFinder.
func (s *Store) KeysOf(ctx context.Context, typ, prefix, after string, limit int) ([]storage.KeyHolder, error) {
	some, err := ask(ctx, &s.verbs, "list unique keys", func(_ int, in storage.Tasks) ([]storage.KeyHolder, error) {
		of, ok := in.(storage.KeyFinder)
		if !ok {
			return nil, fmt.Errorf("the store does not find keys: %w", errors.ErrUnsupported)
		}
		return of.KeysOf(ctx, typ, prefix, after, limit)
	})
	if err != nil {
		return nil, err
	}
	all := slices.Concat(some...)
	slices.SortFunc(all, func(a, b storage.KeyHolder) int { return cmp.Compare(a.Key, b.Key) })
	all = slices.CompactFunc(all, func(a, b storage.KeyHolder) bool { return a.Key == b.Key }) // its shard was moved meanwhile
	return all[:min(len(all), max(0, limit))], nil
}

// Count implements [storage.Inspector].
func (s *Store) Count(ctx context.Context, f storage.Filter) (map[storage.StateType]int64, error) {
	counts, err := ask(ctx, &s.verbs, "count", func(database int, _ storage.Tasks) (map[storage.StateType]int64, error) {
		return s.databases[database].Store.Count(ctx, f)
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

// CountKinds implements [storage.KindCounter]. It fails with [errors.ErrUnsupported] if a database is no KindCounter.
func (s *Store) CountKinds(ctx context.Context, types []string, limit int) ([]storage.KindCount, bool, error) {
	all := make([]bool, len(s.databases))
	some, err := ask(ctx, &s.verbs, "count kinds of errors", func(database int, _ storage.Tasks) (kinds []storage.KindCount, err error) {
		of, ok := s.databases[database].Store.(storage.KindCounter)
		if !ok {
			return nil, fmt.Errorf("the store does not count kinds of errors: %w", errors.ErrUnsupported)
		}
		kinds, all[database], err = of.CountKinds(ctx, types, limit)
		return kinds, err
	})
	if err != nil || slices.Contains(all, false) {
		return nil, false, err
	}
	return slices.Concat(some...), true, nil
}

var _ storage.Fenced = (*Store)(nil)

// Fence implements [storage.Fenced]. It asks all databases.
func (s *Store) Fence(ctx context.Context) (func(context.Context) (bool, error), error) {
	all, err := ask(ctx, &s.verbs, "read the numbers of transactions", func(database int, _ storage.Tasks) (func(context.Context) (bool, error), error) {
		if of, ok := s.databases[database].Store.(storage.Fenced); ok {
			return of.Fence(ctx)
		}
		return func(context.Context) (bool, error) { return true, nil }, nil
	})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (bool, error) {
		for _, passed := range all {
			if ok, err := passed(ctx); err != nil || !ok {
				return false, err
			}
		}
		return true, nil
	}, nil
}
