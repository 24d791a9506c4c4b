package storage

import (
	"context"
	"math"

	"github.com/taskengine/taskengine/engine/task"
)

// Shared is implemented by stores that several nodes use at once. A node is told by the
// others of what is there for it to do; here it finds what it was not told of.
type Shared interface {
	// Unclaimed returns the first ready row of each queue, which no node may have claimed.
	Unclaimed(ctx context.Context, q UnclaimedQuery) (UnclaimedPage, error)

	// Submitted returns the Submitted rows that q asks for, in the order of their queues and,
	// within a queue, of their ranks. It reads a bounded number of rows: next is the place to go
	// on from, the zero Place if there are no rows behind the page. A page may be short, or
	// empty, before that.
	Submitted(ctx context.Context, q SubmittedQuery) (page []task.Hint, next Place, err error)

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

// UnclaimedQuery asks for rows of Shards (nil: all), of at most Limit queues after the
// queue After (the zero Queue: from the start).
type UnclaimedQuery struct {
	Shards *task.Shards
	After  task.Queue
	Limit  int
}

// UnclaimedPage is the answer to an [UnclaimedQuery].
type UnclaimedPage struct {
	Heads []task.Hint // of each queue the Submitted row that ranks first, unless it ranks behind very many of other shards
	Next  task.Queue  // to go on from; zero at the end
}

// Place is the place of a Submitted row among those of all queues. A zero Rank is before all
// rows of the queue.
type Place struct {
	task.Queue
	task.Rank
}

// Behind returns the place behind all rows of a queue.
func Behind(l task.Queue) Place { return Place{l, task.Rank{Priority: math.MaxUint8}} }

// SubmittedQuery asks for the rows of Shards (nil: all) behind the place After (the zero
// Place: from the start). At most Scan rows are read, of a store in several places one in each
// at least: a row of another shard counts, and so may one that was Submitted and runs.
type SubmittedQuery struct {
	Shards *task.Shards
	After  Place
	Scan   int
}
