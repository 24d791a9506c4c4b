package memory

import (
	"context"
	"fmt"

	"github.com/taskengine/taskengine/task"
)

// FindKey implements [storage.KeyFinder].
func (s *Store) FindKey(ctx context.Context, typ, orderingKey, key string) (*task.Task, error) {
	return view(ctx, s, func() (*task.Task, error) {
		id, found := s.keys[keyOf(&task.Task{Type: typ, OrderingKey: orderingKey, Key: key})]
		if !found {
			return nil, fmt.Errorf("no task has the key: %w", task.ErrNotFound)
		}
		return s.get(id)
	})
}
