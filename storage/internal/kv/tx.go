package kv

import (
	"context"
	"errors"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// Tx is one transaction that may write. It is used by one goroutine, until it is committed or
// rolled back.
type Tx struct {
	*state // nil once the transaction is over
}

// read runs a reading verb of tx. After an error the transaction cannot be committed.
func read[T any](tx *Tx, verb func(*View) (T, error)) (T, error) {
	var none T
	switch {
	case tx.state == nil:
		return none, ErrDone
	case tx.err != nil:
		return none, tx.err
	}
	out, err := verb(&tx.View)
	if err != nil && !errors.Is(err, task.ErrNotFound) {
		tx.err = err
	}
	return out, err
}

// Get implements [storage.Tasks].
func (tx *Tx) Get(ctx context.Context, id task.ID) (*task.Task, error) {
	return read(tx, func(v *View) (*task.Task, error) { return v.Get(ctx, id) })
}

// Existing implements [storage.Tasks].
func (tx *Tx) Existing(ctx context.Context, ts ...*task.Task) ([]task.ID, error) {
	return read(tx, func(v *View) ([]task.ID, error) { return v.Existing(ctx, ts...) })
}

// Due implements [storage.Tasks].
func (tx *Tx) Due(ctx context.Context, q storage.DueQuery) ([]storage.Due, error) {
	return read(tx, func(v *View) ([]storage.Due, error) { return v.Due(ctx, q) })
}

// Ready implements [storage.Tasks].
func (tx *Tx) Ready(ctx context.Context, q storage.ReadyQuery) ([]task.Trigger, error) {
	return read(tx, func(v *View) ([]task.Trigger, error) { return v.Ready(ctx, q) })
}

// Queues implements [storage.Tasks].
func (tx *Tx) Queues(ctx context.Context, after task.Queue, limit int) ([]task.Queue, error) {
	return read(tx, func(v *View) ([]task.Queue, error) { return v.Queues(ctx, after, limit) })
}

var _ storage.Tx = (*Tx)(nil)

// state is the state of a transaction. The DB reuses its buffers for the next one.
type state struct {
	View
	rw      ReadWriter
	rows    map[task.ID]*row     // as this transaction left them; nil for a deleted one
	order   []task.ID            // the keys of rows, in the order of their first use
	keys    map[string]task.ID   // unique keys it wrote; zero for one it deleted
	ordered map[string][]task.ID // rows it wrote, by their ordering keys; a row may be there more than once
	heads   map[string]task.ID   // the heads that it wrote or read, by ordering key; zero for none
	placed  map[string]task.ID   // the entries of heads that place has made, until Promote
	lent    map[string]*loans    // of ordering keys; they are written at the end of each verb
	failed  map[string]*failures // by the keys of counters; likewise
	parts   map[string][]byte    // parts with a key of their own that it wrote; nil for one it deleted
	old     map[task.ID]*row     // read ahead; nil for one that does not exist
	ahead   []task.ID            // buffer of readAhead
	hooks   []func()
	err     error // the first error of a verb: the transaction cannot be committed

	seq, ceiling uint64 // of the DB before it began
	wrote        bool

	key, value []byte // scratch
	was, is    entries
}

// Begin starts a transaction over rw. No other one may be in progress.
func (db *DB) Begin(rw ReadWriter) *Tx {
	db.pages.begin()
	s := db.free
	db.free = nil
	if s == nil {
		s = &state{rows: make(map[task.ID]*row), keys: make(map[string]task.ID), ordered: make(map[string][]task.ID), heads: make(map[string]task.ID), placed: make(map[string]task.ID), lent: make(map[string]*loans), failed: make(map[string]*failures), parts: make(map[string][]byte), old: make(map[task.ID]*row)}
	}
	s.View = View{db: db, r: rw, rows: s.rows, parts: s.parts, heads: s.heads, keys: s.keys}
	s.rw, s.err, s.wrote = rw, nil, false
	s.seq, s.ceiling = db.seq, db.ceiling
	return &Tx{s}
}

// Err returns the error because of which the transaction cannot be committed, or nil.
func (tx *Tx) Err() error { return tx.err }

// Wrote reports whether there is anything to commit.
func (tx *Tx) Wrote() bool { return tx.wrote }

// Committed ends the transaction when the next one can read its writes. It returns the hooks
// to be called when the transaction is durable.
func (tx *Tx) Committed() []func() {
	s := tx.state
	for _, id := range s.order {
		r := s.rows[id]
		old, kept := s.db.recent.put(id, r)
		if old != r {
			s.db.reuse(old)
		}
		if !kept {
			s.db.reuse(r)
		}
	}
	hooks := s.hooks
	s.hooks = nil
	tx.end()
	return hooks
}

// RolledBack ends the transaction when nothing of it was applied.
func (tx *Tx) RolledBack() {
	tx.db.seq, tx.db.ceiling = tx.seq, tx.ceiling
	clear(tx.db.upcoming)
	tx.end()
}

// largestKept is the number of rows of a transaction above which its buffers are not reused: the
// cost of clearing a map depends on its largest size.
const largestKept = 4096

func (tx *Tx) end() {
	s := tx.state
	tx.state = nil
	if len(s.order)+len(s.old) > largestKept || cap(s.value) > 1<<16 {
		return
	}
	clear(s.rows)
	clear(s.keys)
	clear(s.ordered)
	clear(s.heads)
	clear(s.placed)
	clear(s.lent)
	clear(s.failed)
	clear(s.parts)
	clear(s.old)
	clear(s.hooks)
	s.order, s.hooks, s.rw, s.View = s.order[:0], s.hooks[:0], nil, View{db: s.db}
	s.db.free = s
}

// maxSpare is how many rows are kept for reuse, at about 450 bytes each.
const maxSpare = 2048

// newRow returns a row of its own memory.
func (db *DB) newRow(t *task.Task, far fields) *row {
	n := len(db.spare) - 1
	if n < 0 {
		return &row{Task: *t, far: far}
	}
	r := db.spare[n]
	db.spare = db.spare[:n]
	*r = row{Task: *t, far: far}
	return r
}

// reuse has newRow use the memory of r again, which may be nil. Nothing refers to r any more.
func (db *DB) reuse(r *row) {
	if r != nil && len(db.spare) < maxSpare {
		*r = row{} // frees its references
		db.spare = append(db.spare, r)
	}
}

// OnCommit implements [storage.Tx].
func (tx *Tx) OnCommit(fn func()) {
	if tx.state != nil {
		tx.hooks = append(tx.hooks, fn)
	}
}

// do runs a verb. After an error the transaction cannot be committed.
func (tx *Tx) do(ctx context.Context, verb string, fn func() error) error {
	if tx.state == nil {
		return ErrDone
	}
	if tx.err != nil {
		return tx.err
	}
	err := ctx.Err()
	if err == nil {
		err = fn()
	}
	if err == nil {
		err = tx.putLent()
	}
	if err == nil {
		err = tx.putFailures()
	}
	if err != nil {
		tx.err = tx.db.fail(verb, err)
	}
	return tx.err
}

// row returns the row as the transaction sees it, or nil. It must not be changed.
func (s *state) row(id task.ID) (*row, error) {
	if r, touched := s.rows[id]; touched {
		return r, nil
	}
	if r, maybe := s.db.recent.lookup(id); r != nil || !maybe {
		return r, nil
	}
	if r, known := s.old[id]; known {
		return r, nil
	}
	return s.View.row(id)
}

// note makes r the row with this id for the rest of the transaction; nil is no row.
func (s *state) note(id task.ID, r *row) {
	if _, touched := s.rows[id]; !touched {
		s.order = append(s.order, id)
	}
	s.rows[id] = r
	s.wrote = true
	if r != nil && r.OrderingKey != "" {
		s.ordered[r.OrderingKey] = append(s.ordered[r.OrderingKey], id)
		if r.Turn == task.Behind {
			s.db.seated(&r.Task)
		}
	}
}
