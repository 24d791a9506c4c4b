package storage

import (
	"context"

	"github.com/taskengine/taskengine/engine/task"
)

// Batch is the work of one transaction: inserts, then swaps, then deletes.
type Batch struct {
	Insert []*task.Task  // as by [Tasks.Insert]
	Swap   []task.Change // as by [Tasks.Swap]
	Remove []bool        // for each change, whether the row that it makes is deleted; nil for none
}

// Removes reports whether the row that the i-th change makes is deleted.
func (b *Batch) Removes(i int) bool { return i < len(b.Remove) && b.Remove[i] }

// Outcome is the outcome of a [Batch].
type Outcome struct {
	Inserted []Inserted   // as by [Tasks.Insert]
	Swapped  []*task.Task // as by [Tasks.Swap]; also rows that were deleted then
}

// Do does a batch by the verbs of tx.
func Do(ctx context.Context, tx Tasks, b *Batch) (out Outcome, err error) {
	if len(b.Insert) > 0 {
		if out.Inserted, err = tx.Insert(ctx, b.Insert...); err != nil {
			return out, err
		}
	}
	if len(b.Swap) > 0 {
		if out.Swapped, err = tx.Swap(ctx, b.Swap...); err != nil {
			return out, err
		}
	}
	var gone []task.Ref
	for i, t := range out.Swapped {
		if t != nil && b.Removes(i) {
			gone = append(gone, t.Ref())
		}
	}
	if len(gone) > 0 {
		_, err = tx.Delete(ctx, gone...)
	}
	return out, err
}
