package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/storage"
)

// verbs are the verbs on rows, of a store or within a transaction.
type verbs struct {
	store *Store
	tx    *Tx // nil: each round trip is a transaction of its own
}

// pipe is what is sent in one round trip. All of it happens in the transaction, or
// nothing.
type pipe struct {
	batch pgx.Batch
}

// add queues a statement; each row of its answer is told to row, which may be nil.
func (p *pipe) add(row func(pgx.Rows) error, sql string, args ...any) {
	p.batch.Queue(sql, args...).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			if row == nil {
				continue
			}
			if err := row(rows); err != nil {
				return err
			}
		}
		return rows.Err()
	})
}

// How long one round trip may take before the connection is given up: of what finds its
// rows by index, and of what may read whole tables. Nobody else would notice that a
// network swallows what is sent.
const (
	patience       = 10 * time.Second
	browsePatience = time.Minute
)

// do sends p. Its statements find what they need by index, and may write.
func (v *verbs) do(ctx context.Context, p *pipe) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if v.tx != nil {
		return v.tx.do(ctx, p)
	}
	return v.store.writer.SendBatch(ctx, after(p, settings)).Close()
}

// lendAfter is how long something that reads waits for a connection before it may have one of
// those for what writes.
const lendAfter = 100 * time.Millisecond

// read sends p, whose statements find what they need by index and write nothing. Whoever keeps
// the other connections busy does not keep it from being done: one at a time has a connection
// for what writes.
func (v *verbs) read(ctx context.Context, p *pipe) error {
	if v.tx != nil {
		return v.do(ctx, p)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	soon, giveUp := context.WithTimeout(ctx, lendAfter)
	c, err := v.store.pool.Acquire(soon)
	giveUp()
	if err != nil && errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		select {
		case v.store.lent <- struct{}{}:
			defer func() { <-v.store.lent }()
		case <-ctx.Done():
			return ctx.Err()
		}
		c, err = v.store.writer.Acquire(ctx)
	}
	if err != nil {
		return err
	}
	defer c.Release()
	return c.SendBatch(ctx, after(p, settings)).Close()
}

// browse sends p, whose statements may read whole tables.
func (v *verbs) browse(ctx context.Context, p *pipe) error {
	ctx, cancel := context.WithTimeout(ctx, browsePatience)
	defer cancel()
	if v.tx != nil {
		return v.tx.do(ctx, p)
	}
	return v.store.pool.SendBatch(ctx, &p.batch).Close()
}

// after returns the statements of p after others.
func after(p *pipe, statements ...string) *pgx.Batch {
	b := &pgx.Batch{}
	for _, sql := range statements {
		b.Queue(sql)
	}
	b.QueuedQueries = append(b.QueuedQueries, p.batch.QueuedQueries...)
	return b
}

// atomically calls fn with the verbs of a transaction: that of v, or one of its own. Of
// its own, it is made again when others were in the way.
func (v *verbs) atomically(ctx context.Context, doing string, fn func(v *verbs) error) error {
	return v.again(ctx, doing, func() error {
		if v.tx != nil {
			return fn(v)
		}
		return v.store.transact(ctx, func(x *Tx) error { return fn(&x.verbs) })
	})
}

// attempts is how often a transaction of a verb is made when others are in its way.
const attempts = 20

// again calls fn, which is a whole transaction, until others are not in its way. Within
// a transaction it is called once.
func (v *verbs) again(ctx context.Context, doing string, fn func() error) (err error) {
	if v.tx != nil {
		if err := v.tx.usable(ctx); err != nil {
			return err
		}
	} else if err := ctx.Err(); err != nil {
		return v.store.failed(doing, err)
	}
	for range attempts {
		if err = fn(); err == nil || v.tx != nil || !isTransient(err) {
			break
		}
		v.store.slots.forgetAll() // one that is needed may be gone
	}
	if err != nil {
		err = v.store.failed(doing, err)
	}
	if v.tx != nil && v.tx.err == nil {
		v.tx.err = err
	}
	return err
}

// runs cuts n things into runs in which no two are the same by any of their names: a
// statement sees none of what it does itself.
func runs[T any](things []T, names func(T, func(name any))) [][]T {
	if len(things) < 2 {
		return [][]T{things}
	}
	var out [][]T
	seen, from := make(map[any]struct{}, len(things)), 0
	for i, thing := range things {
		again := false
		names(thing, func(name any) {
			_, taken := seen[name]
			again = again || taken
		})
		if again {
			out = append(out, things[from:i])
			from = i
			clear(seen)
		}
		names(thing, func(name any) { seen[name] = struct{}{} })
	}
	return append(out, things[from:])
}

// Get implements [storage.Tasks]. Within a transaction it keeps others from changing the
// row until that ends.
func (v *verbs) Get(ctx context.Context, id task.ID) (found *task.Task, err error) {
	row := func(rows pgx.Rows) (err error) {
		found, err = scanRow(rows)
		return err
	}
	err = v.again(ctx, "get", func() error {
		var p pipe
		if v.tx == nil {
			p.add(row, v.store.sql.get, id)
		} else { // a row may come back from where it was not found
			p.add(row, v.store.sql.lockTask, uuids([]task.ID{id}, itself))
			p.add(row, v.store.sql.lockEnded, uuids([]task.ID{id}, itself))
			p.add(row, v.store.sql.lockTask, uuids([]task.ID{id}, itself))
		}
		return v.read(ctx, &p)
	})
	if err == nil && found == nil {
		err = fmt.Errorf("postgres: %v: %w", id, task.ErrNotFound)
	}
	return found, err
}

// Delete implements [storage.Tasks].
func (v *verbs) Delete(ctx context.Context, rs ...task.Ref) ([]bool, error) {
	gone := make(map[task.Ref]bool)
	err := v.again(ctx, "delete", func() error {
		clear(gone)
		for _, run := range runs(rs, func(r task.Ref, name func(any)) { name(r.ID) }) {
			if len(run) == 0 {
				continue
			}
			var p pipe
			p.add(func(rows pgx.Rows) error {
				r := reader{values: rows.RawValues()}
				gone[task.Ref{ID: task.ID(r.sized(16)), Version: uint64(r.int64())}] = true
				return r.err
			}, v.store.sql.remove, uuids(run, func(r task.Ref) task.ID { return r.ID }), bigints(run, func(r task.Ref) int64 { return int64(r.Version) }))
			if err := v.do(ctx, &p); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	out := make([]bool, len(rs))
	for i, r := range rs {
		out[i] = gone[r]
		delete(gone, r)
	}
	return out, nil
}

// Note implements [storage.Tasks].
func (v *verbs) Note(ctx context.Context, ns ...task.Note) ([]bool, error) {
	out := make([]bool, 0, len(ns))
	err := v.again(ctx, "note", func() error {
		out = out[:0]
		for _, run := range runs(ns, func(n task.Note, name func(any)) { name(n.ID) }) {
			if len(run) == 0 {
				continue
			}
			noted, err := v.note(ctx, run)
			if err != nil {
				return err
			}
			for _, n := range run {
				out = append(out, noted[n.ID])
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// note writes notes of different rows.
func (v *verbs) note(ctx context.Context, ns []task.Note) (map[task.ID]bool, error) {
	rows := make([]task.Task, len(ns)) // applied to a row that has nothing, a note shows what it makes of one
	indexes := make([]int, len(ns))
	for i, n := range ns {
		rows[i], indexes[i] = task.Task{ID: n.ID, Version: n.Version, State: task.Processing}, i
		n.Apply(&rows[i])
	}
	noted := make(map[task.ID]bool, len(ns))
	var p pipe
	p.add(func(r pgx.Rows) error {
		noted[task.ID(r.RawValues()[0])] = true
		return nil
	}, v.store.sql.note, uuids(ns, func(n task.Note) task.ID { return n.ID }), bigints(ns, func(n task.Note) int64 { return int64(n.Version) }),
		booleans(ns, func(n task.Note) bool { return n.Progress != nil }),
		bytesOrNull(indexes, func(i int) []byte { return encodeProgress(rows[i].Progress()) }),
		booleans(ns, func(n task.Note) bool { return n.Checkpoint != nil }),
		bytesOrNull(indexes, func(i int) []byte { return rows[i].Checkpoint() }))
	return noted, v.do(ctx, &p)
}

var _ storage.Tasks = (*verbs)(nil)
