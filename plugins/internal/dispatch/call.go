package dispatch

import (
	"context"
	"time"

	"github.com/taskengine/taskengine/plugins/internal/calls"
	"github.com/taskengine/taskengine/plugins/internal/wire"
	"github.com/taskengine/taskengine/task"
)

// Call is one call of the Handle of a host. It is in a queue, then among the running calls of one session, then answered.
// Each step removes it from the place before, so it is answered exactly once.
type Call[O any] struct {
	Run      *wire.Run
	Done     chan calls.Answer // buffered: the one answer never blocks
	Reporter task.Reporter     // gets progress, checkpoints and log lines; nil for none
	size     int               // approximate size of Run in a frame
	deadline time.Time         // of the attempt; zero if there is none. begin changes it, under the host's mutex

	// The host's mutex guards the fields below.

	session    *Session[O]  // that runs it; nil while it waits and when it is answered
	cancel     *wire.Cancel // nil if its end was not asked for
	reports    *reports[O]  // nil until the session reports something. Set before the call ends
	queue      *Queue[O]    // that it is in; nil if in none
	next, prev *Call[O]     // in the queue
}

// newCall returns a call for a task, or an error if no session can get the task.
func newCall[O any](ctx context.Context, t *task.Task) (*Call[O], error) {
	run, size, err := calls.RunOf(t)
	if err != nil {
		return nil, err
	}
	deadline, _ := ctx.Deadline()
	return &Call[O]{Run: run, size: size, Done: make(chan calls.Answer, 1), Reporter: task.ReporterOf(ctx), deadline: deadline}, nil
}

// ID returns the id of the task.
func (c *Call[O]) ID() task.ID { return task.ID(c.Run.TaskId) }

// Session returns the session that runs c; nil while c waits and when it is answered.
func (c *Call[O]) Session() *Session[O] { return c.session }

// begin notifies the engine that the attempt begins now, and sets the remaining time in the run. An error says why the
// attempt must not begin.
func (c *Call[O]) begin() error {
	if b, ok := c.Reporter.(task.Beginner); ok {
		deadline, err := b.Begin()
		if err != nil {
			return err
		}
		c.deadline = deadline
	}
	c.Run.TimeLeft = calls.TimeLeft(time.Now(), c.deadline)
	return nil
}

// leave removes c from the running calls of its session.
func (c *Call[O]) leave() {
	delete(c.session.running, c.Run.RunId)
	c.session = nil
}

// End answers a running call with an error. Later answers of its session have no effect.
func (c *Call[O]) End(why error) {
	s := c.session
	c.leave()
	s.hasRoom()
	c.deliver(calls.Answer{Err: why})
}
