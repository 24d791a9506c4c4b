package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// A batch with rows on [storage.Terms] is tried in one round trip as any other, with a statement that fails if the key of such
// a row is taken. Then nothing of it was done, and it is done once more in a transaction that reads the tasks that have the
// keys before [task.Resolve] decides. It locks the rows that it changes, by their versions, and reads them again if that was
// too late: then they do not change any more.

// areFree fails with codeTaken if another row has the key of one of these. If none has it, the ID of that is taken.
const areFree = `
select {schema}.key_is_taken() from {key} k join unnest($1::bytea[], $2::bytea[], $3::bytea[], $4::uuid[]) as c (type, ordering_key, key, id)
	on k.type = c.type and k.ordering_key = c.ordering_key and k.key = c.key
where k.id <> c.id limit 1`

const codeTaken = "TE004"

// isUnresolved reports whether a batch failed because of areFree.
func isUnresolved(err error) bool {
	var said *pgconn.PgError
	return errors.As(err, &said) && said.Code == codeTaken
}

// onRules returns the rows of a batch with keys that are added by rules.
func onRules(b *storage.Batch) (rows []*task.Task) {
	for i := range b.Terms {
		if b.Terms[i].Rules != nil && b.Insert[i].Key != "" {
			rows = append(rows, b.Insert[i])
		}
	}
	return rows
}

// resolvesFor is for how many batches with terms the tasks that have their keys are read at once, after one needed that: types
// whose requests replace tasks do it often.
const resolvesFor = 100

// mayResolve reports whether a batch should not be tried in one round trip, because of its terms.
func (s *Store) mayResolve(b *storage.Batch) bool {
	if b.Terms == nil {
		return false
	}
	for i, t := range b.Insert {
		if terms := &b.Terms[i]; terms.NoPlace || terms.Rules != nil && terms.Rules.IsLate(t.CreatedAt, t.ReadyAt) {
			return true
		}
	}
	return s.resolves.Load() > 0 && s.resolves.Add(-1) >= 0
}

// noteResolved remembers whether keys of a batch were taken.
func (s *Store) noteResolved(b *storage.Batch, out *storage.Outcome) {
	for i := range b.Terms {
		if b.Terms[i].Rules != nil && out.Inserted[i].What != task.Adds {
			s.resolves.Store(resolvesFor)
			return
		}
	}
}

// holdersOf returns the tasks that hold the keys of the rows with rules. It maps each task to the indexes of these rows in
// Insert.
func (v *verbs) holdersOf(ctx context.Context, b *storage.Batch) (map[task.ID][]int, error) {
	if len(onRules(b)) == 0 {
		return nil, nil
	}
	keys := make(map[task.ID][]int)
	var p pipe
	for i, t := range b.Insert {
		if i >= len(b.Terms) || b.Terms[i].Rules == nil || t.Key == "" {
			continue
		}
		p.add(func(rows pgx.Rows) error {
			id := task.ID(rows.RawValues()[0])
			keys[id] = append(keys[id], i)
			return nil
		}, v.store.sql.findKey, []byte(t.Type), []byte(t.OrderingKey), []byte(t.Key))
	}
	return keys, v.do(ctx, &p)
}

// GetAll implements [storage.Getter]. It locks nothing: a request that changes no task does not wait for one that is locked, such
// as by the transaction of its handler.
func (v *verbs) GetAll(ctx context.Context, ids ...task.ID) (found []*task.Task, err error) {
	if len(ids) == 0 {
		return nil, ctx.Err()
	}
	err = v.again(ctx, "get", func() error {
		found = nil
		var p pipe
		p.add(func(rows pgx.Rows) error {
			t, err := scanRow(rows)
			if err == nil {
				found = append(found, t)
			}
			return err
		}, v.store.sql.getAll, uuids(ids, itself))
		return v.read(ctx, &p)
	})
	return found, err
}

var _ storage.Getter = (*Tx)(nil)
