package task

import "time"

// Hint says that a row has changed, and its new state. It is for the node that is to start the task
// or that runs it. Like a [Trigger] it may be lost, delivered twice or out of date.
type Hint struct {
	Trigger
	State       State
	NextEventAt time.Time // as in the row
	OrderingKey string    // as in the row, if it is Behind: the head of this key is to be looked for
}

// Hint returns the hint of this version of the task.
func (t *Task) Hint() Hint {
	h := Hint{Trigger: t.Trigger(), State: t.State, NextEventAt: t.NextEventAt}
	if t.Turn == Behind {
		h.OrderingKey = t.OrderingKey
	}
	return h
}
