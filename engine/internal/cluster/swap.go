package cluster

import (
	"context"
	"errors"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// swapped is the outcome of swap.
type swapped struct {
	rows     []*task.Task         // for each change the row that it made; nil if it was too late
	followed [][]storage.Inserted // for each change the outcome of the rows that followed it; nil if none did
	carriers []*task.Task         // of the tasks that ended, see storage.Outcome
	heads    []task.Hint          // rows that have become heads of their ordering keys

	conflicts []*task.DocumentConflict // for each change why it was not made, if that is because of a document
}

// swap makes changes in the store. If the store refuses them together, swap divides them. A change
// that is refused alone is treated like a stale one: its result is nil. follow has for each change the rows that are
// inserted if and only if it is made, and documents has the writes of documents likewise; nil for none. An error says that the store
// cannot be written.
func (k *Cluster) swap(ctx context.Context, changes []task.Change, follow [][]*task.Task, documents [][]task.DocumentChange) (out swapped, err error) {
	if len(changes) == 0 {
		return out, nil
	}
	out.rows, out.followed = make([]*task.Task, len(changes)), make([][]storage.Inserted, len(changes))
	out.conflicts = make([]*task.DocumentConflict, len(changes))
	works := false
	type piece struct{ from, to int }
	for todo := []piece{{0, len(changes)}}; len(todo) > 0; todo = todo[1:] {
		p := todo[0]
		b := &storage.Batch{Swap: changes[p.from:p.to], Wait: storage.WaitLeast}
		if follow != nil {
			b.Follow = follow[p.from:p.to]
		}
		if documents != nil {
			b.Documents = documents[p.from:p.to]
		}
		done, err := k.store.Commit(ctx, b).Wait()
		if err == nil {
			copy(out.rows[p.from:], done.Swapped)
			copy(out.followed[p.from:], done.Followed)
			out.carriers, out.heads = append(out.carriers, done.Carriers...), append(out.heads, done.Heads...)
			copy(out.conflicts[p.from:], done.Conflicts)
			works = true
			continue
		}
		if works = works || !storage.IsOutage(err) && k.worksAfter(err); !works || storage.IsOutage(err) || ctx.Err() != nil {
			return swapped{}, err
		}
		if half := (p.from + p.to) / 2; half > p.from {
			todo = append(todo, piece{p.from, half}, piece{half, p.to})
		} else if k.refusedLog.Allow() {
			k.log.Error("the store refuses the change of a task of a dead node; the engine tries again", "task_id", changes[p.from].ID, "error", err)
		}
	}
	return out, nil
}

// worksAfter reports whether the store works although it failed with err: the error says so, or the
// store commits an empty batch.
func (k *Cluster) worksAfter(err error) bool {
	if errors.Is(err, storage.ErrRefused) {
		return true
	}
	_, err = k.store.Commit(context.Background(), new(storage.Batch)).Wait()
	return err == nil
}
