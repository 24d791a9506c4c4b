package storage

import (
	"context"
	"errors"
	"fmt"

	"github.com/taskengine/taskengine/task"
)

// DocumentsOf returns the writes of documents of the i-th change.
func (b *Batch) DocumentsOf(i int) []task.DocumentChange {
	if i < len(b.Documents) {
		return b.Documents[i]
	}
	return nil
}

// ConflictOf returns why the i-th change was not made because of a document; nil if that is not the reason.
func (o *Outcome) ConflictOf(i int) *task.DocumentConflict {
	if i < len(o.Conflicts) {
		return o.Conflicts[i]
	}
	return nil
}

// swap makes the changes of a batch.
func swap(ctx context.Context, tx Tasks, b *Batch, out *Outcome) (err error) {
	if len(b.Documents) == 0 {
		out.Swapped, err = tx.Swap(ctx, b.Swap...)
		return err
	}
	out.Swapped = make([]*task.Task, 0, len(b.Swap))
	for from := 0; from < len(b.Swap); {
		to := from
		for to < len(b.Swap) && len(b.DocumentsOf(to)) == 0 {
			to++
		}
		if to > from {
			rows, err := tx.Swap(ctx, b.Swap[from:to]...)
			if err != nil {
				return err
			}
			out.Swapped = append(out.Swapped, rows...)
		}
		if from = to; from == len(b.Swap) {
			break
		}
		row, conflict, err := swapWriting(ctx, tx, b.Swap[from], b.Documents[from])
		if err != nil {
			return err
		}
		out.Swapped = append(out.Swapped, row)
		if conflict != nil {
			if out.Conflicts == nil {
				out.Conflicts = make([]*task.DocumentConflict, len(b.Swap))
			}
			out.Conflicts[from] = conflict
		}
		from++
	}
	return nil
}

// swapWriting makes a change and the writes of documents, or neither.
func swapWriting(ctx context.Context, tx Tasks, c task.Change, writes []task.DocumentChange) (row *task.Task, conflict *task.DocumentConflict, err error) {
	olds, conflict, err := readDocuments(ctx, tx, writes)
	if err != nil || conflict != nil {
		return nil, conflict, err
	}
	rows, err := tx.Swap(ctx, c)
	if err != nil || rows[0] == nil {
		return nil, nil, err
	}
	return rows[0], nil, putDocuments(ctx, tx, writes, olds)
}

// WriteDocuments makes writes of documents, each of another one, in a transaction. If one of them conflicts, it makes none.
func WriteDocuments(ctx context.Context, tx Tasks, writes []task.DocumentChange) (*task.DocumentConflict, error) {
	olds, conflict, err := readDocuments(ctx, tx, writes)
	if err != nil || conflict != nil {
		return conflict, err
	}
	return nil, putDocuments(ctx, tx, writes, olds)
}

// readDocuments returns the rows of documents, nil for those that are not there, or why a write cannot be made.
func readDocuments(ctx context.Context, tx Tasks, writes []task.DocumentChange) (olds []*task.Task, conflict *task.DocumentConflict, err error) {
	olds = make([]*task.Task, len(writes))
	for i := range writes {
		old, err := tx.Get(ctx, writes[i].Row.ID)
		switch {
		case errors.Is(err, task.ErrNotFound):
		case err != nil:
			return nil, nil, err
		default:
			olds[i] = old
		}
		if conflict := writes[i].Conflict(olds[i]); conflict != nil {
			return nil, conflict, nil
		}
	}
	return olds, nil, nil
}

// putDocuments writes documents over the rows that the transaction has read.
func putDocuments(ctx context.Context, tx Tasks, writes []task.DocumentChange, olds []*task.Task) error {
	var gone []task.Ref
	var rows []*task.Task
	for i := range writes {
		if olds[i] != nil {
			gone = append(gone, olds[i].Ref())
		}
		if row := writes[i].Over(olds[i]); row != nil {
			rows = append(rows, row)
		}
	}
	if len(gone) > 0 {
		removed, err := tx.Delete(ctx, gone...)
		if err != nil {
			return err
		}
		for i, is := range removed {
			if !is {
				return fmt.Errorf("the document %v was changed meanwhile: %w", gone[i].ID, ErrBusy)
			}
		}
	}
	if len(rows) == 0 {
		return nil
	}
	added, err := tx.Insert(ctx, rows...)
	if err != nil {
		return err
	}
	for i := range added {
		if !added[i].Created() {
			return fmt.Errorf("the document %q was added meanwhile: %w", rows[i].Key, ErrBusy)
		}
	}
	return nil
}
