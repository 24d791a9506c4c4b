package kv

import (
	"context"
	"fmt"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// FindKey implements [storage.KeyFinder].
func (v *View) FindKey(ctx context.Context, typ, orderingKey, key string) (*task.Task, error) {
	wanted := &task.Task{Type: typ, OrderingKey: orderingKey, Key: key}
	keys := [][]byte{appendKeyOf(nil, wanted)}
	if orderingKey != "" { // an older program may have added the row
		keys = append(keys, appendUniqueKey(nil, typ, key))
	}
	for _, k := range keys {
		value, found, err := v.r.Get(k)
		if err != nil {
			return nil, v.db.fail("find a key", err)
		}
		if !found {
			continue
		}
		id, err := idOfValue(k, value)
		if err != nil {
			return nil, v.db.fail("find a key", err)
		}
		if t, err := v.Get(ctx, id); err != nil || t.OrderingKey == orderingKey {
			return t, err
		}
	}
	return nil, fmt.Errorf("no task has the key: %w", task.ErrNotFound)
}

var _ storage.KeyFinder = (*Calls)(nil)

// FindKey implements [storage.KeyFinder].
func (c *Calls) FindKey(ctx context.Context, typ, orderingKey, key string) (*task.Task, error) {
	return query(ctx, c, "find a key", func(v *View) (*task.Task, error) { return v.FindKey(ctx, typ, orderingKey, key) })
}
