package sharded

import (
	"context"
	"slices"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// Unclaimed implements [storage.Finder].
func (v *verbs) Unclaimed(ctx context.Context, q storage.UnclaimedQuery) (out storage.UnclaimedPage, err error) {
	parts, err := ask(ctx, v, "look for unclaimed tasks", func(database int, _ storage.Tasks) (storage.UnclaimedPage, error) {
		part, err := v.store.databases[database].Store.Unclaimed(ctx, q)
		outwardHints(database, part.Heads)
		return part, err
	})
	if err != nil {
		return storage.UnclaimedPage{}, err
	}
	var heads [][]task.Hint
	for _, p := range parts {
		heads = append(heads, p.Heads)
		if p.Next != (task.Queue{}) && (out.Next == (task.Queue{}) || compareQueue(p.Next, out.Next) < 0) {
			out.Next = p.Next // all databases have read up to it
		}
	}
	out.Heads = merge(v.store.routes.Load(), heads, refOfHint, compareHint)
	out.Heads = slices.CompactFunc(out.Heads, func(a, b task.Hint) bool { return a.Queue == b.Queue })
	if out.Next != (task.Queue{}) {
		out.Heads = slices.DeleteFunc(out.Heads, func(h task.Hint) bool { return compareQueue(h.Queue, out.Next) > 0 })
	}
	if q.Limit > 0 && len(out.Heads) > q.Limit {
		out.Heads = first(out.Heads, q.Limit)
		out.Next = out.Heads[q.Limit-1].Queue
	}
	return out, nil
}

// Submitted implements [storage.Finder]. Each database reads its share of the rows, but one at
// least.
func (v *verbs) Submitted(ctx context.Context, q storage.SubmittedQuery) (page []task.Hint, next storage.Cursor, err error) {
	type part struct {
		page []task.Hint
		next storage.Cursor
	}
	parts, err := ask(ctx, v, "submitted", func(database int, _ storage.Tasks) (p part, err error) {
		of := q
		of.Scan = v.store.share(q.Scan)
		if q.After.Rank != (task.Rank{}) {
			of.After.Rank = inward(database, q.After.Rank)
		}
		p.page, p.next, err = v.store.databases[database].Store.Submitted(ctx, of)
		outwardHints(database, p.page)
		if p.next != (storage.Cursor{}) {
			p.next.Seq = outward(database, p.next.Seq)
		}
		return p, err
	})
	if err != nil {
		return nil, storage.Cursor{}, err
	}
	var pages [][]task.Hint
	for _, p := range parts {
		pages = append(pages, p.page)
		if p.next != (storage.Cursor{}) && (next == (storage.Cursor{}) || compareCursor(p.next, next) < 0) {
			next = p.next // all databases have read up to it
		}
	}
	page = merge(v.store.routes.Load(), pages, refOfHint, compareHint)
	if next != (storage.Cursor{}) {
		page = slices.DeleteFunc(page, func(h task.Hint) bool { return compareCursor(cursorOf(h), next) > 0 })
	}
	return page, next, nil
}

// Orphans implements [storage.Finder]. Each database reads its share of scan, but one row at
// least.
func (v *verbs) Orphans(ctx context.Context, alive []task.ID, after task.ID, scan int) ([]*task.Task, task.ID, error) {
	pages, err := ask(ctx, v, "look for orphans", func(database int, _ storage.Tasks) (p page, err error) {
		p.rows, p.next, err = v.store.databases[database].Store.Orphans(ctx, alive, after, v.store.share(scan))
		outwardAll(database, p.rows)
		return p, err
	})
	if err != nil {
		return nil, task.ID{}, err
	}
	ts, next := v.store.join(pages, compareID)
	return ts, next, nil
}

// Outdated implements [storage.Shared].
func (s *Store) Outdated(ctx context.Context, owner task.ID, refs ...task.Ref) ([]bool, error) {
	return each(ctx, &s.verbs, "look at versions", refs, func(r *task.Ref) task.ID { return r.ID },
		func(database int, _ storage.Tasks, some []task.Ref) ([]bool, error) {
			return s.databases[database].Store.Outdated(ctx, owner, some...)
		}, func(outdated bool) bool { return outdated })
}

// page is a part of the rows of a database, in the order of their IDs.
type page struct {
	rows []*task.Task
	next task.ID // the last ID that was read; zero if all were
}

// share returns how many of the rows to read each database reads.
func (s *Store) share(scan int) int {
	if scan < 1 {
		return scan
	}
	return max(1, scan/len(s.databases))
}

// join returns the rows up to the ID up to which all databases were read, and that ID.
func (s *Store) join(pages []page, compare func(a, b *task.Task) int) (ts []*task.Task, next task.ID) {
	var parts [][]*task.Task
	end := &task.Task{}
	for _, p := range pages {
		parts = append(parts, p.rows)
		if at := (&task.Task{ID: p.next}); !p.next.IsZero() && (end.ID.IsZero() || compare(at, end) < 0) {
			end = at
		}
	}
	ts = merge(s.routes.Load(), parts, refOfTask, compare)
	if !end.ID.IsZero() {
		ts = slices.DeleteFunc(ts, func(t *task.Task) bool { return compare(t, end) > 0 })
	}
	return ts, end.ID
}
