package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/task"
)

// EarlierEnd is the end of an attempt that a node has begun which is gone.
type EarlierEnd struct {
	Ref    task.Ref // the id of the task, and its version while the attempt ran
	Type   string
	Result []byte // what the handler has returned
	Err    error  // likewise; see [task.Handler]
}

// EndEarlier ends attempts whose handlers go on when their node dies, and whose node is gone: another one, or the process
// before this one, see [Config.Await]. An end counts if its attempt is not over: if the row of the task is still the one
// that it ran with, and this node has not begun it. The other ends have no effect. The tasks that an end adds, see
// [task.WithTasks], are inserted if and only if the end counts, in the same commit.
//
// It returns how many ends count. An error says that the store could not be read or written, and that no end is known to
// count. To call it again does no harm.
func (e *Engine) EndEarlier(ctx context.Context, ends ...EarlierEnd) (counted int, err error) {
	var changes []task.Change
	var follow [][]*task.Task
	for i := range ends {
		change, rows, isOpen, err := e.endOf(ctx, &ends[i])
		if err != nil {
			return 0, fmt.Errorf("engine: end earlier attempts: %w", err)
		}
		if isOpen {
			changes, follow = append(changes, change), append(follow, rows)
		}
	}
	rows, err := e.cluster.EndEarlier(ctx, changes, follow)
	if err != nil {
		return 0, fmt.Errorf("engine: end earlier attempts: %w", err)
	}
	for i, t := range rows {
		if t == nil {
			continue
		}
		counted++
		if e.config.Observer.Saved != nil {
			e.config.Observer.Saved(e.Now(), changes[i].Ref, t)
		}
	}
	return counted, nil
}

// endOf returns the change that an end means, the rows that are to be inserted with it, and whether its attempt is open.
func (e *Engine) endOf(ctx context.Context, end *EarlierEnd) (change task.Change, follow []*task.Task, isOpen bool, err error) {
	t, err := e.store.Get(ctx, end.Ref.ID)
	switch {
	case errors.Is(err, task.ErrNotFound):
		return change, nil, false, nil
	case err != nil:
		return change, nil, false, err
	case t.Ref() != end.Ref, t.State != task.Processing, t.Type != end.Type, e.cluster.IsOurs(t.Owner):
		return change, nil, false, nil
	}
	again := e.contents.reencode(t)
	_ = e.contents.decode(t) // for Config.Retry; the change does not depend on it
	v := e.contents.encodeResult(t.Type, e.decided(t, e.verdictOf(ctx, t, end)))
	v.Reencoded = again
	e.decide(func(c *core.Core, now time.Time) { change, follow = c.Earlier(now, t, v) })
	return change, follow, true, nil
}

// verdictOf returns the verdict on an attempt of t that ended so on another node.
func (e *Engine) verdictOf(ctx context.Context, t *task.Task, end *EarlierEnd) task.Verdict {
	v := task.VerdictOf(end.Result, end.Err)
	if n := len(v.Result); n > 0 {
		if most := e.catalog.policyOf(t.Type).ResultLimit(); n > most {
			v = task.VerdictOf(nil, task.ResultTooLarge(t.Type, n, most))
		}
	}
	v.Again = e.byTimebase(v.Again)
	if err := e.checkRerun(ctx, t, &v, false); err != nil {
		return paused(task.VerdictOf(nil, err), err)
	}
	return v
}
