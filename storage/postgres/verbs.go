package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// verbs implements [storage.Tasks] for a Store and for a Tx.
type verbs struct {
	store *Store
	tx    *Tx // nil: each round trip is a transaction of its own
	way   way
}

// way is on which connections a transaction of the store is done, and how long it waits for locks.
type way uint8

const (
	directly way = iota // a verb of the store, aside
	little              // a batch behind which others wait, by a writer
	least               // a part of such a batch, aside
	long                // a single row of one, aside
	again               // a single row that needs a lock that was not free a moment ago, aside
	whole               // a batch behind which others wait while a whole table is locked, by a writer
)

// ways has the way of a batch.
var ways = [...]way{storage.WaitLittle: little, storage.WaitLeast: least, storage.WaitLong: long}

// pool returns the connections for writes.
func (v *verbs) pool() *pgxpool.Pool {
	switch v.way {
	case little, whole:
		return v.store.writer
	case directly:
		return v.store.direct
	}
	return v.store.aside
}

// settings returns what goes before the statements of a transaction.
func (v *verbs) settings() string { return v.store.sql.first.settings[v.way] }

// pipe is the statements of one round trip. All of them are done, or none.
type pipe struct {
	batch pgx.Batch
}

// add queues a statement, and calls row, unless it is nil, with each row of its answer.
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
		if err := rows.Err(); err != nil {
			return &statementError{sql, err}
		}
		return nil
	})
}

// statementError is the error of a statement.
type statementError struct {
	sql string
	error
}

// Unwrap returns the error of the driver.
func (e *statementError) Unwrap() error { return e.error }

// How long a round trip may take before its connection is closed: of statements that find their
// rows by index, and of statements that may read whole tables. Nothing else detects a network that
// drops packets.
const (
	patience       = 10 * time.Second
	browsePatience = time.Minute
)

// do sends p. Its statements find rows by index, and may write.
func (v *verbs) do(ctx context.Context, p *pipe) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if v.tx != nil {
		return v.tx.do(ctx, p)
	}
	return v.pool().SendBatch(ctx, after(p, v.settings())).Close()
}

// lendAfter is how long a read waits for a connection before it may use one of those for writes.
const lendAfter = 100 * time.Millisecond

// read sends p. Its statements find rows by index and write nothing. If all connections
// for reads are busy, one read at a time uses a connection for writes.
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
	return c.SendBatch(ctx, after(p, v.settings())).Close()
}

// browse sends p. Its statements may read whole tables.
func (v *verbs) browse(ctx context.Context, p *pipe) error { return v.browseBy(ctx, p, planBrowse) }

// browseBy is browse with other settings of the planner.
func (v *verbs) browseBy(ctx context.Context, p *pipe, settings string) error {
	ctx, cancel := context.WithTimeout(ctx, browsePatience)
	defer cancel()
	if v.tx != nil {
		return v.tx.do(ctx, p)
	}
	return v.store.pool.SendBatch(ctx, after(p, settings)).Close()
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

// atomically calls fn with the verbs of a transaction: that of v, or a new one. A new one is
// repeated if it failed because of concurrent transactions.
func (v *verbs) atomically(ctx context.Context, doing string, fn func(v *verbs) error) error {
	return v.again(ctx, doing, func() error {
		if v.tx != nil {
			return fn(v)
		}
		return v.store.transact(ctx, v.way, func(x *Tx) error { return fn(&x.verbs) })
	})
}

// attempts is how often a transaction of a verb is tried if it fails because of concurrent ones.
const attempts = 20

// again calls fn, which is a whole transaction, until it does not fail because of concurrent
// transactions. Within a transaction it calls fn once.
func (v *verbs) again(ctx context.Context, doing string, fn func() error) (err error) {
	if v.tx != nil {
		if err := v.tx.usable(ctx); err != nil {
			return err
		}
	} else if err := ctx.Err(); err != nil {
		return v.store.failed(doing, err)
	}
	for range attempts {
		if err = fn(); err == nil || v.tx != nil || !IsTransient(err) {
			break
		}
		v.store.partitions.forgetAll() // a partition that is needed may have been dropped
	}
	if err != nil {
		err = v.store.failed(doing, err)
	}
	if v.tx != nil && v.tx.err == nil {
		v.tx.err = err
	}
	return err
}

// runs divides things into runs in which no two have a name in common: a statement does not see its
// own changes.
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

// Get implements [storage.Tasks]. Within a transaction it locks the row until the transaction ends.
func (v *verbs) Get(ctx context.Context, id task.ID) (found *task.Task, err error) {
	row := func(rows pgx.Rows) (err error) {
		found, err = scanRow(rows)
		return err
	}
	err = v.again(ctx, "get", func() error {
		for {
			var p pipe
			if v.tx == nil {
				p.add(row, v.store.sql.get, id)
			} else { // a row may return to the table task between the first two statements
				p.add(row, v.store.sql.lockTask, uuids([]task.ID{id}, itself))
				p.add(row, v.store.sql.lockEnded, uuids([]task.ID{id}, itself))
				p.add(row, v.store.sql.lockTask, uuids([]task.ID{id}, itself))
			}
			if err := v.read(ctx, &p); err != nil || found != nil || v.tx == nil {
				return err
			}
			if left, err := v.moved(ctx, []task.ID{id}); err != nil || len(left) == 0 {
				return err
			}
		}
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
	if v.way != directly || v.tx != nil {
		return v.noteAll(ctx, ns)
	}
	b := new(storage.Batch)
	for _, n := range ns {
		b.Swap = append(b.Swap, task.Change{Ref: n.Ref})
	}
	known := v.store.locks.isWaiting(b)
	if known {
		v = &verbs{store: v.store, way: again}
	}
	out, err := v.noteAll(ctx, ns)
	v.store.locks.tried(b, known, err, rowLock)
	return out, err
}

// noteAll is Note without a look at the known locks.
func (v *verbs) noteAll(ctx context.Context, ns []task.Note) ([]bool, error) {
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

// note writes notes, each of another row.
func (v *verbs) note(ctx context.Context, ns []task.Note) (map[task.ID]bool, error) {
	rows := make([]task.Task, len(ns)) // a note is applied to an empty row to learn its effect
	indexes := make([]int, len(ns))
	for i, n := range ns {
		rows[i], indexes[i] = task.Task{ID: n.ID, Version: n.Version, State: task.Processing, Owner: n.By}, i
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
		bytesOrNull(indexes, func(i int) []byte { return rows[i].Checkpoint() }),
		uuidsOrNull(ns, func(n task.Note) task.ID { return n.By }))
	return noted, v.do(ctx, &p)
}

var _ storage.Tasks = (*verbs)(nil)
