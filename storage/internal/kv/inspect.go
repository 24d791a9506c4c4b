package kv

import (
	"context"
	"errors"
	"time"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// List implements [storage.Inspector].
func (v *View) List(ctx context.Context, f storage.Filter, before task.ID, limit, scan int) ([]*task.Task, task.ID, error) {
	out, next, err := v.list(ctx, f, before, limit, scan)
	if err != nil {
		return nil, task.ID{}, v.db.fail("list", err)
	}
	return out, next, nil
}

func (v *View) list(ctx context.Context, f storage.Filter, before task.ID, limit, scan int) ([]*task.Task, task.ID, error) {
	if !indexed(f) {
		return v.listAll(ctx, f, before, limit, scan)
	}
	out, next, done, err := v.listIndexed(ctx, f, before, limit, scan)
	if done || err != nil {
		return out, next, err
	}
	out, next, err = v.listAll(ctx, f, before, limit, scan)
	if err == nil && !next.IsZero() {
		v.keepPage(nextPage{filter: f, before: next, many: true})
	}
	return out, next, err
}

// keepPage remembers the next page of a list. A transaction sees rows of its own, of which other readers know nothing.
func (v *View) keepPage(n nextPage) {
	if v.rows == nil {
		n.at = time.Now()
		v.db.pages.keep(n)
	}
}

// listAll walks over the records.
func (v *View) listAll(ctx context.Context, f storage.Filter, before task.ID, limit, scan int) (out []*task.Task, next task.ID, err error) {
	upper := []byte{prefixRecord + 1}
	if !before.IsZero() {
		upper = appendIDKey(nil, prefixRecord, before)
	}
	c, err := v.r.Scan([]byte{prefixRecord}, upper)
	if err != nil {
		return nil, task.ID{}, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	for ok := c.Last(); ok; ok = c.Prev() {
		if len(out) >= limit || scan <= 0 {
			return out, next, nil
		}
		if err := ctx.Err(); err != nil {
			return nil, task.ID{}, err
		}
		scan--
		if next, err = idOf(c.Key()); err != nil {
			return nil, task.ID{}, err
		}
		record, err := c.Value()
		if err != nil {
			return nil, task.ID{}, err
		}
		t, err := v.listed(f, next, record)
		if err != nil {
			return nil, task.ID{}, err
		}
		if t != nil {
			out = append(out, t)
		}
	}
	return out, task.ID{}, nil
}

// listed returns the row with this record as lists have it, or nil if f does not select it.
func (v *View) listed(f storage.Filter, id task.ID, record []byte) (*task.Task, error) {
	s, typ, err := peek(id, record, &v.db.intern)
	if err != nil || !f.Match(s, typ) {
		return nil, err
	}
	r, err := decodeRecord(id, record, &v.db.intern)
	if err != nil || !f.Selects(&r.Task) {
		return nil, err
	}
	if r.far&farHistory != 0 {
		if r.History, err = v.farHistory(r); err != nil {
			return nil, err
		}
	}
	r.Payload, r.Result, r.Notes = nil, nil, task.NewNotes(r.Progress(), nil)
	r.Signals, r.Children = r.Signals.Listed(), nil
	return &r.Task, nil
}

// Count implements [storage.Inspector].
func (v *View) Count(ctx context.Context, f storage.Filter) (map[storage.StateType]int64, error) {
	n := make(map[storage.StateType]int64)
	count := v.countAll
	if indexed(f) {
		count = v.countIndexed
	}
	if err := count(ctx, f, n); err != nil {
		return nil, v.db.fail("count", err)
	}
	return n, nil
}

// countAll reads every record.
func (v *View) countAll(ctx context.Context, f storage.Filter, n map[storage.StateType]int64) (err error) {
	c, err := v.r.Scan([]byte{prefixRecord}, []byte{prefixRecord + 1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	for seen, ok := 0, c.First(); ok; seen, ok = seen+1, c.Next() {
		if err := pause(ctx, seen); err != nil {
			return err
		}
		id, err := idOf(c.Key())
		if err != nil {
			return err
		}
		if err := v.countAt(c, id, f, n); err != nil {
			return err
		}
	}
	return nil
}

// countAt counts the row at the cursor in n if f selects it.
func (v *View) countAt(c Cursor, id task.ID, f storage.Filter, n map[storage.StateType]int64) error {
	s, typ, err := v.peekAt(c, id)
	if err != nil {
		return err
	}
	if f.Match(s, typ) {
		n[storage.StateType{State: s, Type: typ}]++
	}
	return nil
}

// pause checks ctx at every 1024th key of a scan.
func pause(ctx context.Context, seen int) error {
	if seen%1024 != 0 {
		return nil
	}
	return ctx.Err()
}
