package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// shardOf returns the shard of t. If t has no ID it generates one: in the shard that the key
// binds t to, if it does, otherwise in one of shards. nil stands for all shards.
func (c *catalog) shardOf(t *task.Task, shards *task.Shards) uint16 {
	shard, bound := task.BoundShard(t.Type, t.Key, t.OrderingKey)
	given := !t.ID.IsZero()
	switch now := c.now(); {
	case given && t.OrderingKey != "":
		return shard // independent of the ID
	case given:
	case bound:
		t.ID = c.ids.NextIn(now, shard)
	default:
		if t.ID = c.ids.Next(now); !shards.Has(t.ID.Shard()) {
			some := shards.List()
			t.ID = c.ids.NextIn(now, some[int(t.ID[14])%len(some)]) // this byte is random
		}
	}
	return t.ID.Shard()
}

// Errors of requests that several databases cannot accept: a database does not know the rows of
// the others.
var (
	errKeyInTx       = errors.New("a task that is added in a transaction has a key only together with an ordering key where several databases keep the tasks")
	errOrderAway     = fmt.Errorf("the ordering key: %w", storage.ErrElsewhere)
	errNoShards      = errors.New("the database of the transaction holds no shards: move some to it first")
	errOneOfSeveral  = errors.New("the store holds only a part of the tasks")
	errIDOfElsewhere = fmt.Errorf("the id: %w", storage.ErrElsewhere)
)

// checkPlace returns an error for a request that several databases cannot accept.
func (c *catalog) checkPlace(r *Request, shards *task.Shards) error {
	if !c.isDivided {
		return nil
	}
	shard, bound := task.BoundShard(r.Type, r.Key, r.OrderingKey)
	switch {
	case bound && !r.ID.IsZero() && r.ID.Shard() != shard:
		return fmt.Errorf("the id is of shard %d, and the key or ordering key of %d: where several databases keep the tasks, leave the id out or choose one that fits", r.ID.Shard(), shard)
	case shards == nil, c.leaves && !shards.IsEmpty():
		return nil
	case r.Key != "" && r.OrderingKey == "":
		return errKeyInTx
	case shards.IsEmpty():
		return errNoShards
	case bound && !shards.Has(shard):
		return errOrderAway
	case !r.ID.IsZero() && !shards.Has(r.ID.Shard()):
		return errIDOfElsewhere
	}
	return nil
}

// checkHome returns an error if s is one of several databases that hold the tasks together.
func checkHome(ctx context.Context, s storage.Store) error {
	owner, ok := s.(storage.ShardOwner)
	if !ok {
		return nil
	}
	held, err := owner.Holdings(ctx)
	if err == nil && held.Owned != task.AllShards() {
		err = fmt.Errorf("%w: the shards %s, and others hold the rest; open all of them by package storage/sharded", errOneOfSeveral, &held.Owned)
	}
	if err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	return nil
}
