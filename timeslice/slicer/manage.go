package slicer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/internal/reserved"
	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/timeslice"
)

// Errors that callers match with [errors.Is].
var (
	// ErrUnknown says that there is no such source or platform.
	ErrUnknown = errors.New("there is no such source or platform")
	// ErrBusy says that a source or a platform did not stand still for long enough to be changed.
	ErrBusy = errors.New("it is running")
	// ErrMoved says that the cursor of a platform is not where the caller believes it to be.
	ErrMoved = errors.New("the cursor has moved")
	// ErrVersion says that a platform does not have the version that the caller believes it to have.
	ErrVersion = errors.New("the platform has changed")
	// ErrElsewhere says that another node with a store of its own holds the platform.
	ErrElsewhere = errors.New("the platform is not here")
	// ErrEnded says that the task of a source or a platform was cancelled or failed by hand. It wraps [engine.ErrNotAllowed].
	ErrEnded = fmt.Errorf("%w: its task was ended by hand; resume it", engine.ErrNotAllowed)
)

// Status is a platform at one moment.
type Status struct {
	Platform timeslice.Platform
	State    timeslice.State // as it is stored, less the slices that have ended since
	Next     time.Time       // when it runs next; zero is at the next order
	Task     task.ID         // the cursor
	Problem  string          // why it does not go on; "" if it does
}

// Apply adds the tasks of the sources, and passes them their definitions if these have changed. If the clock was set back while no node was
// alive, it has platforms make slices again. e has the Handlers and Policies.
func (s *Sources) Apply(ctx context.Context, e *engine.Engine) error {
	s.began.CompareAndSwap(nil, &reading{time.Now(), e.Now()})
	for _, name := range s.Names() {
		d := s.all[name]
		_, err := e.SubmitReserved(ctx, reserved.Owner{}, task.Request{
			ID: timeslice.SourceID(name), Type: timeslice.CursorType(name), At: never, Headers: map[string]string{timeslice.Header: name},
		})
		if err != nil {
			return fmt.Errorf("apply source %s: %w", name, err)
		}
		if err := s.stepBefore(ctx, e, name); err != nil {
			return fmt.Errorf("apply source %s: %w", name, err)
		}
		err = changeSource(ctx, e, name, func(s *timeslice.SourceState) (*timeslice.SourceOrder, error) {
			if now := s.Obey(); now.Defined.Equal(&d) {
				return nil, nil
			}
			return &timeslice.SourceOrder{Define: &d}, nil
		})
		if err != nil {
			return fmt.Errorf("apply source %s: %w", name, err)
		}
	}
	return nil
}

// By says who gives an order, and why.
type By struct{ Who, Reason string }

// SetSource sets values of a source, as texts by their names. An empty text unsets a value: then that of the configuration holds.
// The values are those of all platforms that have none of their own, for slices that are made later. Those of the threads are also in force
// for slices that wait; the engine needs the limits of [timeslice.ThreadsLimits] for them.
func (s *Sources) SetSource(ctx context.Context, e *engine.Engine, source string, values map[string]string, by By) error {
	err := changeSource(ctx, e, source, func(s *timeslice.SourceState) (*timeslice.SourceOrder, error) {
		now := s.Obey()
		for _, name := range slices.Sorted(maps.Keys(values)) {
			if err := now.Live.Set(name, values[name]); err != nil {
				return nil, err
			}
		}
		if err := now.Check(); err != nil {
			return nil, err
		}
		return &timeslice.SourceOrder{Set: values, By: by.Who, Reason: by.Reason}, setThreads(ctx, e, source, "", values, by)
	})
	if err == nil {
		s.passNow(ctx, e, source)
	}
	return named("set", source, err)
}

// passNow gives the platforms of a source its values. The source does that as well, but if a hint of its order is lost, only after its node has
// polled the store, and hints of the orders of its platforms may be lost, too. So an error has no effect: the source does what is left.
func (s *Sources) passNow(ctx context.Context, e *engine.Engine, source string) {
	of, err := s.Source(ctx, e, source)
	if err != nil {
		return
	}
	state := of.State.Obey()
	_ = each(ctx, e, source, "", func(ctx context.Context, id task.ID) error {
		err := change(ctx, e, id, func(p timeslice.Platform, s *timeslice.State) ([]timeslice.Order, error) {
			values := state.For(p.Name)
			if s.Version == 0 || s.Knows(values.Revision) { // the source adds what is new
				return nil, nil
			}
			return []timeslice.Order{{Source: &values}}, nil
		})
		if err != nil && ctx.Err() == nil {
			s.log.DebugContext(ctx, "a platform gets the values of its source later", "source", source, "error", err)
		}
		return nil
	})
}

// Set sets values of a platform, as SetSource does.
func (s *Sources) Set(ctx context.Context, e *engine.Engine, p timeslice.Platform, values map[string]string, by By) error {
	if err := s.here(p); err != nil {
		return err
	}
	return named("set", p.String(), change(ctx, e, p.Cursor(), func(_ timeslice.Platform, s *timeslice.State) ([]timeslice.Order, error) {
		layers := s.Pending()
		for _, name := range slices.Sorted(maps.Keys(values)) {
			if err := layers.Own.Set(name, values[name]); err != nil {
				return nil, err
			}
		}
		if _, err := layers.Settings(); err != nil {
			return nil, fmt.Errorf("%w: %w", timeslice.ErrInvalid, err)
		}
		return []timeslice.Order{{Set: values, By: by.Who, Reason: by.Reason}}, setThreads(ctx, e, p.Source, p.String(), values, by)
	}))
}

// Add adds a platform to a source, or one again that was removed: it goes on at its cursor. Its first slice has the values; see
// SetSource. A platform that there is gets the values.
func (s *Sources) Add(ctx context.Context, e *engine.Engine, p timeslice.Platform, values map[string]string, by By) error {
	if err := s.here(p); err != nil {
		return err
	}
	all, err := s.ApplyRows(ctx, e, p.Source, []Row{{Name: p.Name, Values: values}}, false, by)
	if err != nil {
		return err
	}
	return all[0].Err
}

// Remove stops a platform from making slices. Its open slices go on, and its state is kept.
func (s *Sources) Remove(ctx context.Context, e *engine.Engine, p timeslice.Platform, by By) error {
	return s.order(ctx, e, "remove", p, timeslice.Order{Remove: true, By: by.Who, Reason: by.Reason})
}

// Pause stops a platform from making slices, until Resume. Its open slices go on.
func (s *Sources) Pause(ctx context.Context, e *engine.Engine, p timeslice.Platform, by By) error {
	return s.order(ctx, e, "pause", p, timeslice.Order{Pause: true, By: by.Who, Reason: by.Reason})
}

// Resume ends a pause. The slices of the pause are made, the earliest first.
func (s *Sources) Resume(ctx context.Context, e *engine.Engine, p timeslice.Platform, by By) error {
	return s.order(ctx, e, "resume", p, timeslice.Order{Resume: true, By: by.Who, Reason: by.Reason})
}

// Reset moves the cursor of a platform: slices are made from there on, also of times that had slices before. If from is not zero, and
// the cursor is not there, the error is [ErrMoved].
func (s *Sources) Reset(ctx context.Context, e *engine.Engine, p timeslice.Platform, from, to time.Time, by By) error {
	if err := s.here(p); err != nil {
		return err
	}
	if to.Unix() < 0 || to.Year() > 9998 {
		return named("reset", p.String(), fmt.Errorf("%w: the cursor must lie between the years 1970 and 9998", timeslice.ErrInvalid))
	}
	return named("reset", p.String(), change(ctx, e, p.Cursor(), func(_ timeslice.Platform, s *timeslice.State) ([]timeslice.Order, error) {
		if !from.IsZero() && !s.Cursor.Equal(from) {
			return nil, fmt.Errorf("%w: it is at %s", ErrMoved, s.Cursor.UTC().Format(time.RFC3339Nano))
		}
		return []timeslice.Order{{Reset: &to, By: by.Who, Reason: by.Reason}}, nil
	}))
}

// Retry has the failed slices of a range run again.
func (s *Sources) Retry(ctx context.Context, e *engine.Engine, p timeslice.Platform, of timeslice.Range, by By) error {
	return s.order(ctx, e, "retry", p, timeslice.Order{Retry: &of, By: by.Who, Reason: by.Reason})
}

// Get returns a platform. It looks at its open slices.
func (s *Sources) Get(ctx context.Context, e *engine.Engine, p timeslice.Platform) (*Status, error) {
	if err := s.here(p); err != nil {
		return nil, err
	}
	t, err := e.Get(ctx, p.Cursor())
	if errors.Is(err, task.ErrNotFound) {
		return nil, fmt.Errorf("%w: %s", ErrUnknown, p)
	}
	if err != nil {
		return nil, named("read", p.String(), err)
	}
	one, err := statusOf(t)
	if err != nil {
		return nil, err
	}
	seen, err := look(ctx, e, one.Platform, &one.State)
	if err != nil {
		return nil, err
	}
	open := one.State.Open[:0]
	for i, slice := range one.State.Open {
		switch seen[i].State {
		case timeslice.Done, timeslice.GivenUp:
			continue
		case timeslice.Failed:
			if slice.Failed.IsZero() {
				slice.Failed = e.Now()
			}
		case timeslice.Live:
			slice.Failed = time.Time{}
		}
		open = append(open, slice)
	}
	one.State.Open = open
	return one, nil
}

// SourceStatus is a source at one moment.
type SourceStatus struct {
	State   timeslice.SourceState
	Task    task.ID
	Problem string // why it carries out no orders; "" if it does
}

// Waiting returns how many orders the source has not carried out, or has not passed to all of its platforms.
func (s *SourceStatus) Waiting() int {
	n := len(s.State.Orders)
	if s.State.Passed < s.State.Revision {
		n++
	}
	return n
}

// Source returns a source.
func (s *Sources) Source(ctx context.Context, e *engine.Engine, source string) (*SourceStatus, error) {
	t, err := e.Get(ctx, timeslice.SourceID(source))
	if errors.Is(err, task.ErrNotFound) {
		return nil, fmt.Errorf("%w: %s", ErrUnknown, source)
	}
	if err != nil {
		return nil, named("read", source, err)
	}
	state, err := timeslice.DecodeSource(t.Checkpoint())
	if err != nil {
		return nil, named("read", source, err)
	}
	return &SourceStatus{State: state, Task: t.ID, Problem: problemOf(t)}, nil
}

func statusOf(t *task.Task) (*Status, error) {
	p, state, err := timeslice.Decode(t.Payload, t.Checkpoint())
	if err != nil {
		return nil, err
	}
	one := &Status{Platform: p, State: state, Task: t.ID, Problem: state.Problem}
	if _, failed := state.Running(); failed >= timeslice.MaxFailed && one.Problem == "" {
		one.Problem = fmt.Sprintf("%d slices have failed, and no more are made before some of them are retried or given up: taskengine source retry %s", failed, p)
	}
	if t.State.Live() && t.NextEventAt.Before(never) {
		one.Next = t.NextEventAt
	}
	if problem := problemOf(t); problem != "" {
		one.Problem = problem
	}
	return one, nil
}

// problemOf returns why the task of a source or a platform does not run; "" if it does.
func problemOf(t *task.Task) string {
	switch {
	case endedByHand(t):
		return ErrEnded.Error()
	case t.State == task.Waiting && t.Attempt > 0:
		return t.LastError
	}
	return ""
}

func endedByHand(t *task.Task) bool { return t.State == task.Cancelled || t.State == task.Failed }

func named(verb, what string, err error) error {
	if err != nil {
		err = fmt.Errorf("%s %s: %w", verb, what, err)
	}
	return err
}

// order gives a platform an order.
func (s *Sources) order(ctx context.Context, e *engine.Engine, verb string, p timeslice.Platform, o timeslice.Order) error {
	if err := s.here(p); err != nil {
		return err
	}
	return named(verb, p.String(), change(ctx, e, p.Cursor(), func(timeslice.Platform, *timeslice.State) ([]timeslice.Order, error) {
		return []timeslice.Order{o}, nil
	}))
}

const (
	changeTries = 500
	changePause = 20 * time.Millisecond // between two tries: the run of a cursor is short
)

// change gives a platform the orders that give returns, and has it run now. If there are none, there is nothing to do.
func change(ctx context.Context, e *engine.Engine, id task.ID, give func(timeslice.Platform, *timeslice.State) ([]timeslice.Order, error)) error {
	return edit(ctx, e, id, func(t *task.Task, now time.Time) ([]byte, error) {
		p, s, err := timeslice.Decode(t.Payload, t.Checkpoint())
		if err != nil {
			return nil, err
		}
		orders, err := give(p, &s)
		if err != nil || len(orders) == 0 {
			return nil, err
		}
		if len(s.Orders)+len(orders) > timeslice.MaxOrders {
			return nil, fmt.Errorf("%w: %d orders wait to be carried out", ErrBusy, len(s.Orders))
		}
		for i := range orders {
			orders[i].At = now
		}
		s.Give(orders...)
		return s.Encode(), nil
	})
}

// changeSource gives a source the order that give returns, and has it run now. If it returns nil, there is nothing to do.
func changeSource(ctx context.Context, e *engine.Engine, name string, give func(*timeslice.SourceState) (*timeslice.SourceOrder, error)) error {
	return edit(ctx, e, timeslice.SourceID(name), func(t *task.Task, now time.Time) ([]byte, error) {
		s, err := timeslice.DecodeSource(t.Checkpoint())
		if err != nil {
			return nil, err
		}
		o, err := give(&s)
		if err != nil || o == nil {
			return nil, err
		}
		if len(s.Orders) >= timeslice.MaxOrders {
			return nil, fmt.Errorf("%w: %d orders wait to be carried out", ErrBusy, len(s.Orders))
		}
		o.At = now
		s.Orders = append(s.Orders, *o)
		return s.Encode(), nil
	})
}

// edit stores the checkpoint that to returns, and has the task run now. It tries again while the task runs or changes. A nil
// checkpoint changes nothing.
func edit(ctx context.Context, e *engine.Engine, id task.ID, to func(t *task.Task, now time.Time) ([]byte, error)) error {
	for range changeTries {
		t, err := e.Get(ctx, id)
		switch {
		case errors.Is(err, task.ErrNotFound):
			return ErrUnknown
		case err != nil:
			return err
		case endedByHand(t):
			return ErrEnded
		}
		now := task.Stamp(e.Now())
		checkpoint, err := to(t, now)
		if err != nil || checkpoint == nil {
			return err
		}
		if len(checkpoint) > task.MaxCheckpoint {
			return fmt.Errorf("%w: its state would have %d bytes, of %d allowed: give it fewer platforms in the configuration, and add the others while nodes run",
				timeslice.ErrInvalid, len(checkpoint), task.MaxCheckpoint)
		}
		_, err = e.Edit(ctx, t.Ref(), engine.Edit{At: &now, Checkpoint: &checkpoint})
		if !errors.Is(err, engine.ErrStale) && !errors.Is(err, engine.ErrNotAllowed) {
			return err
		}
		select {
		case <-time.After(changePause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return ErrBusy
}
