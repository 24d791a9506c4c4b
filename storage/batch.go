package storage

import (
	"context"

	"github.com/taskengine/taskengine/engine/task"
)

// Batch is what one transaction does: it inserts, then swaps, then deletes.
type Batch struct {
	Insert []*task.Task  // as [Tasks.Insert] does
	Swap   []task.Change // as [Tasks.Swap] does
	Remove []bool        // for each change, whether the row is deleted that it makes; nil is for none
}

// Removes reports whether the row is deleted that the i-th change makes.
func (b *Batch) Removes(i int) bool { return i < len(b.Remove) && b.Remove[i] }

// Outcome is what became of a [Batch].
type Outcome struct {
	Inserted []Inserted
	Swapped  []*task.Task // those that are deleted, too
}

// Batcher is implemented by stores that do a batch in one round trip, where each verb of
// a transaction is one by itself.
type Batcher interface {
	// Do does all of b, in a transaction of its own, or nothing of it; one that keeps rows in
	// several places may do a part, and says so by a [PartError]. It writes the Seq into the
	// rows that it inserts.
	Do(ctx context.Context, b *Batch) (Outcome, error)
}

// Do does all of b within tx.
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
