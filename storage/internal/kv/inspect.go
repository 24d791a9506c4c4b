package kv

import (
	"context"
	"errors"

	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/storage"
)

// List implements [storage.Inspector].
func (v *View) List(ctx context.Context, f storage.Filter, before task.ID, limit, scan int) ([]*task.Task, task.ID, error) {
	out, next, err := v.list(ctx, f, before, limit, scan)
	if err != nil {
		return nil, task.ID{}, v.db.fail("list", err)
	}
	return out, next, nil
}

func (v *View) list(ctx context.Context, f storage.Filter, before task.ID, limit, scan int) (out []*task.Task, next task.ID, err error) {
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
		s, typ, err := peek(next, c.Value(), &v.db.intern)
		if err != nil {
			return nil, task.ID{}, err
		}
		if !f.Match(s, typ) {
			continue
		}
		r, err := decodeRecord(next, c.Value(), &v.db.intern)
		if err != nil {
			return nil, task.ID{}, err
		}
		if r.far&farHistory != 0 {
			if r.History, err = v.farHistory(r); err != nil {
				return nil, task.ID{}, err
			}
		}
		r.Payload, r.Result = nil, nil
		out = append(out, &r.Task)
	}
	return out, task.ID{}, nil
}

// Count implements [storage.Inspector]. It reads every record.
func (v *View) Count(ctx context.Context, f storage.Filter) (map[storage.StateType]int64, error) {
	n := make(map[storage.StateType]int64)
	err := v.count(ctx, f, n)
	if err != nil {
		return nil, v.db.fail("count", err)
	}
	return n, nil
}

func (v *View) count(ctx context.Context, f storage.Filter, n map[storage.StateType]int64) (err error) {
	c, err := v.r.Scan([]byte{prefixRecord}, []byte{prefixRecord + 1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	seen := 0
	for ok := c.First(); ok; ok = c.Next() {
		if seen++; seen%1024 == 1 && ctx.Err() != nil {
			return ctx.Err()
		}
		id, err := idOf(c.Key())
		if err != nil {
			return err
		}
		s, typ, err := peek(id, c.Value(), &v.db.intern)
		if err != nil {
			return err
		}
		if f.Match(s, typ) {
			n[storage.StateType{State: s, Type: typ}]++
		}
	}
	return nil
}
