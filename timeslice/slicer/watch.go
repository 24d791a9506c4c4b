package slicer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/timeslice"
)

const watchEvery = time.Second

// Watch has platforms run when the clock of the engine has gone back, until ctx ends: those that had run before that would wait
// until the clock is as late as it was, and slices that they made too early are made again. It also looks when it begins, because
// the clock may have been set while no node was alive. One node of a cluster suffices; each may watch.
func (s *Sources) Watch(ctx context.Context, e *engine.Engine) {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	at, shown := time.Now(), e.Now()
	for hasSteppedBack := true; ; {
		if hasSteppedBack {
			err := s.wakeEarly(ctx, e)
			if hasSteppedBack = err != nil; hasSteppedBack && ctx.Err() == nil {
				s.log.WarnContext(ctx, "platforms cannot be looked at after the clock has gone back; another try follows", "error", err)
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		passed := time.Since(at)
		at = at.Add(passed)
		if now := e.Now(); now.Before(shown.Add(passed - timeslice.Tolerance)) {
			s.log.WarnContext(ctx, "the clock has gone back; platforms make slices again that they have made too early", "by", shown.Add(passed).Sub(now))
			shown, hasSteppedBack = now, true
		} else {
			shown = now
		}
	}
}

// wakeEarly has each platform run that has run, or was added, later than now.
func (s *Sources) wakeEarly(ctx context.Context, e *engine.Engine) error {
	for _, name := range s.Names() {
		err := eachCursor(ctx, e, name, func(row *task.Task) error {
			t, err := e.Get(ctx, row.ID)
			if errors.Is(err, task.ErrNotFound) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("read a platform of source %s: %w", name, err)
			}
			now := e.Now()
			_, state, unreadable := timeslice.Decode(t.Payload, t.Checkpoint())
			last := state.Ran
			if last.IsZero() {
				last = t.CreatedAt
			}
			if unreadable == nil && last.After(now.Add(timeslice.Tolerance)) {
				_, err = e.Reschedule(ctx, t.Ref(), now)
			}
			if errors.Is(err, engine.ErrStale) || errors.Is(err, engine.ErrNotAllowed) { // it runs
				return nil
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
