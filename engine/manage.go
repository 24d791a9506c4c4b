package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/taskengine/taskengine/engine/internal/cluster"
	"github.com/taskengine/taskengine/engine/internal/shell"
	"github.com/taskengine/taskengine/task"
)

// Errors of the methods by which people manage tasks. [task.ErrNotFound] is another.
var (
	// ErrStale says that the task is no longer at the version given.
	ErrStale = errors.New("the task has changed")
	// ErrNotAllowed says that the state of the task does not allow the change.
	ErrNotAllowed = errors.New("the task's state does not allow that")
)

// The methods below take a version of a task. If the task is at another version they change
// nothing and return [ErrStale]. Version 0 stands for the current version. They return when
// the change is durable, with the task after the change.

// Cancel ends a task that is no longer wanted. If the task runs, the context of its handler
// ends, and the verdict of the handler is ignored.
func (e *Engine) Cancel(ctx context.Context, ref task.Ref, reason string) (*task.Task, error) {
	return e.cancel(ctx, ref, nil, reason)
}

// cancel is Cancel of a task that was read already; nil if it was not.
func (e *Engine) cancel(ctx context.Context, ref task.Ref, read *task.Task, reason string) (*task.Task, error) {
	return e.do(ctx, ref, read, Cancelling(reason))
}

// Fail ends a task that will not be tried again. For a task in the state error this is the
// acknowledgement that a person has dealt with it.
func (e *Engine) Fail(ctx context.Context, ref task.Ref, reason string) (*task.Task, error) {
	return e.Do(ctx, ref, Failing(reason))
}

// Resume makes a task ready now that waits for its time, or that has ended without being
// done. A task that has ended starts anew, with all its attempts.
func (e *Engine) Resume(ctx context.Context, ref task.Ref) (*task.Task, error) {
	return e.Do(ctx, ref, Resuming())
}

// Reschedule sets the time when a task runs. The task must not be running. A task in the state
// error starts anew.
func (e *Engine) Reschedule(ctx context.Context, ref task.Ref, at time.Time) (*task.Task, error) {
	a, err := Rescheduling(at)
	if err != nil {
		return nil, err
	}
	return e.Do(ctx, ref, a)
}

// editTries is how often a change without a version is tried while the task changes
// concurrently.
const editTries = 10

// edit makes a change that a person asked for. fill completes the change, or returns false
// if the state of the task does not allow it.
func (e *Engine) edit(ctx context.Context, ref task.Ref, verb string, fill func(*task.Task, *task.Change) bool) (*task.Task, error) {
	return e.editRead(ctx, ref, nil, verb, fill)
}

// editRead is edit of a task that was read already; nil if it was not.
func (e *Engine) editRead(ctx context.Context, ref task.Ref, read *task.Task, verb string, fill func(*task.Task, *task.Change) bool) (*task.Task, error) {
	for range editTries {
		t := read
		if read = nil; t == nil {
			var err error
			if t, err = e.store.Get(ctx, ref.ID); err != nil {
				return nil, fmt.Errorf("engine: %s %v: %w", verb, ref.ID, err)
			}
		}
		if ref.Version != 0 && ref.Version != t.Version {
			return e.shown(t), fmt.Errorf("%w: it is at version %d, not %d", ErrStale, t.Version, ref.Version)
		}
		c := task.Change{Ref: t.Ref(), At: e.Now(), OrderingKey: t.OrderingKey}
		if !fill(t, &c) || !allowed(t, &c) {
			return e.shown(t), disallowed(t, verb)
		}
		again := e.contents.reencode(t)
		if again != nil && t.State == task.Processing {
			again.Checkpoint = nil // the attempt may have stored another one since
		}
		again.Add(&c, false)
		after, err := e.swap(ctx, t, c)
		if err != nil {
			return nil, fmt.Errorf("engine: %s %v: %w", verb, ref.ID, err)
		}
		if after != nil {
			return e.shown(after), nil
		}
		if ref.Version != 0 {
			return nil, fmt.Errorf("%w: it is no longer at version %d", ErrStale, ref.Version)
		}
	}
	return nil, fmt.Errorf("%w, %d times in a row", ErrStale, editTries)
}

// shown returns t with its contents, as far as they can be decoded: a change of a task does not depend on them.
func (e *Engine) shown(t *task.Task) *task.Task {
	if err := e.contents.decode(t); err != nil && e.handlers.undecoded.Allow() {
		e.log.Error("the content of a task cannot be decoded", "task_id", t.ID, "type", t.Type, "error", err)
	}
	return t
}

// swap makes a change of a row through a writer, so that the core learns of it. It returns nil if the
// change came too late.
func (e *Engine) swap(ctx context.Context, t *task.Task, c task.Change) (*task.Task, error) {
	ed := editOf(t, c)
	err := ErrClosed
	e.tell(func(s *state, _ time.Time) {
		if err = e.inbox.accepting(); err == nil {
			s.Edit(t.Type, ed)
		}
	})
	if err != nil {
		return nil, err
	}
	select {
	case err := <-ed.Done:
		return ed.After, err
	case <-ctx.Done():
		return nil, fmt.Errorf("the change may have been made: %w", context.Cause(ctx))
	}
}

func editOf(t *task.Task, c task.Change) *shell.Edit {
	ed := &shell.Edit{Change: c, Read: t.Version, From: t.State, Parent: t.Parent, Done: make(chan error, 1)}
	if c.Put != nil || c.Restore != nil {
		ed.Was = new(t.Hint())
	}
	return ed
}

// Pause stops tasks of a type from being started, also after a restart, until [Engine.Unpause].
// Other nodes of a cluster do the same when they get the hint, and within half a minute at the latest.
// Running handlers continue, and new tasks are accepted.
func (e *Engine) Pause(ctx context.Context, typ string) error { return e.PauseBy(ctx, typ, "") }

// PauseBy is Pause with the name of its author, of which [Engine.Why] speaks; at most 200 bytes, "" if it is not known.
func (e *Engine) PauseBy(ctx context.Context, typ, by string) error {
	if len(by) > maxBy || !printable(by) {
		return fmt.Errorf("%w: the name of the author of the pause has %d bytes; want at most %d printable ones", ErrInvalid, len(by), maxBy)
	}
	return e.setPaused(ctx, typ, cluster.Pause{Paused: true, By: by, At: task.Stamp(e.Now())})
}

// Unpause lets tasks of a type be started again.
func (e *Engine) Unpause(ctx context.Context, typ string) error {
	return e.setPaused(ctx, typ, cluster.Pause{At: task.Stamp(e.Now())})
}

func (e *Engine) setPaused(ctx context.Context, typ string, to cluster.Pause) error {
	if typ == "" || len(typ) > MaxType || !printable(typ) {
		return fmt.Errorf("%w: %.40q is not a type", ErrInvalid, typ)
	}
	err := e.cluster.Pause(ctx, typ, to)
	if errors.Is(err, cluster.ErrTooManyPauses) {
		err = fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if err != nil {
		return fmt.Errorf("engine: pause %s: %w", typ, err)
	}
	return nil
}

// Edit is a change of a task, see [Engine.Edit]. A nil field stays as it is.
type Edit struct {
	// Interrupts has a running attempt overruled, as [Engine.Cancel] does. Without it, a task that runs cannot
	// be edited.
	Interrupts bool

	// At is when the task runs next. The zero time is never: the task waits until it is edited,
	// rescheduled, resumed or cancelled, or until it expires. It holds no other task of its ordering key
	// back. If At is nil, a task that waits keeps its time, and any other runs as soon as there is a slot
	// for it.
	At         *time.Time
	Payload    *[]byte // at most max_payload of the type
	Checkpoint *[]byte // at most task.MaxCheckpoint bytes; empty removes it

	// Resumes has a task that has ended without being done run again at once, as [Engine.Resume] does. Then At is nil. Any other
	// task cannot be edited so.
	Resumes bool
}

// Edit changes the time, the payload and the checkpoint of a task, in one change. The task must not be
// running, unless the edit interrupts it. A task in the state error, or one that is interrupted, starts anew.
func (e *Engine) Edit(ctx context.Context, ref task.Ref, to Edit) (*task.Task, error) {
	if to.At != nil && outOfRange(*to.At) {
		return nil, fmt.Errorf("%w: times must lie between the years 1970 and 9999", ErrInvalid)
	}
	var invalid error
	after, err := e.edit(ctx, ref, "edit", func(t *task.Task, c *task.Change) bool {
		if t.State == task.Processing && !to.Interrupts || to.Resumes && t.State.Live() {
			return false
		}
		if c.Group, invalid = e.catalog.checkEdit(t, &to); invalid != nil {
			return false
		}
		var stored Edit
		if stored, invalid = to.encode(t.Type, e.contents); invalid != nil {
			return false
		}
		c.To, c.Payload, c.Checkpoint = task.Waiting, stored.Payload, stored.Checkpoint
		if to.Payload != nil {
			c.Search = e.catalog.searchWith(t, *to.Payload)
		}
		switch {
		case to.At != nil:
			c.NextEventAt, c.ReadyAt = *to.At, *to.At
			if to.At.IsZero() && t.OrderingKey != "" {
				c.ReadyAt = task.LastTime
			}
		case t.State == task.Waiting:
			c.NextEventAt = t.NextEventAt
		default:
			c.NextEventAt = c.At
		}
		if to.Resumes {
			c.To, c.NextEventAt = task.Submitted, time.Time{}
		}
		switch t.State {
		case task.Error, task.Failed, task.Cancelled:
			c.Count = task.Reset
		case task.Processing:
			c.Count, c.Outcome, c.Error = task.Reset, task.Overruled, errInterrupted
		}
		return true
	})
	if invalid != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, invalid)
	}
	return after, err
}

// errInterrupted is the error of an attempt that an Edit interrupts.
const errInterrupted = "the task was changed"

// checkEdit returns an error if a task cannot have what an Edit gives it, and otherwise its Group then;
// nil if that stays.
func (c *catalog) checkEdit(t *task.Task, to *Edit) (*string, error) {
	if to.Checkpoint != nil && len(*to.Checkpoint) > task.MaxCheckpoint {
		return nil, fmt.Errorf("the checkpoint has %d bytes, of %d allowed", len(*to.Checkpoint), task.MaxCheckpoint)
	}
	if to.Payload == nil {
		return nil, nil
	}
	if n, most := len(*to.Payload), c.infoOf(t.Type).maxPayload; n > most {
		return nil, fmt.Errorf("the payload has %d bytes, of %d allowed by max_payload of type %s", n, most, t.Type)
	}
	return c.groupWith(t, *to.Payload)
}

// encode encodes what an Edit gives a task of a type. It returns a copy.
func (to Edit) encode(typ string, by contents) (Edit, error) {
	r := task.Rerun{Payload: to.Payload, Checkpoint: to.Checkpoint}
	err := by.encodeRerun(typ, &r)
	to.Payload, to.Checkpoint = r.Payload, r.Checkpoint
	return to, err
}
