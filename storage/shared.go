package storage

import (
	"context"
	"time"

	"github.com/taskengine/taskengine/engine/task"
)

// Shared is implemented by stores that several nodes use at once. A node is told by the
// others of what is there for it to do; here it finds what it was not told of.
type Shared interface {
	// Overlooked returns what is ready or due and may have been overlooked.
	Overlooked(ctx context.Context, q OverlookedQuery) (Overlooked, error)

	// Orphans returns the Processing rows with an ID above after whose Owner is none of
	// alive, in the order of their IDs, without payload, checkpoint and result. It reads at
	// most scan rows and returns the ID to go on from, zero at the end.
	Orphans(ctx context.Context, alive []task.ID, after task.ID, scan int) (ts []*task.Task, next task.ID, err error)

	// Outdated returns for each of refs whether there is no Processing row of that version.
	Outdated(ctx context.Context, refs ...task.Ref) ([]bool, error)

	// SwapSetting does what SetSetting of [Settings] does if old is what is stored, nil being
	// nothing, and reports whether it was. After an error it may have been done.
	SwapSetting(ctx context.Context, name string, old, value []byte) (bool, error)
}

// OverlookedQuery asks for rows of Shards (nil: all), of at most Limit leaves after the
// leaf After (the zero Leaf: from the start).
type OverlookedQuery struct {
	Shards *task.Shards
	After  task.Leaf
	Limit  int
	Before time.Time // up to and including when waiting rows are due
}

// Overlooked is the answer to an [OverlookedQuery].
type Overlooked struct {
	Heads []task.Trigger // of each leaf the Submitted row that ranks first, unless it ranks behind very many of other shards
	Next  task.Leaf      // to go on from; zero at the end
	Due   []Due          // of the Waiting rows that are due the earliest, at most Limit, whatever their leaf
}
