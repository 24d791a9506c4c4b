package storage

import (
	"context"
	"math"

	"github.com/taskengine/taskengine/engine/task"
)

// Shared is implemented by stores that several nodes use at once. A node is told by the
// others of what is there for it to do; here it finds what it was not told of.
type Shared interface {
	// Overlooked returns the first ready row of each leaf, which may have been overlooked.
	Overlooked(ctx context.Context, q OverlookedQuery) (Overlooked, error)

	// Submitted returns the Submitted rows that q asks for, in the order of their leaves and,
	// within a leaf, of their ranks. It reads a bounded number of rows: next is the place to go
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

// OverlookedQuery asks for rows of Shards (nil: all), of at most Limit leaves after the
// leaf After (the zero Leaf: from the start).
type OverlookedQuery struct {
	Shards *task.Shards
	After  task.Leaf
	Limit  int
}

// Overlooked is the answer to an [OverlookedQuery].
type Overlooked struct {
	Heads []task.Hint // of each leaf the Submitted row that ranks first, unless it ranks behind very many of other shards
	Next  task.Leaf   // to go on from; zero at the end
}

// Place is the place of a Submitted row among those of all leaves. A zero Rank is before all
// rows of the leaf.
type Place struct {
	task.Leaf
	task.Rank
}

// Behind returns the place behind all rows of a leaf.
func Behind(l task.Leaf) Place { return Place{l, task.Rank{Priority: math.MaxUint8}} }

// SubmittedQuery asks for the rows of Shards (nil: all) behind the place After (the zero
// Place: from the start). At most Scan rows are read, of a store in several places one in each
// at least: a row of another shard counts, and so may one that was Submitted and runs.
type SubmittedQuery struct {
	Shards *task.Shards
	After  Place
	Scan   int
}
