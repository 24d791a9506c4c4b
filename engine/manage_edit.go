package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/taskengine/taskengine/task"
)

// Edit is a change of a task, see [Engine.Edit]. What is nil stays as it is.
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
}

// Edit changes the time, the payload and the checkpoint of a task, in one change. The task must not be
// running, unless the edit interrupts it. A task in the state error, or one that is interrupted, starts anew.
func (e *Engine) Edit(ctx context.Context, ref task.Ref, to Edit) (*task.Task, error) {
	if to.At != nil && outOfRange(*to.At) {
		return nil, fmt.Errorf("%w: times must lie between the years 1970 and 9999", ErrInvalid)
	}
	var invalid error
	after, err := e.edit(ctx, ref, "edit", func(t *task.Task, c *task.Change) bool {
		if t.State == task.Processing && !to.Interrupts {
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
		switch {
		case to.At != nil:
			c.NextEventAt, c.ReadyAt = *to.At, *to.At
			if to.At.IsZero() && t.OrderingKey != "" {
				c.ReadyAt = lastTime
			}
		case t.State == task.Waiting:
			c.NextEventAt = t.NextEventAt
		default:
			c.NextEventAt = c.At
		}
		switch t.State {
		case task.Error:
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

// lastTime is the time of the seat of a task that waits without a time: it is behind all others of its key.
var lastTime = time.Date(9999, time.December, 31, 23, 59, 59, 0, time.UTC)

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
