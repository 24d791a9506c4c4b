package memory

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// The queries below are called with mu held.

func (s *Store) get(id task.ID) (*task.Task, error) {
	t, found := s.rows[id]
	if !found {
		return nil, fmt.Errorf("%v: %w", id, task.ErrNotFound)
	}
	return t.Clone(), nil
}

func (s *Store) due(q storage.DueQuery) []storage.Due {
	var out []storage.Due
	for _, t := range s.rows {
		d := storage.Due{Trigger: t.Trigger(), At: t.NextEventAt}
		if t.State != q.State || !q.Shards.Has(t.Shard) || d.At.IsZero() || d.At.After(q.Before) {
			continue
		}
		if q.After == (storage.Due{}) || compareDue(d, q.After) > 0 {
			out = append(out, d)
		}
	}
	slices.SortFunc(out, compareDue)
	return first(out, q.Limit)
}

func compareDue(a, b storage.Due) int {
	return cmp.Or(a.At.Compare(b.At), a.ID.Compare(b.ID))
}

func (s *Store) ready(q storage.ReadyQuery) []task.Trigger {
	var out []task.Trigger
	sorted := func() []task.Trigger {
		slices.SortFunc(out, func(a, b task.Trigger) int { return a.Rank.Compare(b.Rank) })
		return first(out, q.Limit)
	}
	for _, t := range s.queued[q.Queue] {
		if !q.Shards.Has(t.Shard) || q.After != nil && t.Rank().Compare(*q.After) <= 0 {
			continue
		}
		if out = append(out, t.Trigger()); len(out) >= 2*q.Limit+enoughToSort { // sort few of a long queue
			out = sorted()
		}
	}
	return sorted()
}

// enoughToSort is the least number of triggers of which those that are not wanted are dropped early.
const enoughToSort = 256

func (s *Store) queues(after task.Queue, limit int) []task.Queue {
	var out []task.Queue
	for queue := range s.queued {
		if after == (task.Queue{}) || compareQueue(queue, after) > 0 {
			out = append(out, queue)
		}
	}
	slices.SortFunc(out, compareQueue)
	return first(out, limit)
}

// isReady reports whether a task may be grabbed.
func isReady(t *task.Task) bool { return t.State == task.Submitted && t.Turn != task.Behind }

func compareQueue(a, b task.Queue) int {
	return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Group, b.Group))
}

func first[T any](some []T, limit int) []T { return some[:min(len(some), max(0, limit))] }

// Unclaimed implements [storage.Shared].
func (s *Store) Unclaimed(ctx context.Context, q storage.UnclaimedQuery) (storage.UnclaimedPage, error) {
	return view(ctx, s, func() (out storage.UnclaimedPage, err error) {
		queues := s.queues(q.After, q.Limit)
		for _, l := range queues {
			for _, head := range s.ready(storage.ReadyQuery{Queue: l, Shards: q.Shards, Limit: 1}) {
				out.Heads = append(out.Heads, s.rows[head.ID].Hint())
			}
		}
		if len(queues) == q.Limit && q.Limit > 0 {
			out.Next = queues[len(queues)-1]
		}
		return out, nil
	})
}

// Submitted implements [storage.Shared].
func (s *Store) Submitted(ctx context.Context, q storage.SubmittedQuery) (page []task.Hint, next storage.Cursor, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.usable(ctx); err != nil || q.Scan < 1 {
		return nil, next, err
	}
	var all []task.Hint
	for _, t := range s.rows {
		if isReady(t) && compareCursor(cursorOf(t.Hint()), q.After) > 0 {
			all = append(all, t.Hint())
		}
	}
	slices.SortFunc(all, func(a, b task.Hint) int { return compareCursor(cursorOf(a), cursorOf(b)) })
	if len(all) > q.Scan {
		all = all[:q.Scan]
		next = cursorOf(all[q.Scan-1])
	}
	return slices.DeleteFunc(all, func(h task.Hint) bool { return !q.Shards.Has(h.Shard) }), next, nil
}

func cursorOf(h task.Hint) storage.Cursor { return storage.Cursor{Queue: h.Queue, Rank: h.Rank} }

func compareCursor(a, b storage.Cursor) int {
	return cmp.Or(compareQueue(a.Queue, b.Queue), a.Rank.Compare(b.Rank))
}

// Outdated implements [storage.Shared].
func (s *Store) Outdated(ctx context.Context, owner task.ID, refs ...task.Ref) ([]bool, error) {
	return view(ctx, s, func() ([]bool, error) {
		out := make([]bool, len(refs))
		for i, ref := range refs {
			t, ok := s.rows[ref.ID]
			out[i] = !ok || t.Version != ref.Version || t.State != task.Processing || t.Owner != owner
		}
		return out, nil
	})
}

// Orphans implements [storage.Shared].
func (s *Store) Orphans(ctx context.Context, alive []task.ID, after task.ID, scan int) (ts []*task.Task, next task.ID, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.usable(ctx); err != nil {
		return nil, task.ID{}, err
	}
	var ids []task.ID
	for id := range s.rows {
		if id.Compare(after) > 0 {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, task.ID.Compare)
	if len(ids) > scan {
		ids = ids[:max(0, scan)]
		next = ids[len(ids)-1]
	}
	for _, id := range ids {
		if t := s.rows[id]; t.State == task.Processing && !slices.Contains(alive, t.Owner) {
			ts = append(ts, listed(t))
		}
	}
	return ts, next, nil
}

// listed returns a copy of a row as lists have it: without payload, result and checkpoint.
func listed(t *task.Task) *task.Task {
	c := t.Clone()
	c.Payload, c.Result, c.Notes = nil, nil, task.NewNotes(c.Progress(), nil)
	c.Signals, c.Children = c.Signals.Listed(), nil
	return c
}

// search returns the rows that have a value of the set that the fewest rows have values of, and the name of the set.
func (s *Store) search(sets []task.SearchSet) (least map[task.ID]*task.Task, name string) {
	for i, set := range sets {
		rows := make(map[task.ID]*task.Task)
		for _, v := range set.Values {
			maps.Copy(rows, s.searched[v])
		}
		if i == 0 || len(rows) < len(least) {
			least, name = rows, set.Name
		}
	}
	return least, name
}

// List implements [storage.Inspector].
func (s *Store) List(ctx context.Context, q storage.ListQuery) (page storage.ListPage, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.usable(ctx); err != nil {
		return storage.ListPage{}, err
	}
	var ids []task.ID
	rows := s.rows
	if len(q.Search) > 0 {
		rows, page.Index = s.search(q.Search)
	}
	for id := range rows {
		if (q.Before.IsZero() || id.Compare(q.Before) < 0) && (q.Above.IsZero() || id.Compare(q.Above) > 0) {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b task.ID) int { return b.Compare(a) })
	for _, id := range ids {
		if len(page.Tasks) >= q.Limit || page.Read >= q.Scan {
			return page, nil
		}
		page.Next = id
		page.Read++
		if t := listed(s.rows[id]); q.Selects(t) {
			page.Tasks = append(page.Tasks, t)
		}
	}
	page.Next = task.ID{}
	return page, nil
}

// CountKinds implements [storage.KindCounter].
func (s *Store) CountKinds(ctx context.Context, types []string, limit int) (kinds []storage.KindCount, complete bool, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.usable(ctx); err != nil {
		return nil, false, err
	}
	of := storage.Filter{States: []task.State{task.Error}, Types: types}
	at := make(map[task.ErrorKind]map[string]int)
	for _, t := range s.rows {
		if !of.Selects(t) || t.LastError == "" {
			continue
		}
		kind := task.KindOfError(t.LastError)
		i, known := at[kind][t.Type]
		if !known {
			if i = len(kinds); i == limit {
				return nil, false, nil
			}
			if at[kind] == nil {
				at[kind] = make(map[string]int)
			}
			at[kind][t.Type] = i
			kinds = append(kinds, storage.KindCount{Kind: kind, Type: t.Type})
		}
		kinds[i].Add(t)
	}
	return kinds, true, nil
}

// Count implements [storage.Inspector].
func (s *Store) Count(ctx context.Context, f storage.Filter) (map[storage.StateType]int64, error) {
	return view(ctx, s, func() (map[storage.StateType]int64, error) {
		n := make(map[storage.StateType]int64)
		for _, t := range s.rows {
			if f.Match(t.State, t.Type) {
				n[storage.StateType{State: t.State, Type: t.Type}]++
			}
		}
		return n, nil
	})
}
