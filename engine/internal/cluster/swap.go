package cluster

import (
	"context"
	"errors"

	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/storage"
)

// swap makes changes in the store. If the store refuses them together, swap divides them. A change
// that is refused alone is treated like a stale one: its result is nil. heads are the rows that have become
// heads of their ordering keys because of the changes. An error says that the store cannot be written.
func (k *Cluster) swap(ctx context.Context, changes []task.Change) (out []*task.Task, heads []task.Hint, err error) {
	if len(changes) == 0 {
		return nil, nil, nil
	}
	out = make([]*task.Task, len(changes))
	works := false
	type piece struct{ from, to int }
	for todo := []piece{{0, len(changes)}}; len(todo) > 0; todo = todo[1:] {
		p := todo[0]
		done, err := k.store.Commit(ctx, &storage.Batch{Swap: changes[p.from:p.to], Wait: storage.WaitLeast}).Wait()
		if err == nil {
			copy(out[p.from:], done.Swapped)
			heads = append(heads, done.Heads...)
			works = true
			continue
		}
		if works = works || !storage.IsOutage(err) && k.worksAfter(err); !works || storage.IsOutage(err) || ctx.Err() != nil {
			return nil, nil, err
		}
		if half := (p.from + p.to) / 2; half > p.from {
			todo = append(todo, piece{p.from, half}, piece{half, p.to})
		} else if k.refusedLog.Allow() {
			k.log.Error("the store refuses the change of a task of a dead node; the engine tries again", "task_id", changes[p.from].ID, "error", err)
		}
	}
	return out, heads, nil
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
