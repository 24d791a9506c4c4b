package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/engine/task"
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
// that it ran with, and this node has not begun it. The other ends have no effect.
//
// It returns how many ends count. An error says that the store could not be read or written, and that no end is known to
// count. To call it again does no harm.
func (e *Engine) EndEarlier(ctx context.Context, ends ...EarlierEnd) (counted int, err error) {
	var changes []task.Change
	for i := range ends {
		change, isOpen, err := e.endOf(ctx, &ends[i])
		if err != nil {
			return 0, fmt.Errorf("engine: end earlier attempts: %w", err)
		}
		if isOpen {
			changes = append(changes, change)
		}
	}
	rows, err := e.cluster.EndEarlier(ctx, changes)
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

// endOf returns the change that an end means, and whether its attempt is open.
func (e *Engine) endOf(ctx context.Context, end *EarlierEnd) (change task.Change, isOpen bool, err error) {
	t, err := e.store.Get(ctx, end.Ref.ID)
	switch {
	case errors.Is(err, task.ErrNotFound):
		return change, false, nil
	case err != nil:
		return change, false, err
	case t.Ref() != end.Ref, t.State != task.Processing, t.Type != end.Type, e.cluster.IsOurs(t.Owner):
		return change, false, nil
	}
	again := e.contents.reencode(t)
	_ = e.contents.decode(t) // for Config.Retry; the change does not depend on it
	verdict, ok := e.verdictOf(t, end)
	if !ok {
		return change, false, nil
	}
	v := e.contents.encodeResult(t.Type, e.decided(t, verdict))
	v.Reencoded = again
	e.decide(func(c *core.Core, now time.Time) { change = c.Earlier(now, t, v) })
	return change, true, nil
}

// verdictOf returns the verdict on an attempt of t that ended so on another node. It returns false for an end with tasks to
// add, which cannot count: the task is decided about as if there were no end.
func (e *Engine) verdictOf(t *task.Task, end *EarlierEnd) (task.Verdict, bool) {
	v := task.VerdictOf(end.Result, end.Err)
	if n := len(v.Result); n > 0 {
		if most := e.catalog.policyOf(t.Type).ResultLimit(); n > most {
			v = task.VerdictOf(nil, task.ResultTooLarge(t.Type, n, most))
		}
	}
	v.Again = e.byTimebase(v.Again)
	if v.Rerun != nil && len(v.Rerun.Tasks) > 0 {
		return v, false
	}
	if err := e.checkAgain(t, &v); err != nil {
		return task.VerdictOf(nil, err), true
	}
	return v, true
}
