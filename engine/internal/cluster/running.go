package cluster

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// checkRunning stops attempts if their rows have another version or owner: another node cancelled the task, or took this node
// for dead, or the store has lost the grab. It checks attempts of before that still run, and returns the ones that run now. So
// it does not ask about short attempts, nor about attempts in a database that does not answer. It returns false, after a rest,
// if the store could not be read.
func (k *Cluster) checkRunning(ctx context.Context, before []task.Ref) (running []task.Ref, isWhole bool) {
	var long []task.Ref
	k.engine.Decide(func(*core.Core, time.Time) {
		for _, ref := range before {
			if k.engine.GoesOn(ref) && !k.engine.IsAway(ref.ID.Shard()) {
				long = append(long, ref)
			}
		}
		running = k.engine.Running()
	})
	isWhole = true
	for page := range slices.Chunk(long, pollPage) {
		var outdated []bool
		isRead := k.engine.Read(ctx, "the state of running tasks", func(ctx context.Context, _ storage.Tasks) (err error) {
			outdated, err = k.shared.Outdated(ctx, k.Incarnation(), page...)
			return err
		})
		if !isRead {
			return running, false // the next poll tries it again
		}
		for i, ref := range page {
			if outdated[i] {
				isWhole = k.reread(ctx, ref) && isWhole
			}
		}
	}
	return running, isWhole
}

// reread reads the row of a running attempt again and passes it to the core. It returns false, after a
// rest, if the row could not be read.
func (k *Cluster) reread(ctx context.Context, was task.Ref) bool {
	t, err := k.store.Get(ctx, was.ID)
	if errors.Is(err, task.ErrNotFound) {
		t = &task.Task{ID: was.ID, Version: was.Version + 1, State: task.Cancelled}
	} else if k.engine.Unanswered(ctx, "a task", err) {
		return false
	}
	k.engine.Decide(func(c *core.Core, now time.Time) {
		if k.engine.GoesOn(was) {
			if k.isUndone(was, t) {
				c.Undone(now, was, t)
				return
			}
			c.Changed(now, t)
			k.engine.Ended(t)
		}
	})
	return true
}

// isUndone reports whether the store has lost the grab of a run, as t shows, which is the row now.
func (k *Cluster) isUndone(was task.Ref, t *task.Task) bool {
	return t.Version < was.Version || t.Version == was.Version && (t.State != task.Processing || !k.IsOurs(t.Owner))
}
