package cluster

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/engine/task"
)

// checkRunning stops attempts whose rows are no longer at their version: another node cancelled the
// task, or took this node for dead. It checks those of before that still run, so that it asks nothing
// about short attempts, and returns those that run now.
func (k *Cluster) checkRunning(ctx context.Context, before []task.Ref) (running []task.Ref) {
	var long []task.Ref
	k.engine.Decide(func(*core.Core, time.Time) {
		for _, ref := range before {
			if k.engine.GoesOn(ref) {
				long = append(long, ref)
			}
		}
		running = k.engine.Running()
	})
	for page := range slices.Chunk(long, pollPage) {
		outdated, err := k.shared.Outdated(ctx, page...)
		if k.engine.Unanswered(ctx, "what became of running tasks", err) {
			break // the next poll tries it again
		}
		for i, ref := range page {
			if outdated[i] {
				k.reread(ctx, ref)
			}
		}
	}
	return running
}

// reread tells the core what has become of a row whose attempt runs.
func (k *Cluster) reread(ctx context.Context, was task.Ref) {
	t, err := k.store.Get(ctx, was.ID)
	if errors.Is(err, task.ErrNotFound) {
		t = &task.Task{ID: was.ID, Version: was.Version + 1, State: task.Cancelled}
	} else if k.engine.Unanswered(ctx, "a task", err) {
		return
	}
	k.engine.Decide(func(c *core.Core, now time.Time) {
		if k.engine.GoesOn(was) {
			c.Changed(now, t)
			k.engine.Ended(t)
		}
	})
}
