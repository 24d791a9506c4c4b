package node

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

const (
	// sweepAtOnce is how many tasks with logs are looked at in a second.
	sweepAtOnce = 500
	// trimAtOnce is how many pieces of logs one call removes at most.
	trimAtOnce = 1000
)

// logSweeper removes logs from the store: those of tasks that are gone or erased, and the oldest parts of all logs beyond the bound. The node with
// the role of the cleaner does so. One goroutine owns it.
type logSweeper struct {
	engine *engine.Engine
	store  storage.Store
	logs   storage.LogKeeper // store
	most   int64             // bytes of all logs; negative if this node has no bound
	log    *slog.Logger
	pace   func(context.Context) error // waits between two steps
	erasures
}

// run sweeps until ctx ends.
func (s *logSweeper) run(ctx context.Context) {
	s.pace = func(ctx context.Context) error { return wakeup.Sleep(ctx, time.Second) }
	repeat(ctx, s.log, "logs of tasks could not be removed from the store; trying again", func(ctx context.Context) error {
		if !s.engine.Roles()["cleaner"] {
			s.through = nil // another node may not have finished what it saw
			return nil
		}
		return s.sweep(ctx)
	})
}

// sweep looks at all tasks with logs once.
func (s *logSweeper) sweep(ctx context.Context) error {
	has, through, err := s.pending(ctx, s.engine)
	if err != nil {
		return err
	}
	for after := (task.ID{}); ; {
		if err := s.trim(ctx); err != nil {
			return err
		}
		some, err := s.logs.LoggedTasks(ctx, after, sweepAtOnce)
		if err != nil {
			return err
		}
		gone, err := s.gone(ctx, some, has)
		if err != nil {
			return err
		}
		if len(gone) > 0 {
			if err := s.logs.RemoveLogs(ctx, gone...); err != nil {
				return err
			}
		}
		if len(some) < sweepAtOnce {
			through()
			return nil
		}
		after = some[len(some)-1]
		if err := s.pace(ctx); err != nil {
			return err
		}
	}
}

// gone returns the tasks among some that have no row, or an erased one.
func (s *logSweeper) gone(ctx context.Context, some []task.ID, erased bool) (gone []task.ID, err error) {
	if len(some) == 0 {
		return nil, nil
	}
	rows := make([]*task.Task, len(some))
	for i, id := range some {
		rows[i] = &task.Task{ID: id}
	}
	existing, err := s.store.Existing(ctx, rows...)
	if err != nil {
		return nil, fmt.Errorf("look for tasks: %w", err)
	}
	var there []task.ID
	for i, id := range existing {
		if id.IsZero() {
			gone = append(gone, some[i])
		} else {
			there = append(there, id)
		}
	}
	if !erased || len(there) == 0 {
		return gone, nil
	}
	more, err := erasedOf(ctx, s.engine, there)
	return append(gone, more...), err
}

// trim removes the oldest parts of logs beyond the bound.
func (s *logSweeper) trim(ctx context.Context) error {
	for s.most >= 0 {
		left, err := s.logs.TrimLogs(ctx, s.most, trimAtOnce)
		if err != nil || left <= s.most {
			return err
		}
	}
	return nil
}
