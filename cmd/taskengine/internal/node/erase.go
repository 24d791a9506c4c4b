package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/taskengine/taskengine/bulk"
	"github.com/taskengine/taskengine/bulk/jobs"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/tasklog"
)

// eraseEvery is how often a node looks for jobs that have erased tasks. Each node erases the lines of its own log, and one that was down does so when it starts.
const eraseEvery = time.Minute

// logEraser removes lines of erased tasks from the files of a node. One goroutine owns it.
type logEraser struct {
	engine *engine.Engine
	lines  *tasklog.Log
	log    *slog.Logger
	erasures
}

// run looks for such jobs until ctx ends.
func (e *logEraser) run(ctx context.Context) {
	repeat(ctx, e.log, "lines of erased tasks could not be removed from the task log; trying again", e.look)
}

// repeat calls fn each minute until ctx ends, and logs an error that is not that of the call before.
func repeat(ctx context.Context, log *slog.Logger, what string, fn func(context.Context) error) {
	for failed := ""; ; {
		text := ""
		if err := fn(ctx); err != nil && ctx.Err() == nil {
			text = err.Error()
			if text != failed {
				log.WarnContext(ctx, what, "error", err)
			}
		}
		failed = text
		select {
		case <-time.After(eraseEvery):
		case <-ctx.Done():
			return
		}
	}
}

// look removes the lines if a job has erased tasks since the last time.
func (e *logEraser) look(ctx context.Context) error {
	has, through, err := e.pending(ctx, e.engine)
	if err != nil || !has {
		return err
	}
	n, err := e.lines.Erase(ctx, func(ctx context.Context, some []task.ID) ([]task.ID, error) { return erasedOf(ctx, e.engine, some) })
	if err != nil {
		return err
	}
	if through(); n > 0 {
		e.log.InfoContext(ctx, "removed lines of erased tasks from the task log", "lines", n)
	}
	return nil
}

// erasures finds jobs that have erased tasks. One goroutine owns it.
type erasures struct {
	through map[string]bool // jobs that need not be looked at any more, by name
}

// pending reports whether a job may have erased tasks since through was called the last time. It reads the names of jobs by an index, and the rows only
// of those that erase, or are new.
func (e *erasures) pending(ctx context.Context, of *engine.Engine) (has bool, through func(), err error) {
	names, err := jobs.Of(of).Names(ctx)
	if err != nil {
		return false, nil, fmt.Errorf("look for jobs that have erased tasks: %w", err)
	}
	known := make(map[string]bool, len(names))
	var ended []string
	for _, name := range names {
		if e.through[name] {
			known[name] = true
			continue
		}
		s, err := jobs.Of(of).Get(ctx, name)
		switch {
		case errors.Is(err, jobs.ErrUnknown): // it was removed since
		case err != nil:
			return false, nil, fmt.Errorf("look for jobs that have erased tasks: %w", err)
		case s.Job.Verb != bulk.Erase:
			known[name] = true
		case s.HasEnded():
			ended = append(ended, name)
			has = has || s.State.Done() > 0
		default:
			has = has || s.State.Done() > 0
		}
	}
	e.through = known
	return has, func() {
		for _, name := range ended {
			e.through[name] = true
		}
	}, nil
}

// erasedOf returns the tasks among some that were erased.
func erasedOf(ctx context.Context, e *engine.Engine, some []task.ID) (gone []task.ID, err error) {
	all, err := e.GetAll(ctx, some...)
	if err != nil {
		return nil, fmt.Errorf("read tasks: %w", err)
	}
	for _, t := range all {
		if t != nil && t.Erased() != nil {
			gone = append(gone, t.ID)
		}
	}
	return gone, nil
}
