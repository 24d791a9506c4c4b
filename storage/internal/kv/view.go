package kv

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// View answers the reading verbs over a Reader.
type View struct {
	db    *DB
	r     Reader
	rows  map[task.ID]*row   // written by the transaction itself, if any
	parts map[string][]byte  // likewise
	heads map[string]task.ID // likewise
	keys  map[string]task.ID // unique keys that it wrote; zero for one that it deleted
}

// Read returns a view of r, valid as long as r is.
func (db *DB) Read(r Reader) View { return View{db: db, r: r} }

// row reads the row with this id; nil is none.
func (v *View) row(id task.ID) (*row, error) {
	if r, touched := v.rows[id]; touched {
		return r, nil
	}
	var buf [idKeySize]byte
	value, found, err := v.r.Get(appendIDKey(buf[:0], prefixRecord, id))
	if err != nil || !found {
		return nil, err
	}
	return decodeRecord(id, value, &v.db.intern)
}

// rowAt reads the row with this id from a cursor at its record.
func (v *View) rowAt(c Cursor, id task.ID) (*row, error) {
	value, err := c.Value()
	if err != nil {
		return nil, err
	}
	return decodeRecord(id, value, &v.db.intern)
}

// peekAt reads the part of the record at the cursor that is needed to count it.
func (v *View) peekAt(c Cursor, id task.ID) (task.State, string, error) {
	value, err := c.Value()
	if err != nil {
		return 0, "", err
	}
	return peek(id, value, &v.db.intern)
}

// part returns a copy of a part of r: inline unless it has a key of its own.
func (v *View) part(r *row, bit fields, inline []byte) ([]byte, error) {
	if r.far&bit == 0 {
		return append([]byte(nil), inline...), nil
	}
	var buf [idKeySize]byte
	key := appendIDKey(buf[:0], partPrefix(bit), r.ID)
	value, found := v.parts[string(key)]
	if !found {
		var err error
		if value, found, err = v.r.Get(key); err != nil {
			return nil, err
		}
	}
	if !found {
		return nil, fmt.Errorf("key %x of task %v is missing: %w", key, r.ID, ErrDamaged)
	}
	return append([]byte(nil), value...), nil
}

// farHistory reads a history that has a key of its own.
func (v *View) farHistory(r *row) ([]task.Attempt, error) {
	value, err := v.part(r, farHistory, nil)
	if err != nil {
		return nil, err
	}
	return decodeHistory(r.ID, r.base(), value)
}

// notes returns the notes of r in memory of their own.
func (v *View) notes(r *row) (*task.Notes, error) {
	if r.Notes == nil && r.far&farCheckpoint == 0 {
		return nil, nil
	}
	checkpoint, err := v.part(r, farCheckpoint, r.Checkpoint())
	return task.NewNotes(r.Progress(), checkpoint), err
}

// whole returns all of r in memory of its own.
func (v *View) whole(r *row) (t *task.Task, err error) {
	t = r.Task.Clone()
	if t.Payload, err = v.part(r, farPayload, r.Payload); err != nil {
		return nil, err
	}
	if t.Result, err = v.part(r, farResult, r.Result); err != nil {
		return nil, err
	}
	if t.Notes, err = v.notes(r); err != nil {
		return nil, err
	}
	if r.far&farHistory != 0 {
		if t.History, err = v.farHistory(r); err != nil {
			return nil, err
		}
	}
	if r.far&farSignalData != 0 {
		if t.Signals, err = v.allSignals(r); err != nil {
			return nil, err
		}
	}
	if r.far&farChildren != 0 {
		if t.Children, err = v.allChildren(r); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// Get implements [storage.Tasks].
func (v *View) Get(ctx context.Context, id task.ID) (*task.Task, error) {
	if err := ctx.Err(); err != nil {
		return nil, v.db.fail("get", err)
	}
	r, err := v.row(id)
	if err != nil {
		return nil, v.db.fail("get", err)
	}
	if r == nil {
		return nil, fmt.Errorf("%v: %w", id, task.ErrNotFound)
	}
	t, err := v.whole(r)
	if err != nil {
		return nil, v.db.fail("get", err)
	}
	return t, nil
}

// Due implements [storage.Tasks].
func (v *View) Due(ctx context.Context, q storage.DueQuery) ([]storage.Due, error) {
	out, err := v.dueOf(ctx, q)
	if err != nil {
		return nil, v.db.fail("due", err)
	}
	return out, nil
}

// dueOf is due for some shards: it skips rows of others.
func (v *View) dueOf(ctx context.Context, q storage.DueQuery) (out []storage.Due, err error) {
	if q.Shards == nil {
		return v.due(ctx, q)
	}
	for len(out) < q.Limit {
		page, err := v.due(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, d := range page {
			if q.After = d; q.Shards.Has(d.Shard) && len(out) < q.Limit {
				out = append(out, d)
			}
		}
		if len(page) < q.Limit {
			break
		}
	}
	return out, nil
}

// due answers for all shards.
func (v *View) due(ctx context.Context, q storage.DueQuery) (out []storage.Due, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if q.Limit <= 0 {
		return nil, nil
	}
	lower, upper := dueRange(q)
	if bytes.Compare(lower, upper) >= 0 {
		return nil, nil
	}
	c, err := v.r.Scan(lower, upper)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	var ids []task.ID
	for ok := c.First(); ok && len(ids) < q.Limit; ok = c.Next() {
		_, id, err := parseDueKey(c.Key())
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	out = make([]storage.Due, len(ids))
	return out, v.each(ids, func(i int, r *row) error {
		if r == nil {
			return fmt.Errorf("task %v is due and does not exist: %w", ids[i], ErrDamaged)
		}
		out[i] = storage.Due{Trigger: r.Trigger(), At: r.NextEventAt}
		return nil
	})
}

// Ready implements [storage.Tasks]. It reads the index only.
func (v *View) Ready(ctx context.Context, q storage.ReadyQuery) ([]task.Trigger, error) {
	out, err := v.ready(ctx, q)
	if err != nil {
		return nil, v.db.fail("ready", err)
	}
	return out, nil
}

func (v *View) ready(ctx context.Context, q storage.ReadyQuery) (out []task.Trigger, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if q.Limit <= 0 {
		return nil, nil
	}
	prefix := appendQueue(nil, q.Queue)
	lower := prefix
	if q.After != nil {
		lower = append(appendRank(append([]byte(nil), prefix...), *q.After), 0)
	}
	c, err := v.r.Scan(lower, successor(prefix))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	for ok := c.First(); ok && len(out) < q.Limit; ok = c.Next() {
		value, err := c.Value()
		if err != nil {
			return nil, err
		}
		tr, err := parseReady(q.Queue, len(prefix), c.Key(), value)
		if err != nil {
			return nil, err
		}
		if q.Shards.Has(tr.Shard) {
			out = append(out, tr)
		}
	}
	return out, nil
}

// Queues implements [storage.Tasks]. It skips from each queue to the next.
func (v *View) Queues(ctx context.Context, after task.Queue, limit int) ([]task.Queue, error) {
	out, err := v.queues(ctx, after, limit)
	if err != nil {
		return nil, v.db.fail("queues", err)
	}
	return out, nil
}

func (v *View) queues(ctx context.Context, after task.Queue, limit int) (out []task.Queue, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if limit <= 0 {
		return nil, nil
	}
	lower := []byte{prefixReady}
	if after != (task.Queue{}) {
		lower = successor(appendQueue(nil, after))
	}
	c, err := v.r.Scan(lower, []byte{prefixReady + 1})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	for ok := c.First(); ok && len(out) < limit; {
		queue, prefix, err := queueOf(c.Key())
		if err != nil {
			return nil, err
		}
		out = append(out, queue)
		ok = c.Seek(successor(prefix))
	}
	return out, nil
}

// queueOf returns the queue of a key of the ready index, and the part that names it.
func queueOf(key []byte) (l task.Queue, prefix []byte, err error) {
	rest := key[1:]
	if l.Type, rest, err = cutText(rest); err != nil {
		return l, nil, err
	}
	if l.Group, rest, err = cutText(rest); err != nil {
		return l, nil, err
	}
	return l, key[:len(key)-len(rest)], nil
}

// idOfValue reads the value of a unique key.
func idOfValue(key, value []byte) (task.ID, error) {
	if len(value) != len(task.ID{}) {
		return task.ID{}, fmt.Errorf("value of key %x: %w", key, ErrDamaged)
	}
	return task.ID(value), nil
}
