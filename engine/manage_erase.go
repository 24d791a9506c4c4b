package engine

import (
	"fmt"
	"time"

	"github.com/taskengine/taskengine/task"
)

const erase = "erase"

// Erasing returns the removal of the content of tasks that are done, have failed, were cancelled, or are in the state error, which become failed: see
// [task.Erasure]. Their keys are free then. A row is kept as if its task had ended now, and for [task.KeepReceipt] at least.
func Erasing(r task.Erasure) Action {
	return Action{verb: erase, fill: func(t *task.Task, c *task.Change) bool {
		if c.To = t.State; t.State == task.Error {
			c.To = task.Failed
		}
		c.Erase = &r
		return t.State.CanBeErased()
	}}
}

// disallowed returns why a change of a task is not made that its state does not allow.
func disallowed(t *task.Task, verb string) error {
	if r := t.Erased(); r != nil {
		by := ""
		if r.By != "" {
			by = " by " + r.By
		}
		return fmt.Errorf("%w: cannot %s a task that was erased at %s%s", ErrNotAllowed, verb, r.EndedAt.Format(time.RFC3339), by)
	}
	advice := ""
	if verb == erase {
		advice = ": cancel it before"
	}
	return fmt.Errorf("%w: cannot %s a task that is %s%s", ErrNotAllowed, verb, t.State, advice)
}
