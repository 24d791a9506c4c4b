package memory

import (
	"context"
	"maps"
	"slices"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// members returns the head of an ordering key and the row with the first seat behind it; nil if there is none.
// It is called with mu held.
func (s *Store) members(key string) (head, first *task.Task) {
	return task.Candidates(maps.Values(s.orders[key]), key)
}

// Promote implements [storage.Tasks].
func (x *tx) Promote(ctx context.Context, keys ...string) (heads []task.Hint, err error) {
	if err := x.usable(ctx); err != nil {
		return nil, err
	}
	for _, key := range keys {
		head, first := x.s.members(key)
		demote, promote := task.NextHead(head, first)
		if demote {
			x.turn(head, task.Behind)
		}
		if promote {
			head = x.turn(first, task.Head)
		}
		if head != nil {
			head = x.boost(head)
		}
		if head != nil && head.State == task.Submitted {
			heads = append(heads, head.Hint())
		}
	}
	return heads, nil
}

// boost gives the head of a key the priority that it inherits.
func (x *tx) boost(head *task.Task) *task.Task {
	boost := head.Inherit(task.Lent(maps.Values(x.s.orders[head.OrderingKey]), head.OrderingKey))
	if boost == head.Boost {
		return head
	}
	now := head.Clone()
	now.Boost = boost
	x.put(now.ID, now)
	return now
}

// turn gives a row another turn.
func (x *tx) turn(t *task.Task, to task.Turn) *task.Task {
	now := t.Clone()
	now.Turn, now.Boost = to, 0
	x.put(now.ID, now)
	return now
}

// Promote implements [storage.Tasks].
func (s *Store) Promote(ctx context.Context, keys ...string) ([]task.Hint, error) {
	return update(ctx, s, func(tx storage.Tx) ([]task.Hint, error) { return tx.Promote(ctx, keys...) })
}

// isOutdated reports whether Promote would change a row of a key. It is called with mu held.
func (s *Store) isOutdated(key string) bool {
	head, first := s.members(key)
	if _, promote := task.NextHead(head, first); promote || head == nil {
		return promote
	}
	return head.Inherit(task.Lent(maps.Values(s.orders[key]), key)) != head.Boost
}

// headless is called with mu held.
func (s *Store) headless(after string, limit int) (page storage.HeadlessPage) {
	next := after
	for _, key := range slices.Sorted(maps.Keys(s.orders)) {
		if key <= after || !s.isWaitedFor(key) {
			continue
		}
		if len(page.Keys) >= max(0, limit) {
			page.Next = next
			break
		}
		next = key
		if s.isOutdated(key) {
			page.Keys = append(page.Keys, key)
		}
	}
	return page
}

// isWaitedFor reports whether a row is behind an ordering key. It is called with mu held.
func (s *Store) isWaitedFor(key string) bool {
	for _, t := range s.orders[key] {
		if t.Turn == task.Behind {
			return true
		}
	}
	return false
}

// Headless implements [storage.Tasks].
func (s *Store) Headless(ctx context.Context, after string, limit int) (storage.HeadlessPage, error) {
	return view(ctx, s, func() (storage.HeadlessPage, error) { return s.headless(after, limit), nil })
}

// Headless implements [storage.Tasks].
func (x *tx) Headless(ctx context.Context, after string, limit int) (storage.HeadlessPage, error) {
	if err := x.usable(ctx); err != nil {
		return storage.HeadlessPage{}, err
	}
	return x.s.headless(after, limit), nil
}
