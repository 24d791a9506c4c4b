// Package calls is shared by the hosts of handlers. It has the unanswered tasks of a host, their queue, and the
// translation of answers. A host runs the tasks of a handler in other processes: it starts them, or they connect to the
// node.
package calls

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/taskengine/taskengine/plugins/internal/wire"
	"github.com/taskengine/taskengine/task"
)

// Call is one call of the Handle of a host. It is in a queue of the host, then among the running calls of one session,
// then answered. Each step removes it from the previous place under the host's mutex, so it is answered exactly once. S
// S is the session type of the host.
type Call[S any] struct {
	Run      *wire.Run
	Size     int           // approximate size of Run in a frame
	Done     chan Answer   // buffered: the one answer never blocks
	Reporter task.Reporter // gets progress, checkpoints and log lines; nil for none
	deadline time.Time     // of the attempt; zero if there is none. The call of Begin changes it

	// The host's mutex guards the fields below.

	Session    S           // that runs it; the zero value while it is queued and when it is answered
	reports    *reports[S] // nil until the handler reports something
	queue      *Queue[S]   // that it is in; nil if in none
	next, prev *Call[S]    // in the queue
}

// Answer is the result of Handle of a host.
type Answer struct {
	Result []byte
	Err    error
}

// New returns a call for a task, or an error if no handler process can get the task.
func New[S any](ctx context.Context, t *task.Task) (*Call[S], error) {
	if err := checkText(t); err != nil {
		return nil, err
	}
	run := &wire.Run{
		TaskId: t.ID[:], Version: t.Version, Type: t.Type, Attempt: t.Attempt, Crashes: t.Crashes,
		Priority: uint32(t.Priority), Key: t.Key, OrderingKey: t.OrderingKey, Payload: t.Payload, Headers: t.Headers,
		Checkpoint: t.Checkpoint(), Woken: wokenOf(t.Woken()), Children: setsOf(t.Children), Parent: parentOf(t.Parent),
	}
	deadline, _ := ctx.Deadline()
	size := 96 + len(t.Type) + len(t.Key) + len(t.OrderingKey) + len(t.Payload) + len(run.Checkpoint) + len(run.Woken.GetName()) + len(run.Woken.GetData())
	for k, v := range t.Headers {
		size += 8 + len(k) + len(v)
	}
	for _, s := range run.Children {
		size += 32 + len(s.Name) + len(s.Ended) + len(s.Shards)
	}
	return &Call[S]{Run: run, Size: size, Done: make(chan Answer, 1), Reporter: task.ReporterOf(ctx), deadline: deadline}, nil
}

// wokenOf returns the end of a wait as it is sent to handlers, nil if there is none.
func wokenOf(w task.Wake) *wire.Woken {
	switch w.By {
	case task.BySignal:
		id := w.Signal.ID // a slice of w would have w on the heap in each case
		return &wire.Woken{By: wire.Woken_BY_SIGNAL, Id: id[:], Name: w.Signal.Name, At: w.Signal.At.UnixMicro(), Data: w.Signal.Data}
	case task.ByTimeout:
		return &wire.Woken{By: wire.Woken_BY_TIMEOUT}
	case task.ByUser:
		return &wire.Woken{By: wire.Woken_BY_USER}
	case task.ByChildren:
		return &wire.Woken{By: wire.Woken_BY_CHILDREN}
	}
	return nil
}

// setsOf returns the children of a task as they are sent to handlers.
func setsOf(c *task.Children) []*wire.ChildSet {
	if c == nil {
		return nil
	}
	sets := make([]*wire.ChildSet, len(c.Sets))
	for i := range c.Sets {
		s := &c.Sets[i]
		sets[i] = &wire.ChildSet{Name: s.Name, Added: s.Added, Done: s.Done, Failed: s.Failed, Cancelled: s.Cancelled, Ended: s.Reported, Shards: s.Shards}
	}
	return sets
}

// parentOf returns the parent of a task as it is sent to handlers, nil if there is none.
func parentOf(p *task.Parent) *wire.Parent {
	if p == nil {
		return nil
	}
	return &wire.Parent{TaskId: p.ID[:], Name: p.Name, Index: p.Index}
}

// ID returns the id of the task.
func (c *Call[S]) ID() task.ID { return task.ID(c.Run.TaskId) }

// Begin notifies the engine that the attempt begins now, and sets the remaining time in the run. The caller has to send
// the run at once. An error says why the attempt must not begin; Begin has answered the call then.
func (c *Call[S]) Begin() error {
	if b, ok := c.Reporter.(task.Beginner); ok {
		deadline, err := b.Begin()
		if err != nil {
			c.Done <- Answer{Err: Unavailable(err)}
			return err
		}
		c.deadline = deadline
	}
	c.Run.TimeLeft = timeLeft(time.Now(), c.deadline)
	return nil
}

// timeLeft returns the microseconds from now to a deadline, at least 1; 0 if there is no deadline.
func timeLeft(now, deadline time.Time) int64 {
	if deadline.IsZero() {
		return 0
	}
	return max(1, deadline.Sub(now).Microseconds())
}

// Unavailable returns the error of a task that was not sent to a process.
func Unavailable(why error) error { return fmt.Errorf("%w: %w", task.ErrUnavailable, why) }

// CancelOf returns the message that asks the run of c to end, for the cause of the end of its context.
func (c *Call[S]) CancelOf(cause error) *wire.Cancel {
	reason := wire.Cancel_REASON_CANCELLED
	if errors.Is(cause, context.DeadlineExceeded) {
		reason = wire.Cancel_REASON_DEADLINE
	}
	return &wire.Cancel{RunId: c.Run.RunId, Reason: reason, Message: strings.ToValidUTF8(cause.Error(), "\uFFFD")}
}

// checkText returns an error if a string of the task is not valid UTF-8. Such a string would break the whole frame,
// and replacing invalid bytes would change a key.
func checkText(t *task.Task) error {
	bad := ""
	switch {
	case !utf8.ValidString(t.Type):
		bad = "type"
	case !utf8.ValidString(t.Key):
		bad = "key"
	case !utf8.ValidString(t.OrderingKey):
		bad = "ordering key"
	case !utf8.ValidString(t.Woken().Signal.Name):
		bad = "signal"
	}
	for k, v := range t.Headers {
		if !utf8.ValidString(k) || !utf8.ValidString(v) {
			bad = fmt.Sprintf("header %q", k)
		}
	}
	if bad == "" {
		return nil
	}
	return task.Permanent(fmt.Errorf("the task's %s is not valid UTF-8, so no handler process can get it", bad))
}
