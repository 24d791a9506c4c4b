package memory

import (
	"context"
	"slices"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// ListKeys implements [storage.KeyInspector].
func (s *Store) ListKeys(ctx context.Context, q storage.KeyQuery) (storage.KeyPage, error) {
	return view(ctx, s, func() (page storage.KeyPage, err error) {
		if q.Limit < 1 || q.Scan < 1 {
			return page, nil
		}
		var found []string
		for key := range s.orders {
			if key > q.After && (!q.Behind || s.isWaitedFor(key)) {
				found = append(found, key)
			}
		}
		slices.Sort(found)
		next := ""
		for n, key := range found {
			if len(page.Keys) == q.Limit || n == q.Scan {
				page.Next = next
				break
			}
			next = key
			if k := s.order(key, q.Count); q.Match(&k) {
				page.Keys = append(page.Keys, k)
			}
		}
		return page, nil
	})
}

// order is called with mu held.
func (s *Store) order(key string, count int) storage.KeyOrder {
	head, behind := s.ordered(key)
	k := storage.KeyOrder{Key: key, Head: head, Behind: min(len(behind), max(0, count))}
	k.More = k.Behind < len(behind)
	for _, t := range slices.Concat([]*task.Task{head}, first(behind, 1)) {
		if t != nil {
			k.Include(t.ReadyAt)
		}
	}
	return k
}

// ordered returns the head of a key and the rows that are Behind, by their seats. It is called with mu held.
func (s *Store) ordered(key string) (head *task.Task, behind []*task.Task) {
	for _, t := range s.orders[key] {
		if t.Turn == task.Head {
			head = listed(t)
		} else {
			behind = append(behind, listed(t))
		}
	}
	slices.SortFunc(behind, func(a, b *task.Task) int { return a.Seat().Compare(b.Seat()) })
	return head, behind
}

// ListKey implements [storage.KeyInspector].
func (s *Store) ListKey(ctx context.Context, key string, after *task.Seat, limit int) (storage.KeyRows, error) {
	return view(ctx, s, func() (rows storage.KeyRows, err error) {
		head, behind := s.ordered(key)
		if after != nil {
			behind = slices.DeleteFunc(behind, func(t *task.Task) bool { return t.Seat().Compare(*after) <= 0 })
		}
		return storage.KeyRows{Head: head, Behind: first(behind, limit), More: len(behind) > max(0, limit)}, nil
	})
}
