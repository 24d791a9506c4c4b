package task

import "time"

// Hint says what a row has become, to the node that is to start the task, or that runs it
// still. Like a [Trigger] it may be lost, doubled or out of date.
type Hint struct {
	Trigger
	State       State
	NextEventAt time.Time // as in the row
}

// Hint returns what the row has become.
func (t *Task) Hint() Hint { return Hint{t.Trigger(), t.State, t.NextEventAt} }
