package sharded

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// Promote implements [storage.Tasks]. The tasks of an ordering key are in the shard of the key.
func (v *verbs) Promote(ctx context.Context, keys ...string) ([]task.Hint, error) {
	var mu sync.Mutex
	var heads []task.Hint // guarded by mu
	err := v.run(ctx, &call{
		n:     len(keys),
		shard: func(i int) uint16 { return task.ShardOf(keys[i]) },
		do: func(ctx context.Context, database int, some []int) ([]int, error) {
			part := keys
			if some != nil {
				part = pick(keys, some)
			}
			got, err := v.in[database].Promote(ctx, part...)
			outwardHints(database, got)
			mu.Lock()
			defer mu.Unlock()
			heads = append(heads, got...)
			return nil, err
		},
	})
	if err != nil {
		return nil, fmt.Errorf("sharded: promote: %w", err)
	}
	return heads, nil
}

// Headless implements [storage.Tasks].
func (v *verbs) Headless(ctx context.Context, after string, limit int) (storage.HeadlessPage, error) {
	pages, err := ask(ctx, v, "headless", func(_ int, in storage.Tasks) (storage.HeadlessPage, error) {
		return in.Headless(ctx, after, limit)
	})
	if err != nil {
		return storage.HeadlessPage{}, err
	}
	return mergeHeadless(pages, limit), nil
}

// mergeHeadless returns the page that ends where the first of some pages ends.
func mergeHeadless(pages []storage.HeadlessPage, limit int) (all storage.HeadlessPage) {
	for _, p := range pages {
		all.Keys = append(all.Keys, p.Keys...)
		if p.Next != "" && (all.Next == "" || p.Next < all.Next) {
			all.Next = p.Next
		}
	}
	slices.Sort(all.Keys)
	all.Keys = slices.Compact(all.Keys)
	if all.Next != "" {
		all.Keys = slices.DeleteFunc(all.Keys, func(key string) bool { return key > all.Next })
	}
	if limit = max(0, limit); len(all.Keys) > limit {
		if all.Keys = all.Keys[:limit]; limit > 0 {
			all.Next = all.Keys[limit-1]
		}
	}
	return all
}
