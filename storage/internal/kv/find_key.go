package kv

import (
	"context"
	"fmt"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// FindKey implements [storage.KeyFinder].
func (v *View) FindKey(ctx context.Context, typ, orderingKey, key string) (*task.Task, error) {
	k := appendUniqueKey(nil, &task.Task{Type: typ, OrderingKey: orderingKey, Key: key})
	value, found, err := v.r.Get(k)
	if err != nil {
		return nil, v.db.fail("find a key", err)
	}
	if !found {
		return nil, fmt.Errorf("no task has the key: %w", task.ErrNotFound)
	}
	id, err := idOfValue(k, value)
	if err != nil {
		return nil, v.db.fail("find a key", err)
	}
	return v.Get(ctx, id)
}

var _ storage.KeyFinder = (*Calls)(nil)

// FindKey implements [storage.KeyFinder].
func (c *Calls) FindKey(ctx context.Context, typ, orderingKey, key string) (*task.Task, error) {
	return query(ctx, c, "find a key", func(v *View) (*task.Task, error) { return v.FindKey(ctx, typ, orderingKey, key) })
}
