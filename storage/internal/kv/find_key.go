package kv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// FindKey implements [storage.KeyFinder].
func (v *View) FindKey(ctx context.Context, typ, orderingKey, key string) (*task.Task, error) {
	id, err := v.keyHolder(appendUniqueKey(nil, &task.Task{Type: typ, OrderingKey: orderingKey, Key: key}))
	switch {
	case err != nil:
		return nil, v.db.fail("find a key", err)
	case id.IsZero():
		return nil, fmt.Errorf("no task has the key: %w", task.ErrNotFound)
	}
	return v.Get(ctx, id)
}

var _ storage.KeyFinder = (*Calls)(nil)

// FindKey implements [storage.KeyFinder].
func (c *Calls) FindKey(ctx context.Context, typ, orderingKey, key string) (*task.Task, error) {
	return query(ctx, c, "find a key", func(v *View) (*task.Task, error) { return v.FindKey(ctx, typ, orderingKey, key) })
}

// KeysOf implements [storage.KeyFinder].
func (v *View) KeysOf(ctx context.Context, typ, prefix, after string, limit int) ([]storage.KeyHolder, error) {
	found, err := v.keysOf(ctx, typ, prefix, after, limit)
	if err != nil {
		return nil, v.db.fail("list unique keys", err)
	}
	return found, nil
}

func (v *View) keysOf(ctx context.Context, typ, prefix, after string, limit int) (found []storage.KeyHolder, err error) {
	all := appendText([]byte{prefixUnique}, typ)
	lower, upper := appendPrefix(slices.Clip(all), max(prefix, after+"\x00")), successor(all)
	if end, ok := storage.AfterPrefix(prefix); ok {
		upper = appendPrefix(slices.Clip(all), end)
	}
	if bytes.Compare(lower, upper) >= 0 {
		return nil, ctx.Err()
	}
	c, err := v.r.Scan(lower, upper)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	for seen, ok := 0, c.First(); ok && len(found) < limit; seen, ok = seen+1, c.Next() {
		if err := pause(ctx, seen); err != nil {
			return nil, err
		}
		key, order, err := cutText(c.Key()[len(all):])
		if err != nil {
			return nil, err
		}
		if len(order) > 0 {
			continue
		}
		value, err := c.Value()
		if err != nil {
			return nil, err
		}
		id, err := idOfValue(c.Key(), value)
		if err != nil {
			return nil, err
		}
		found = append(found, storage.KeyHolder{Key: key, ID: id})
	}
	return found, nil
}

// KeysOf implements [storage.KeyFinder].
func (c *Calls) KeysOf(ctx context.Context, typ, prefix, after string, limit int) ([]storage.KeyHolder, error) {
	return query(ctx, c, "list unique keys", func(v *View) ([]storage.KeyHolder, error) { return v.KeysOf(ctx, typ, prefix, after, limit) })
}

// keyHolder returns the ID of the task that has a unique key; zero if there is none.
func (v *View) keyHolder(key []byte) (holder task.ID, err error) {
	if holder, touched := v.keys[string(key)]; touched {
		return holder, nil
	}
	value, found, err := v.r.Get(key)
	if err != nil || !found {
		return task.ID{}, err
	}
	return idOfValue(key, value)
}

// Existing implements [storage.Tasks].
func (v *View) Existing(ctx context.Context, ts ...*task.Task) ([]task.ID, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	out := make([]task.ID, len(ts))
	for i, t := range ts {
		r, err := v.row(t.ID)
		switch {
		case err != nil:
		case r != nil:
			out[i] = t.ID
		case t.Key != "":
			out[i], err = v.keyHolder(appendUniqueKey(nil, t))
		}
		if err != nil {
			return nil, v.db.fail("existing", err)
		}
	}
	return out, nil
}

// holdersOf returns the ids of the rows that have a key, of some types (none: of all) and all ordering keys. It skips from each type to the next.
func (v *View) holdersOf(ctx context.Context, types []string, key string) (ids []task.ID, err error) {
	c, err := v.r.Scan([]byte{prefixUnique}, []byte{prefixUnique + 1})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	of := storage.Filter{Types: types}
	for ok := c.First(); ok; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		typ, _, err := cutText(c.Key()[1:])
		if err != nil {
			return nil, err
		}
		all := appendText([]byte{prefixUnique}, typ)
		if of.Match(0, typ) {
			prefix := appendText(slices.Clip(all), key)
			for ok := c.Seek(prefix); has(ok, c, prefix); ok = c.Next() {
				value, err := c.Value()
				if err != nil {
					return nil, err
				}
				id, err := idOfValue(c.Key(), value)
				if err != nil {
					return nil, err
				}
				ids = append(ids, id)
			}
		}
		if err := c.Err(); err != nil {
			return nil, err
		}
		ok = c.Seek(successor(all))
	}
	return ids, c.Err()
}
