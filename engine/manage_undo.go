package engine

import (
	"fmt"

	"github.com/taskengine/taskengine/task"
)

// Undoing returns the change that gives tasks back what they had before the bulk job with a name changed them, see [task.Task.Undoable].
func Undoing(job string) Action {
	return Action{
		verb: "undo", whole: true,
		fill: func(t *task.Task, c *task.Change) bool {
			c.To, c.Restore = t.State, new(task.Restore)
			return t.Erased() == nil
		},
		set: func(e *Engine, t *task.Task, c *task.Change) error {
			b, err := t.Undoable(job)
			if err != nil {
				return fmt.Errorf("%w: cannot undo the change: %w", ErrNotAllowed, err)
			}
			c.Restore = &task.Restore{Attempt: b.Attempt, Crashes: b.Crashes, ExpiresAt: task.MomentOf(b.Expires), Error: b.Error}
			c.Mark = &task.Mark{Was: "changed by the bulk job " + job + ", " + stateWas(t, c)}
			restoreTimes(t, c, &b)
			return restoreValues(e, t, c, &b)
		},
	}
}

// restoreTimes gives a task its state and its times back.
func restoreTimes(t *task.Task, c *task.Change, b *task.Before) {
	c.To, c.Leaves = b.State, b.State == task.Error && b.LeftOrder
	switch {
	case b.State == task.Waiting:
		c.NextEventAt = task.MomentOf(b.Next)
	case b.State == task.Submitted && (t.State == task.Waiting || t.State == task.Submitted):
		c.To, c.NextEventAt = task.Waiting, c.At // it is ready again in a moment
	}
	if ready := task.MomentOf(b.Ready); !ready.Equal(t.ReadyAt) {
		c.ReadyAt = ready
	}
}

// restoreValues gives a task its values back.
func restoreValues(e *Engine, t *task.Task, c *task.Change, b *task.Before) error {
	if b.Priority == nil && b.Payload == nil && b.Headers == nil {
		return nil
	}
	c.Put = &task.Put{Priority: b.Priority, Headers: b.Headers}
	if b.Payload == nil && b.Headers == nil {
		return nil
	}
	decoded := *t
	if b.Headers != nil {
		decoded.Headers = *b.Headers
	}
	if b.Payload != nil {
		decoded.Payload, c.Payload, c.Mark.Payload = *b.Payload, b.Payload, &t.Payload
	}
	payload, err := e.contents.payload(&decoded)
	if err != nil {
		return fmt.Errorf("the payload that it had cannot be decoded: %w", err)
	}
	if c.Group, err = e.catalog.groupWith(&decoded, payload); err != nil {
		return err
	}
	c.Search = e.catalog.searchWith(&decoded, payload)
	return nil
}
