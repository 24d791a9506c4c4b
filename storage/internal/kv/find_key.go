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
	all := appendUniqueKey(nil, &task.Task{Type: typ})
	lower, upper := append(slices.Clip(all), max(prefix, after+"\x00")...), append([]byte(nil), all...)
	if end, ok := storage.AfterPrefix(prefix); ok {
		upper = append(upper, end...)
	} else {
		upper[len(upper)-1]++ // the end of the text of the ordering key
	}
	if bytes.Compare(lower, upper) >= 0 {
		return nil, ctx.Err()
	}
	c, err := v.r.Scan(lower, upper)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	for ok := c.First(); ok && len(found) < limit; ok = c.Next() {
		if err := pause(ctx, len(found)); err != nil {
			return nil, err
		}
		value, err := c.Value()
		if err != nil {
			return nil, err
		}
		id, err := idOfValue(c.Key(), value)
		if err != nil {
			return nil, err
		}
		found = append(found, storage.KeyHolder{Key: string(c.Key()[len(all):]), ID: id})
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
