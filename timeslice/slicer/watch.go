package slicer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/timeslice"
)

const watchEvery = time.Second

// reading is a moment at which a node has read the clock of its engine.
type reading struct {
	at    time.Time // with a monotonic reading
	shown time.Time
}

// next reads the clock again, and returns the step that it has made meanwhile; nil if it has made none.
func (r *reading) next(e *engine.Engine) *timeslice.Step {
	passed := time.Since(r.at)
	now := e.Now()
	by := now.Sub(r.shown.Add(passed))
	from := r.shown.Add(by)
	r.at, r.shown = r.at.Add(passed), now
	if by.Abs() <= timeslice.Tolerance {
		return nil
	}
	return &timeslice.Step{From: task.Stamp(from), Until: task.Stamp(now), By: by}
}

// Watch tells the sources when the clock of the engine was set, from Apply on until ctx ends. If it was set back, they have their platforms make
// the slices again that were made too early; platforms that had run before that would wait until the clock is as late as it was. One
// node of a cluster suffices; each may watch.
func (s *Sources) Watch(ctx context.Context, e *engine.Engine) {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	last := s.began.Load()
	if last == nil {
		last = &reading{time.Now(), e.Now()}
	}
	now := *last
	var steps []timeslice.Step // that the sources do not know
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		if step := now.next(e); step != nil {
			if steps = append(steps, *step); step.By < 0 {
				s.log.WarnContext(ctx, "the clock has gone back; platforms make slices again that they have made too early", "by", -step.By)
			}
		}
		if len(steps) == 0 {
			continue
		}
		if err := s.stepAll(ctx, e, steps); err == nil {
			steps = nil
		} else if ctx.Err() == nil {
			s.log.WarnContext(ctx, "the sources cannot note that the clock was set; another try follows", "error", err)
		}
	}
}

// stepAll tells all sources of steps of the clock.
func (s *Sources) stepAll(ctx context.Context, e *engine.Engine, steps []timeslice.Step) error {
	for _, name := range s.Names() {
		if err := s.step(ctx, e, name, steps); err != nil {
			return fmt.Errorf("source %s: %w", name, err)
		}
	}
	return nil
}

// step tells a source of steps of the clock. After a step back it has platforms run that would wait for a time by the clock as it was.
func (s *Sources) step(ctx context.Context, e *engine.Engine, name string, steps []timeslice.Step) error {
	isBack := false
	for i := range steps {
		one := &steps[i]
		isBack = isBack || one.By < 0
		err := changeSource(ctx, e, name, func(s *timeslice.SourceState) (*timeslice.SourceOrder, error) {
			if now := s.Obey(); now.HasStep(one) {
				return nil, nil
			}
			return &timeslice.SourceOrder{Step: one}, nil
		})
		if err != nil && !errors.Is(err, ErrEnded) { // its platforms run by themselves
			return fmt.Errorf("note that the clock was set: %w", err)
		}
	}
	if !isBack {
		return nil
	}
	s.passNow(ctx, e, name)
	return wakeEarly(ctx, e, name)
}

// stepBefore tells a source of a step back of the clock that no node has noticed, because none was alive: the last run of a platform
// is later than now.
func (s *Sources) stepBefore(ctx context.Context, e *engine.Engine, name string) error {
	var mu sync.Mutex
	var last time.Time // guarded by mu
	err := eachRun(ctx, e, name, func(_ context.Context, _ *task.Task, ran time.Time) error {
		mu.Lock()
		defer mu.Unlock()
		if ran.After(last) {
			last = ran
		}
		return nil
	})
	now := task.Stamp(e.Now())
	back := last.Sub(now)
	if err != nil || back <= timeslice.Tolerance {
		return err
	}
	of, err := s.Source(ctx, e, name)
	if err != nil {
		return err
	}
	state := of.State.Obey()
	if state.Explains(last, now) { // another node has noted it
		return nil
	}
	return s.step(ctx, e, name, []timeslice.Step{{From: now, Until: now, By: -state.Unstepped(back)}})
}

// wakeEarly has each platform of a source run that has run, or was added, later than now.
func wakeEarly(ctx context.Context, e *engine.Engine, name string) error {
	return eachRun(ctx, e, name, func(ctx context.Context, t *task.Task, ran time.Time) error {
		now := e.Now()
		if !ran.After(now.Add(timeslice.Tolerance)) {
			return nil
		}
		_, err := e.Reschedule(ctx, t.Ref(), now)
		if errors.Is(err, engine.ErrStale) || errors.Is(err, engine.ErrNotAllowed) { // it runs
			return nil
		}
		return err
	})
}

// eachRun calls do for each cursor of a source, with the time at which it has last run, or was added, for several at the same time.
func eachRun(ctx context.Context, e *engine.Engine, name string, do func(ctx context.Context, t *task.Task, ran time.Time) error) error {
	return each(ctx, e, name, "", func(ctx context.Context, id task.ID) error {
		t, err := e.Get(ctx, id)
		if errors.Is(err, task.ErrNotFound) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read a platform of source %s: %w", name, err)
		}
		_, state, unreadable := timeslice.Decode(t.Payload, t.Checkpoint())
		if unreadable != nil {
			return nil
		}
		ran := state.Ran
		if ran.IsZero() {
			ran = t.CreatedAt
		}
		return do(ctx, t, ran)
	})
}
