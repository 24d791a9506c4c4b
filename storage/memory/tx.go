package memory

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// errDone is returned by a transaction that is used after its function has returned.
var errDone = errors.New("the transaction is over")

// tx is a transaction. It changes the store in place, with the store's mu held, and keeps the former
// state to undo the changes.
type tx struct {
	s      *Store
	before map[task.ID]*task.Task // the rows before the transaction changed them; nil for a row that did not exist
	hooks  []func()
	err    error // the first error of a verb: the transaction cannot be committed
	done   bool
}

// undo restores every row. Sequence numbers are not used again.
func (x *tx) undo() {
	for id := range x.before {
		x.put(id, nil)
	}
	for id, t := range x.before {
		x.put(id, t)
	}
}

// put makes t the row with this id, nil for no row, and updates the maps of rows.
func (x *tx) put(id task.ID, t *task.Task) {
	old, found := x.s.rows[id]
	if _, touched := x.before[id]; !touched {
		x.before[id] = old
	}
	if found {
		x.s.remove(old)
	}
	if t != nil {
		x.s.add(t)
	}
}

// add is called with mu held.
func (s *Store) add(t *task.Task) {
	s.rows[t.ID] = t
	if t.Key != "" {
		s.keys[keyOf(t)] = t.ID
	}
	if t.Turn != task.Unordered {
		s.orders.add(t.OrderingKey, t)
	}
	if isReady(t) {
		s.queued.add(t.Queue(), t)
	}
	for _, v := range t.Search {
		s.searched.add(v, t)
	}
}

// remove is called with mu held.
func (s *Store) remove(t *task.Task) {
	delete(s.rows, t.ID)
	if t.Key != "" {
		delete(s.keys, keyOf(t))
	}
	if t.Turn != task.Unordered {
		s.orders.remove(t.OrderingKey, t.ID)
	}
	if isReady(t) {
		s.queued.remove(t.Queue(), t.ID)
	}
	for _, v := range t.Search {
		s.searched.remove(v, t.ID)
	}
}

// usable returns the error of a transaction that cannot be used.
func (x *tx) usable(ctx context.Context) error {
	if x.done {
		return fmt.Errorf("memory: %w", errDone)
	}
	if x.err == nil && ctx.Err() != nil {
		x.err = fmt.Errorf("memory: %w", ctx.Err())
	}
	return x.err
}

// OnCommit implements [storage.Tx].
func (x *tx) OnCommit(fn func()) { x.hooks = append(x.hooks, fn) }

// Insert implements [storage.Tasks].
func (x *tx) Insert(ctx context.Context, ts ...*task.Task) ([]storage.Inserted, error) {
	if err := x.usable(ctx); err != nil {
		return nil, err
	}
	out := make([]storage.Inserted, len(ts))
	for i, t := range ts {
		out[i].Existing = x.s.holder(t)
		if !out[i].Created() {
			continue
		}
		t.Boost = 0
		if t.Turn == task.Head {
			if head, _ := x.s.members(t.OrderingKey); head != nil {
				t.Turn = task.Behind
			}
		}
		x.s.seq++
		t.Seq = x.s.seq
		x.put(t.ID, stamped(t))
	}
	return out, nil
}

// Existing implements [storage.Tasks].
func (x *tx) Existing(ctx context.Context, ts ...*task.Task) ([]task.ID, error) {
	if err := x.usable(ctx); err != nil {
		return nil, err
	}
	return x.s.existing(ts), nil
}

// stamped returns a copy of t with its times truncated as rows keep them.
func stamped(t *task.Task) *task.Task {
	c := t.Clone()
	c.CreatedAt, c.ReadyAt, c.NextEventAt = task.Stamp(t.CreatedAt), task.Stamp(t.ReadyAt), task.Stamp(t.NextEventAt)
	c.ExpiresAt, c.StartedAt, c.UpdatedAt = task.Stamp(t.ExpiresAt), task.Stamp(t.StartedAt), task.Stamp(t.UpdatedAt)
	if c.Notes != nil {
		c.Notes.Progress.At = task.Stamp(c.Notes.Progress.At)
	}
	return c
}

// Swap implements [storage.Tasks].
func (x *tx) Swap(ctx context.Context, cs ...task.Change) ([]*task.Task, error) {
	if err := x.usable(ctx); err != nil {
		return nil, err
	}
	out := make([]*task.Task, len(cs))
	for i, c := range cs {
		old, found := x.s.rows[c.ID]
		if !found {
			continue
		}
		now := old.Clone()
		if !c.Apply(now) {
			continue
		}
		x.put(c.ID, now.Clone())
		if now.State != task.Processing {
			now.Payload, now.Notes = nil, task.NewNotes(now.Progress(), nil)
		}
		now.Result = nil
		out[i] = now
	}
	return out, nil
}

// Note implements [storage.Tasks].
func (x *tx) Note(ctx context.Context, ns ...task.Note) ([]bool, error) {
	if err := x.usable(ctx); err != nil {
		return nil, err
	}
	out := make([]bool, len(ns))
	for i, n := range ns {
		old, found := x.s.rows[n.ID]
		if !found {
			continue
		}
		now := old.Clone()
		n.Checkpoint = slices.Clone(n.Checkpoint)
		if out[i] = n.Apply(now); out[i] {
			x.put(n.ID, now)
		}
	}
	return out, nil
}

// Delete implements [storage.Tasks].
func (x *tx) Delete(ctx context.Context, rs ...task.Ref) ([]bool, error) {
	if err := x.usable(ctx); err != nil {
		return nil, err
	}
	out := make([]bool, len(rs))
	for i, r := range rs {
		if t, found := x.s.rows[r.ID]; found && t.Version == r.Version {
			x.put(r.ID, nil)
			out[i] = true
		}
	}
	return out, nil
}

// Get implements [storage.Tasks].
func (x *tx) Get(ctx context.Context, id task.ID) (*task.Task, error) {
	if err := x.usable(ctx); err != nil {
		return nil, err
	}
	return x.s.get(id)
}

// Due implements [storage.Tasks].
func (x *tx) Due(ctx context.Context, q storage.DueQuery) ([]storage.Due, error) {
	if err := x.usable(ctx); err != nil {
		return nil, err
	}
	return x.s.due(q), nil
}

// Ready implements [storage.Tasks].
func (x *tx) Ready(ctx context.Context, q storage.ReadyQuery) ([]task.Trigger, error) {
	if err := x.usable(ctx); err != nil {
		return nil, err
	}
	return x.s.ready(q), nil
}

// Queues implements [storage.Tasks].
func (x *tx) Queues(ctx context.Context, after task.Queue, limit int) ([]task.Queue, error) {
	if err := x.usable(ctx); err != nil {
		return nil, err
	}
	return x.s.queues(after, limit), nil
}
