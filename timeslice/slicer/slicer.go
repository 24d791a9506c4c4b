package slicer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/internal/reserved"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/timeslice"
)

// Config describes the sources of a node.
type Config struct {
	Log     *slog.Logger
	Sources map[string]timeslice.Definition // by name

	// MayHold says whether this node may make the slices of a platform, if it has a store of its own and coordinates with
	// others, see [Sources.Hold]. Nil: of every platform.
	MayHold func(source, platform string) bool
}

// Sources are the sources of a node. It is safe for concurrent use.
type Sources struct {
	log       *slog.Logger
	all       map[string]timeslice.Definition
	mayHoldBy func(source, platform string) bool // nil: true
	holds     holds
	began     atomic.Pointer[reading] // by the first Apply; from then on Watch notices steps of the clock
}

// New returns the sources of a node. They run when an engine has their Handlers and Policies, and Apply was called.
func New(c Config) (*Sources, error) {
	s := &Sources{log: c.Log, all: maps.Clone(c.Sources), mayHoldBy: c.MayHold}
	s.holds.until, s.holds.others = make(map[string]time.Time), make(map[string]string)
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	for _, name := range s.Names() {
		d := s.all[name]
		if err := d.Check(name); err != nil {
			return nil, fmt.Errorf("source %s: %w", name, err)
		}
	}
	return s, nil
}

// Names returns the names of the sources, in their order.
func (s *Sources) Names() []string { return slices.Sorted(maps.Keys(s.all)) }

// Configures reports whether the definitions have a platform.
func (s *Sources) Configures(p timeslice.Platform) bool {
	_, ok := s.all[p.Source].Platforms[p.Name]
	return ok
}

// Handlers returns the handlers of the types of the sources themselves. Those of their slices are made by [Handler].
func (s *Sources) Handlers() map[string]task.Handler {
	all := make(map[string]task.Handler, len(s.all))
	for name := range s.all {
		all[timeslice.CursorType(name)] = task.HandlerFunc(func(ctx context.Context, t *task.Task) ([]byte, error) { return nil, s.handle(ctx, name, t) })
	}
	return all
}

// Policies returns the policies of the types of the sources themselves.
func (s *Sources) Policies() map[string]policy.Type {
	p := policy.DefaultType()
	p.Priority, p.Slotless = task.HighestPriority, true
	p.MaxCrashes = 0
	p.Retry = policy.Retry{Max: policy.Forever, Backoff: policy.Backoff{Kind: policy.Exponential, Initial: time.Second, Factor: 2, Max: time.Minute}}
	p.Retention = policy.Retention{Done: policy.Forever, Failed: policy.Forever, Cancelled: policy.Forever}
	all := make(map[string]policy.Type, len(s.all))
	for name := range s.all {
		all[timeslice.CursorType(name)] = p
	}
	return all
}

// never is when a task runs again that has nothing to do: an order makes it run earlier.
var never = time.Date(9999, time.December, 31, 0, 0, 0, 0, time.UTC)

// handle runs a source or the cursor of one of its platforms.
func (s *Sources) handle(ctx context.Context, source string, t *task.Task) error {
	e, ok := engine.FromContext(ctx)
	if !ok {
		return errors.New("a source must be run by an engine")
	}
	if t.ID == timeslice.SourceID(source) {
		return s.runSource(ctx, e, source, t)
	}
	return s.runCursor(ctx, e, t)
}

// runCursor makes the slices of a platform that are due.
func (s *Sources) runCursor(ctx context.Context, e *engine.Engine, t *task.Task) error {
	p, state, err := timeslice.Decode(t.Payload, t.Checkpoint())
	if err != nil {
		return err
	}
	if !s.mayMake(e, p) {
		state.Parked = true
		return task.Again(never, task.WithCheckpoint(state.Encode()))
	}
	seen, err := look(ctx, e, p, &state)
	if err != nil {
		return err
	}
	r := timeslice.Decide(p, state, seen, t.CreatedAt, e.Now())
	for i := range r.Retried {
		if err := resume(ctx, e, r.Retried[i].ID(p.Cursor())); err != nil {
			return fmt.Errorf("%s: retry the slice of %v: %w", p, r.Retried[i].Start, err)
		}
	}
	if r.SetBack {
		if err := hasten(ctx, e, p, state.Open); err != nil {
			return err
		}
	}
	s.report(ctx, p, &state, &r.State)
	requests := make([]task.Request, len(r.Made))
	for i, one := range r.Made {
		requests[i] = r.Request(one)
	}
	at := r.Next
	if at.IsZero() {
		at = never
	}
	return task.Again(at, task.WithCheckpoint(r.State.Encode()), task.WithTasks(requests...))
}

// report logs the failures of a platform.
func (s *Sources) report(ctx context.Context, p timeslice.Platform, before, after *timeslice.State) {
	if n := after.Failed - before.Failed; n > 0 {
		s.log.WarnContext(ctx, "slices have failed; look at them with: taskengine source show "+p.String(), "platform", p.String(), "slices", n, "low", after.Low())
	}
	switch {
	case before.Stopped == nil && after.Stopped != nil:
		s.log.ErrorContext(ctx, "a platform makes no slices until one of its failed slices is done", "platform", p.String(), "failed_in_row", after.FailedInRow, "next", after.Stopped.Next)
	case before.Stopped != nil && after.Stopped == nil:
		s.log.InfoContext(ctx, "a platform makes slices again", "platform", p.String(), "since", before.Stopped.Since)
	}
	if after.Problem != "" && after.Problem != before.Problem {
		s.log.ErrorContext(ctx, "the values of a platform cannot be; the last good ones stay in force", "platform", p.String(), "problem", after.Problem)
	}
}

// look returns what has become of the open slices of a platform.
func look(ctx context.Context, e *engine.Engine, p timeslice.Platform, s *timeslice.State) ([]timeslice.Status, error) {
	cursor, ids := p.Cursor(), make([]task.ID, len(s.Open))
	for i := range s.Open {
		ids[i] = s.Open[i].ID(cursor)
	}
	tasks, err := e.GetAll(ctx, ids...)
	if err != nil {
		return nil, fmt.Errorf("%s: look at the %d open slices: %w", p, len(ids), err)
	}
	seen := make([]timeslice.Status, len(s.Open))
	for i, t := range tasks {
		if t == nil { // it was done, and was removed
			seen[i].State = timeslice.Done
			continue
		}
		if seen[i], err = statusOfSlice(ctx, e, t); err != nil {
			return nil, fmt.Errorf("%s: look at the parts of the slice of %v: %w", p, s.Open[i].Start, err)
		}
	}
	return seen, nil
}

// statusOfSlice returns what has become of the slice with the task t. If it was split, it has failed when a part of it has.
func statusOfSlice(ctx context.Context, e *engine.Engine, t *task.Task) (timeslice.Status, error) {
	status := timeslice.Status{Split: t.Children.Set(halves) != nil}
	switch t.State {
	case task.Done:
		status.State = timeslice.Done
	case task.Error:
		status.State = timeslice.Failed
	case task.Failed, task.Cancelled:
		status.State = timeslice.GivenUp
	default:
		status.Waits = t.State == task.Submitted && t.Attempt == 0
		if failed, err := failedParts(ctx, e, t); err != nil || len(failed) > 0 {
			status.State = timeslice.Failed
			return status, err
		}
	}
	return status, nil
}

// failedParts returns the tasks in the state error below that of a slice that was split.
func failedParts(ctx context.Context, e *engine.Engine, t *task.Task) (failed []task.Ref, err error) {
	if t.Children.Set(halves) == nil {
		return nil, nil
	}
	for one, err := range e.Tree(ctx, t.ID) {
		switch {
		case errors.Is(err, task.ErrNotFound): // it has ended meanwhile
			return nil, nil
		case err != nil:
			return nil, err
		case one.Task.State == task.Error:
			failed = append(failed, one.Task.Ref())
		}
	}
	return failed, nil
}

// hasten has slices run that wait for their next attempt: its time may be one by a clock that was ahead.
func hasten(ctx context.Context, e *engine.Engine, p timeslice.Platform, open []timeslice.Slice) error {
	for i := range open {
		for one, err := range e.Tree(ctx, open[i].ID(p.Cursor())) {
			switch {
			case errors.Is(err, task.ErrNotFound): // it has ended
				continue
			case err != nil:
				return fmt.Errorf("%s: look at the slice of %v: %w", p, open[i].Start, err)
			}
			if t := one.Task; t.State == task.Waiting && len(t.Awaits()) == 0 && t.NextEventAt.After(e.Now()) {
				if err := resumeTask(ctx, e, t.Ref()); err != nil {
					return fmt.Errorf("%s: have the slice of %v run: %w", p, open[i].Start, err)
				}
			}
		}
	}
	return nil
}

// resume has a failed slice run again, or its parts that have failed. It may be repeated.
func resume(ctx context.Context, e *engine.Engine, id task.ID) error {
	t, err := e.Get(ctx, id)
	switch {
	case errors.Is(err, task.ErrNotFound):
		return nil
	case err != nil && !errors.Is(err, engine.ErrUnreadable):
		return err
	case t.State == task.Error:
		return resumeTask(ctx, e, t.Ref())
	}
	failed, err := failedParts(ctx, e, t)
	for _, part := range failed {
		if err == nil {
			err = resumeTask(ctx, e, part)
		}
	}
	return err
}

// resumeTask resumes a task, unless it has changed.
func resumeTask(ctx context.Context, e *engine.Engine, ref task.Ref) error {
	_, err := e.Resume(ctx, ref)
	if errors.Is(err, engine.ErrStale) || errors.Is(err, engine.ErrNotAllowed) || errors.Is(err, task.ErrNotFound) {
		return nil // a person was faster
	}
	return err
}

// runSource passes the values of a source to its platforms, and adds those that are new.
func (s *Sources) runSource(ctx context.Context, e *engine.Engine, source string, t *task.Task) error {
	state, err := timeslice.DecodeSource(t.Checkpoint())
	if err != nil {
		return err
	}
	if len(state.Orders) > 0 { // the values are stored before any platform has them
		state = state.Obey()
		return task.Again(e.Now(), task.WithCheckpoint(state.Encode()))
	}
	if state.Passed == state.Revision {
		return passMissed(ctx, e, source, &state)
	}
	for name := range state.Defined.Platforms {
		if err := add(ctx, e, timeslice.Platform{Source: source, Name: name}); err != nil {
			return err
		}
	}
	var mu sync.Mutex
	var ended []task.ID // guarded by mu
	err = each(ctx, e, source, "", func(ctx context.Context, id task.ID) error {
		err := passTo(ctx, e, id, &state)
		if errors.Is(err, ErrEnded) { // others get the values all the same
			mu.Lock()
			defer mu.Unlock()
			ended, err = append(ended, id), nil
		}
		return err
	})
	if err != nil {
		return err
	}
	state.Passed, state.Missed = state.Revision, ended
	if len(ended) == 0 {
		state.Former = nil
	}
	return again(e, &state)
}

// missedPause is how long a source waits before it looks again at platforms with tasks that were ended by hand.
const missedPause = time.Minute

// passMissed gives the values of a source to the platforms that have missed them, if their tasks were resumed.
func passMissed(ctx context.Context, e *engine.Engine, source string, state *timeslice.SourceState) error {
	var ended []task.ID
	for _, id := range state.Missed {
		switch err := passTo(ctx, e, id, state); {
		case errors.Is(err, ErrEnded):
			ended = append(ended, id)
		case err != nil && !errors.Is(err, ErrUnknown): // it was deleted
			return fmt.Errorf("give a platform of source %s the values that it has missed: %w", source, err)
		}
	}
	if state.Missed = ended; len(ended) == 0 {
		state.Former = nil
	}
	return again(e, state)
}

// again has a source run again at the next order, or to look at platforms that have missed values.
func again(e *engine.Engine, state *timeslice.SourceState) error {
	at := never
	if len(state.Missed) > 0 {
		at = e.Now().Add(missedPause)
	}
	return task.Again(at, task.WithCheckpoint(state.Encode()))
}

// add adds the cursor of a platform, if there is none.
func add(ctx context.Context, e *engine.Engine, p timeslice.Platform) error {
	_, err := e.SubmitReserved(ctx, reserved.Owner{}, task.Request{
		ID: p.Cursor(), Type: timeslice.CursorType(p.Source), At: never, Headers: map[string]string{timeslice.Header: p.String()}, Payload: p.Encode(),
	})
	if err != nil {
		return fmt.Errorf("add platform %s: %w", p, err)
	}
	return nil
}

// passTo gives a platform the values of its source.
func passTo(ctx context.Context, e *engine.Engine, id task.ID, from *timeslice.SourceState) error {
	return change(ctx, e, id, func(p timeslice.Platform, s *timeslice.State) ([]timeslice.Order, error) {
		var orders []timeslice.Order
		_, isDefined := from.Defined.Platforms[p.Name]
		switch {
		case slices.Contains(from.Former, p.Name) && !s.Removed:
			orders = append(orders, timeslice.Order{Remove: true, ByFile: true, Reason: "the configuration does not have it any more"})
		case isDefined && s.Removed && s.ByFile:
			orders = append(orders, timeslice.Order{Add: true, ByFile: true, Reason: "the configuration has it again"})
		}
		values := from.For(p.Name)
		if s.Knows(values.Revision) && len(orders) == 0 {
			return nil, nil
		}
		return append([]timeslice.Order{{Source: &values}}, orders...), nil
	})
}
