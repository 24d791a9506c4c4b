package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/taskengine/taskengine/storage"
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

// KeysOf implements [storage.KeyFinder]. It walks over all keys.
func (s *Store) KeysOf(ctx context.Context, typ, prefix, after string, limit int) ([]storage.KeyHolder, error) {
	return view(ctx, s, func() (found []storage.KeyHolder, err error) {
		of := keyOf(&task.Task{Type: typ})
		for k, id := range s.keys {
			if of.key = k.key; k == of && k.key > after && strings.HasPrefix(k.key, prefix) {
				found = append(found, storage.KeyHolder{Key: k.key, ID: id})
			}
		}
		slices.SortFunc(found, func(a, b storage.KeyHolder) int { return cmp.Compare(a.Key, b.Key) })
		return found[:min(len(found), max(0, limit))], nil
	})
}
