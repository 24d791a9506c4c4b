package slicer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/timeslice"
)

// atOnce is how many platforms of a source are read or changed at the same time.
const atOnce = 32

// Platforms returns the names of the platforms of a source, also of removed ones, in their order. Those that another node with a store of
// its own holds are left out.
func (s *Sources) Platforms(ctx context.Context, e *engine.Engine, source string) ([]string, error) {
	names, err := s.cursors(ctx, e, source)
	return slices.DeleteFunc(names, func(name string) bool {
		_, isElsewhere := s.holds.other(timeslice.Platform{Source: source, Name: name}.String())
		return isElsewhere
	}), err
}

// cursors returns the names of the platforms of a source that have a cursor in the store, in their order.
func (s *Sources) cursors(ctx context.Context, e *engine.Engine, source string) (names []string, err error) {
	err = eachCursor(ctx, e, source, func(t *task.Task) error {
		if name, ok := strings.CutPrefix(t.Headers[timeslice.Header], source+"/"); ok {
			names = append(names, name)
		}
		return nil
	})
	slices.Sort(names)
	return names, err
}

// Read returns platforms of a source as they are stored, in the order of their names. There may be fewer than names.
func (s *Sources) Read(ctx context.Context, e *engine.Engine, source string, names ...string) ([]*Status, error) {
	all := make([]*Status, len(names))
	err := inParallel(ctx, func(do func(func(context.Context) error) error) error {
		for i, name := range names {
			err := do(func(ctx context.Context) (err error) {
				t, err := e.Get(ctx, timeslice.Platform{Source: source, Name: name}.Cursor())
				if errors.Is(err, task.ErrNotFound) {
					return nil
				}
				if err == nil {
					all[i], err = statusOf(t)
				}
				return named("read", source+"/"+name, err)
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return slices.DeleteFunc(all, func(one *Status) bool { return one == nil }), err
}

// List calls fn with each platform of a source as it is stored, in the order of their names.
func (s *Sources) List(ctx context.Context, e *engine.Engine, source string, fn func(*Status) error) error {
	names, err := s.Platforms(ctx, e, source)
	if err != nil {
		return err
	}
	for some := range slices.Chunk(names, page) {
		all, err := s.Read(ctx, e, source, some...)
		if err != nil {
			return err
		}
		for _, one := range all {
			if err := fn(one); err != nil {
				return err
			}
		}
	}
	return nil
}

// PauseAll pauses the platforms of a source that have names with a prefix and are neither paused nor removed, and returns how many these are. It
// may be repeated.
func (s *Sources) PauseAll(ctx context.Context, e *engine.Engine, source, prefix string, by By) (int, error) {
	return s.orderAll(ctx, e, "pause", source, prefix, timeslice.Order{Pause: true, By: by.Who, Reason: by.Reason}, func(s *timeslice.State) bool { return s.Paused == nil })
}

// ResumeAll ends the pauses of the platforms of a source that have names with a prefix, and returns how many were paused.
func (s *Sources) ResumeAll(ctx context.Context, e *engine.Engine, source, prefix string, by By) (int, error) {
	return s.orderAll(ctx, e, "resume", source, prefix, timeslice.Order{Resume: true, By: by.Who, Reason: by.Reason}, func(s *timeslice.State) bool { return s.Paused != nil })
}

// RetryAll has the failed slices of a range run again, of the platforms of a source that have names with a prefix. It returns how many platforms have the order.
func (s *Sources) RetryAll(ctx context.Context, e *engine.Engine, source, prefix string, of timeslice.Range, by By) (int, error) {
	return s.orderAll(ctx, e, "retry", source, prefix, timeslice.Order{Retry: &of, By: by.Who, Reason: by.Reason}, func(s *timeslice.State) bool { return len(s.Open) > 0 })
}

// orderAll gives an order to the platforms of a source with names with a prefix, for which it has an effect.
func (s *Sources) orderAll(ctx context.Context, e *engine.Engine, verb, source, prefix string, o timeslice.Order, has func(*timeslice.State) bool) (int, error) {
	var ordered atomic.Int64
	err := each(ctx, e, source, prefix, func(ctx context.Context, id task.ID) error {
		isGiven := false
		err := change(ctx, e, id, func(p timeslice.Platform, state *timeslice.State) ([]timeslice.Order, error) {
			isGiven = s.here(p) == nil && (len(state.Orders) > 0 || has(state) && !state.Removed)
			if !isGiven {
				return nil, nil
			}
			return []timeslice.Order{o}, nil
		})
		if errors.Is(err, ErrEnded) { // it makes no slices, and says so
			return nil
		}
		if err == nil && isGiven {
			ordered.Add(1)
		}
		return err
	})
	return int(ordered.Load()), named(verb, source, err)
}

// each calls fn with the id of each cursor of a source that has a name with a prefix, for several at the same time.
func each(ctx context.Context, e *engine.Engine, source, prefix string, fn func(ctx context.Context, id task.ID) error) error {
	return inParallel(ctx, func(do func(func(context.Context) error) error) error {
		return eachCursor(ctx, e, source, func(t *task.Task) error {
			if !strings.HasPrefix(t.Headers[timeslice.Header], source+"/"+prefix) {
				return nil
			}
			return do(func(ctx context.Context) error { return fn(ctx, t.ID) })
		})
	})
}

// inParallel runs the functions that give passes to do. It returns the first error, after which do returns an error, too.
func inParallel(ctx context.Context, give func(do func(func(context.Context) error) error) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	err := give(func(fn func(context.Context) error) error {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		group.Go(func() {
			defer func() { <-slots }()
			if err := fn(ctx); err != nil {
				cancel(err)
			}
		})
		return nil
	})
	group.Wait()
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return err
}

// page is how many cursors are read at a time.
const page = 1000

// eachCursor calls fn with the row of each cursor of a source, without its payload, in no particular order.
func eachCursor(ctx context.Context, e *engine.Engine, source string, fn func(*task.Task) error) error {
	for before := afterReserved; ; {
		rows, next, err := e.List(ctx, storage.Filter{Types: []string{timeslice.CursorType(source)}}, before, page)
		if err != nil {
			return fmt.Errorf("list the platforms of source %s: %w", source, err)
		}
		for _, t := range rows {
			if t.ID != timeslice.SourceID(source) {
				if err := fn(t); err != nil {
					return err
				}
			}
		}
		if next.IsZero() {
			return nil
		}
		before = next
	}
}

// afterReserved is an id above all reserved ones.
var afterReserved = task.ID{5: 1}
