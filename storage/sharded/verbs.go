package sharded

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// verbs implements [storage.Tasks] for a Store and for a transaction.
type verbs struct {
	store *Store
	tx    *tx             // nil: each is a transaction of its own in each database
	in    []storage.Tasks // by database; nil for a database outside of the transaction
}

// run makes a call.
func (v *verbs) run(ctx context.Context, c *call) error {
	if v.tx != nil {
		return v.tx.run(ctx, c)
	}
	return v.store.route(ctx, c).err()
}

// each makes a call about things and returns an answer for each. An answer for which nope is true
// counts only if the database holds the shard.
func each[T, A any](ctx context.Context, v *verbs, doing string, things []T, id func(*T) task.ID,
	do func(database int, in storage.Tasks, some []T) ([]A, error), nope func(A) bool,
) ([]A, error) {
	var mu sync.Mutex
	answers := make([]A, len(things)) // guarded by mu
	err := v.run(ctx, &call{
		n:     len(things),
		shard: func(i int) uint16 { return id(&things[i]).Shard() },
		do: func(ctx context.Context, database int, some []int) (unsure []int, err error) {
			part := things
			if some != nil {
				part = pick(things, some)
			}
			got, err := do(database, v.in[database], part)
			if err != nil {
				return nil, err
			}
			mu.Lock()
			defer mu.Unlock()
			for k, a := range got {
				i := k
				if some != nil {
					i = some[k]
				}
				if answers[i] = a; nope(a) {
					unsure = append(unsure, i)
				}
			}
			return unsure, nil
		},
	})
	if err != nil {
		return nil, fmt.Errorf("sharded: %s: %w", doing, err)
	}
	return answers, nil
}

func pick[T any](things []T, some []int) []T {
	out := make([]T, len(some))
	for k, i := range some {
		out[k] = things[i]
	}
	return out
}

// Get implements [storage.Tasks].
func (v *verbs) Get(ctx context.Context, id task.ID) (*task.Task, error) {
	found, err := each(ctx, v, "get", []task.ID{id}, func(id *task.ID) task.ID { return *id },
		func(database int, in storage.Tasks, _ []task.ID) ([]*task.Task, error) {
			t, err := in.Get(ctx, id)
			if err != nil && !errors.Is(err, task.ErrNotFound) {
				return nil, err
			}
			ts := []*task.Task{t}
			if err != nil {
				ts[0] = nil
			}
			outwardAll(database, ts)
			return ts, nil
		}, isNil)
	switch {
	case err != nil:
		return nil, err
	case found[0] == nil:
		return nil, fmt.Errorf("sharded: %v: %w", id, task.ErrNotFound)
	}
	return found[0], nil
}

// GetAll implements [storage.Getter].
func (v *verbs) GetAll(ctx context.Context, ids ...task.ID) ([]*task.Task, error) {
	found, err := each(ctx, v, "get", ids, func(id *task.ID) task.ID { return *id },
		func(database int, in storage.Tasks, some []task.ID) ([]*task.Task, error) {
			rows, err := getAll(ctx, in, some)
			if err != nil {
				return nil, err
			}
			outwardAll(database, rows)
			return rows, nil
		}, isNil)
	return slices.DeleteFunc(found, isNil), err
}

// getAll returns the rows of IDs in their order, nil for those without one.
func getAll(ctx context.Context, in storage.Tasks, ids []task.ID) ([]*task.Task, error) {
	all := make([]*task.Task, len(ids))
	if many, ok := in.(storage.Getter); ok {
		rows, err := many.GetAll(ctx, ids...)
		if err != nil {
			return nil, err
		}
		found := make(map[task.ID]*task.Task, len(rows))
		for _, t := range rows {
			found[t.ID] = t
		}
		for i, id := range ids {
			all[i] = found[id]
		}
		return all, nil
	}
	for i, id := range ids {
		t, err := in.Get(ctx, id)
		if err != nil && !errors.Is(err, task.ErrNotFound) {
			return nil, err
		}
		all[i] = t
	}
	return all, nil
}

// Existing implements [storage.Tasks].
func (v *verbs) Existing(ctx context.Context, ts ...*task.Task) ([]task.ID, error) {
	return each(ctx, v, "existing", ts, func(t **task.Task) task.ID { return (*t).ID },
		func(_ int, in storage.Tasks, some []*task.Task) ([]task.ID, error) { return in.Existing(ctx, some...) }, task.ID.IsZero)
}

// Insert implements [storage.Tasks].
func (v *verbs) Insert(ctx context.Context, ts ...*task.Task) ([]storage.Inserted, error) {
	return each(ctx, v, "insert", ts, func(t **task.Task) task.ID { return (*t).ID },
		func(database int, in storage.Tasks, some []*task.Task) ([]storage.Inserted, error) {
			done, err := in.Insert(ctx, some...)
			if err == nil {
				number(database, some, done)
			}
			return done, err
		}, func(storage.Inserted) bool { return false })
}

// number writes to inserted and to replaced rows the Seq that the store returns for them.
func number(database int, ts []*task.Task, done []storage.Inserted) {
	for i, d := range done {
		if d.Created() {
			ts[i].Seq = outward(database, ts[i].Seq)
		}
		if r := d.Replaced; r != nil {
			r.Was.Seq, r.Row.Seq = outward(database, r.Was.Seq), outward(database, r.Row.Seq)
		}
	}
}

// numberFollowing is number for the rows that follow the changes of a batch.
func numberFollowing(database int, b *storage.Batch, out *storage.Outcome) {
	for i, done := range out.Followed {
		number(database, b.Follows(i), done)
	}
	outwardAll(database, out.Carriers)
}

// Swap implements [storage.Tasks].
func (v *verbs) Swap(ctx context.Context, cs ...task.Change) ([]*task.Task, error) {
	return each(ctx, v, "swap", cs, func(c *task.Change) task.ID { return c.ID },
		func(database int, in storage.Tasks, some []task.Change) ([]*task.Task, error) {
			now, err := in.Swap(ctx, some...)
			outwardAll(database, now)
			return now, err
		}, isNil)
}

// Note implements [storage.Tasks].
func (v *verbs) Note(ctx context.Context, ns ...task.Note) ([]bool, error) {
	return each(ctx, v, "note", ns, func(n *task.Note) task.ID { return n.ID },
		func(_ int, in storage.Tasks, some []task.Note) ([]bool, error) { return in.Note(ctx, some...) }, isFalse)
}

// Delete implements [storage.Tasks].
func (v *verbs) Delete(ctx context.Context, rs ...task.Ref) ([]bool, error) {
	return each(ctx, v, "delete", rs, func(r *task.Ref) task.ID { return r.ID },
		func(_ int, in storage.Tasks, some []task.Ref) ([]bool, error) { return in.Delete(ctx, some...) }, isFalse)
}

func isNil(t *task.Task) bool { return t == nil }

func isFalse(done bool) bool { return !done }
