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

// ListKeys implements [storage.KeyInspector]. Each database reads its share of q.Scan, but one key at least.
// It fails with [errors.ErrUnsupported] if a database is no KeyInspector.
func (s *Store) ListKeys(ctx context.Context, q storage.KeyQuery) (storage.KeyPage, error) {
	scan := q
	scan.Scan = s.share(q.Scan)
	pages, err := ask(ctx, &s.verbs, "list keys", func(database int, in storage.Tasks) (page storage.KeyPage, err error) {
		of, err := keysOf(in)
		if err == nil {
			page, err = of.ListKeys(ctx, scan)
		}
		for _, k := range page.Keys {
			outwardAll(database, []*task.Task{k.Head})
		}
		return page, err
	})
	if err != nil {
		return storage.KeyPage{}, err
	}
	return mergeKeys(s.routes.Load(), pages, q.Limit), nil
}

// keysOf returns the store of a database as a KeyInspector.
func keysOf(database storage.Tasks) (storage.KeyInspector, error) {
	if in, ok := database.(storage.KeyInspector); ok {
		return in, nil
	}
	return nil, fmt.Errorf("the store does not list ordering keys: %w", errors.ErrUnsupported)
}

// mergeKeys returns the page that ends where the first of some pages ends. A key that several databases have, since
// its shard was moved between the queries, is as the database has it that holds the shard.
func mergeKeys(known *routes, pages []storage.KeyPage, limit int) (all storage.KeyPage) {
	for _, p := range pages {
		if p.Next != "" && (all.Next == "" || p.Next < all.Next) {
			all.Next = p.Next
		}
	}
	found := make(map[string]storage.KeyOrder)
	for database, p := range pages {
		for _, k := range p.Keys {
			_, isThere := found[k.Key]
			if (all.Next == "" || k.Key <= all.Next) && (!isThere || known.of(task.ShardOf(k.Key)) == database) {
				found[k.Key] = k
			}
		}
	}
	for _, k := range found {
		all.Keys = append(all.Keys, k)
	}
	slices.SortFunc(all.Keys, func(a, b storage.KeyOrder) int { return cmp.Compare(a.Key, b.Key) })
	if limit > 0 && len(all.Keys) > limit {
		all.Keys = all.Keys[:limit]
		all.Next = all.Keys[limit-1].Key
	}
	return all
}

// ListKey implements [storage.KeyInspector]. It fails with [errors.ErrUnsupported] if a database is no KeyInspector.
func (s *Store) ListKey(ctx context.Context, key string, after *task.Seat, limit int) (storage.KeyRows, error) {
	pages, err := ask(ctx, &s.verbs, "list a key", func(database int, in storage.Tasks) (rows storage.KeyRows, err error) {
		of, err := keysOf(in)
		if err == nil {
			rows, err = of.ListKey(ctx, key, seatIn(database, after), limit)
		}
		outwardAll(database, append(rows.Behind, rows.Head))
		return rows, err
	})
	if err != nil {
		return storage.KeyRows{}, err
	}
	var all storage.KeyRows
	known := s.routes.Load()
	var heads, behind [][]*task.Task
	for _, rows := range pages {
		one := []*task.Task{rows.Head}
		if rows.Head == nil {
			one = nil
		}
		heads, behind = append(heads, one), append(behind, rows.Behind)
		all.More = all.More || rows.More
	}
	if found := merge(known, heads, refOfTask, compareSeat); len(found) > 0 {
		all.Head = found[0]
	}
	rows := merge(known, behind, refOfTask, compareSeat)
	all.Behind = first(rows, limit)
	all.More = all.More || len(rows) > len(all.Behind)
	return all, nil
}

func compareSeat(a, b *task.Task) int { return a.Seat().Compare(b.Seat()) }

// seatIn returns a seat as [inward] returns a rank.
func seatIn(database int, after *task.Seat) *task.Seat {
	if after == nil {
		return nil
	}
	r := inward(database, task.Rank{ReadyAt: after.ReadyAt, Seq: after.Seq})
	return &task.Seat{ReadyAt: r.ReadyAt, Seq: r.Seq}
}
