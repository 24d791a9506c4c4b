package task

import "time"

// Hint says that a row has changed, and its new state. It is for the node that is to start the task
// or that runs it. Like a [Trigger] it may be lost, delivered twice or out of date.
type Hint struct {
	Trigger
	State       State
	NextEventAt time.Time // as in the row
}

// Hint returns the hint of this version of the task.
func (t *Task) Hint() Hint { return Hint{t.Trigger(), t.State, t.NextEventAt} }
