package cluster

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/task"
)

// awaited are tasks that an earlier process ran, and about which Heal has not decided: the ends of their attempts may still
// arrive. They are grouped by the time for which they are awaited.
type awaited map[time.Duration][]task.Ref

// HealAwaited decides about the tasks that Heal has left out, each when the time of its type since the call is over. It
// returns when none is left, or when ctx ends. It must be called once, after Heal has returned.
func (k *Cluster) HealAwaited(ctx context.Context) {
	begin := time.Now()
	for _, patience := range slices.Sorted(maps.Keys(k.awaited)) {
		if wakeup.Sleep(ctx, time.Until(begin.Add(patience))) != nil {
			return
		}
		for page := range slices.Chunk(k.awaited[patience], healPage) {
			for left := page; len(left) > 0 && ctx.Err() == nil; {
				rest, err := k.healEarlier(ctx, left)
				k.engine.Unanswered(ctx, "tasks that ran when the engine last stopped", err)
				left = rest
			}
		}
	}
}

// healEarlier decides about the tasks of refs that are still at their versions. If it fails, it returns the remaining
// refs.
func (k *Cluster) healEarlier(ctx context.Context, refs []task.Ref) (left []task.Ref, err error) {
	var changes []task.Change
	for _, ref := range refs {
		t, failure := k.store.Get(ctx, ref.ID)
		switch {
		case errors.Is(failure, task.ErrNotFound), failure == nil && t.Ref() != ref: // it was decided about
		case failure != nil:
			left, err = append(left, ref), failure
		default:
			changes = append(changes, k.engine.Orphaned(t))
		}
	}
	if failure := k.recover(ctx, changes); failure != nil {
		return refs, failure
	}
	return left, err
}

// EndEarlier makes changes that end attempts of other nodes, or of an earlier process of this one, and inserts with each
// change its rows of follow and writes its documents, which may be nil. It returns the rows that were changed. The result is nil for
// each attempt that was over; the rows that were to follow it are not inserted. So it is for a change that was not made because of a
// document, with the conflict.
func (k *Cluster) EndEarlier(ctx context.Context, changes []task.Change, follow [][]*task.Task, documents [][]task.DocumentChange) ([]*task.Task, []*task.DocumentConflict, error) {
	out, err := k.swap(ctx, changes, follow, documents)
	if err != nil {
		return nil, nil, err
	}
	k.changed(out, follow)
	return out.rows, out.conflicts, nil
}
