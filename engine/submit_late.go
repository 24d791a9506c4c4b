package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/taskengine/taskengine/task"
)

// ErrLate is wrapped by the errors of requests whose time lies further in the past than [policy.Type.MaxLateness].
var ErrLate = errors.New("the request is too late")

// refuseLate sets the receipt of a late request.
func (c *catalog) refuseLate(t *task.Task, r *Receipt) {
	*r = Receipt{Outcome: OutcomeLate, Err: fmt.Errorf("%w: its time, %s, lies more than %v in the past, which is max_lateness of type %s; submit it with a later time, or without one",
		ErrLate, t.ReadyAt.UTC().Format(time.RFC3339Nano), c.infoOf(t.Type).rules.MaxLateness, t.Type)}
}
