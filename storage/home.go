package storage

import (
	"context"
	"errors"
	"fmt"

	"github.com/taskengine/taskengine/engine/task"
)

// ErrElsewhere is wrapped by the error of a call that would make or change rows of a shard
// that the store does not hold. Nothing of the call was done.
var ErrElsewhere = errors.New("the tasks of this shard are kept in another database")

// ShardOwner is implemented by stores that may hold a part of the tasks only, by [task.ID.Shard];
// other stores hold the others.
type ShardOwner interface {
	// Holdings returns what the store holds. It is read from the store at each call.
	Holdings(ctx context.Context) (Holdings, error)
}

// Holdings is which shards a store holds.
type Holdings struct {
	Owned     task.Shards // whose rows are in the store
	Migrating task.Shards // whose rows are on their way to another store: nobody holds them; none of Owned
	To        string      // the name of that store, as people call it
}

// ShardBound is implemented by stores, and by transactions, of tasks that several stores keep.
type ShardBound interface {
	// Shards returns of which shards new tasks may be, by [task.ID.Shard]; nil is of all.
	Shards() *task.Shards
}

// PartError is the error of a [Batcher] that has done a part of the batch: all of it but what is
// of some shards, by [task.ID.Shard], of which it is not known whether it was done. The
// [Outcome] is that of the others; the places of these are zero.
type PartError struct {
	Shards task.Shards
	Err    error
}

// Error implements [error].
func (e *PartError) Error() string { return fmt.Sprintf("a part of the batch: %v", e.Err) }

// Unwrap returns why the part was not done.
func (e *PartError) Unwrap() error { return e.Err }
