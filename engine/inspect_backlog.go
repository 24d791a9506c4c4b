package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/taskengine/taskengine/engine/internal/shell"
	"github.com/taskengine/taskengine/internal/ratelog"
	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// BacklogStatus is the backlog of one type.
type BacklogStatus = shell.BacklogStatus

// backlogStates are the states of the tasks of a backlog.
var backlogStates = []task.State{task.Waiting, task.Submitted}

// Backlogs returns the backlogs of the types that have a maximum, in the order of their names.
func (e *Engine) Backlogs() (all []BacklogStatus) {
	if len(e.backlogs.capped) == 0 {
		return nil
	}
	e.tell(func(s *state, _ time.Time) {
		for _, typ := range e.backlogs.capped {
			status, _ := s.Backlog(typ)
			all = append(all, status)
		}
	})
	return all
}

// How long the engine rests between two counts of the backlogs, where it counts again: at least
// recountEvery, and recountShare times as long as a count takes.
const (
	recountEvery = time.Second
	recountShare = 20
)

// useBacklogs finds the types that have a maximum, and returns their maxima.
func (e *Engine) useBacklogs(types map[string]policy.Type) (map[string]policy.Backlog, error) {
	found := make(map[string]policy.Backlog)
	for name, p := range types {
		if p.MaxBacklog.Max > 0 {
			found[name] = p.MaxBacklog
		}
		if p.MaxBacklog.Max > 0 && p.MaxBacklog.WhenFull == policy.DropOldest {
			e.backlogs.droppers[name] = newDropper(name, p.MaxBacklog)
		}
	}
	e.backlogs.capped = slices.Sorted(maps.Keys(found))
	if _, ok := e.store.(storage.Inspector); !ok && len(found) > 0 {
		return nil, fmt.Errorf("engine: max_backlog of type %s: %w: it does not count tasks", e.backlogs.capped[0], ErrUnsupported)
	}
	return found, nil
}

// countBacklogs counts the backlogs in the store.
func (e *Engine) countBacklogs(ctx context.Context) error {
	if len(e.backlogs.capped) == 0 {
		return nil
	}
	e.tell(func(s *state, _ time.Time) { s.Recount() })
	counts, err := e.Count(ctx, storage.Filter{States: backlogStates, Types: e.backlogs.capped})
	if err != nil {
		return err
	}
	e.tell(func(s *state, now time.Time) { s.Recounted(now, counts) })
	return nil
}

// recountLoop counts the backlogs again and again if others may change the rows, or once the outcome
// of a commit was unknown. Otherwise the counts of the shell are exact.
func (e *Engine) recountLoop(ctx context.Context) {
	if len(e.backlogs.capped) == 0 {
		return
	}
	_, isOpen := e.store.(storage.Ruled) // other programs add tasks
	counts := e.cluster.IsShared() || isOpen
	var failures ratelog.Limiter
	var cost wakeup.Cost
	rest := recountEvery
	for wakeup.Sleep(ctx, rest) == nil {
		if !counts {
			e.tell(func(s *state, _ time.Time) { counts = s.IsMiscounted() })
		}
		rest = recountEvery
		if !counts {
			continue
		}
		begin := time.Now()
		err := e.countBacklogs(ctx)
		if err != nil && !errors.Is(err, context.Canceled) && failures.Allow() {
			e.log.Error("the backlogs cannot be counted; the engine tries again", "error", err)
		}
		rest = max(rest, recountShare*cost.After(time.Since(begin), err == nil))
	}
}
