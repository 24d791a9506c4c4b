// Package calls translates between tasks and the messages of the protocol of handlers: a task into a run, the cause of a
// cancellation into a cancel, and a finish into an answer. It has no state.
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

// Features are the optional parts of the protocol that hosts support.
var Features = []string{"progress", "checkpoint", "rerun", "ended", "children", "wait", "family", "signals", "check", "documents", "after"}

// Answer is the result of Handle of a host.
type Answer struct {
	Result []byte
	Err    error
}

// RunOf returns the run of a task and its approximate size in a frame, or an error if no handler process can get the task.
// The caller sets the id of the run and the remaining time.
func RunOf(t *task.Task) (run *wire.Run, size int, err error) {
	if err := checkText(t); err != nil {
		return nil, 0, err
	}
	run = &wire.Run{
		TaskId: t.ID[:], Version: t.Version, Type: t.Type, Attempt: t.Attempt, Crashes: t.Crashes,
		Priority: uint32(t.Priority), Key: t.Key, OrderingKey: t.OrderingKey, Payload: t.Payload, Headers: t.Headers,
		Checkpoint: t.Checkpoint(), Woken: wokenOf(t.Woken()), Children: setsOf(t.Children), Parent: parentOf(t.Parent),
	}
	size = 96 + len(t.Type) + len(t.Key) + len(t.OrderingKey) + len(t.Payload) + len(run.Checkpoint) + len(run.Woken.GetName()) + len(run.Woken.GetData())
	for k, v := range t.Headers {
		size += 8 + len(k) + len(v)
	}
	for _, s := range run.Children {
		size += 32 + len(s.Name) + len(s.Ended) + len(s.Shards)
	}
	return run, size, nil
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
	sets := make([]*wire.ChildSet, 0, len(c.Sets))
	for i := range c.Sets {
		if s := &c.Sets[i]; s.IsOfChildren() {
			sets = append(sets, &wire.ChildSet{Name: s.Name, Added: s.Added, Done: s.Done, Failed: s.Failed, Cancelled: s.Cancelled, Ended: s.Reported, Shards: s.Shards})
		}
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

// TimeLeft returns the microseconds from now to a deadline, at least 1; 0 if there is no deadline.
func TimeLeft(now, deadline time.Time) int64 {
	if deadline.IsZero() {
		return 0
	}
	return max(1, deadline.Sub(now).Microseconds())
}

// Unavailable returns the error of a task that was not sent to a process.
func Unavailable(why error) error { return fmt.Errorf("%w: %w", task.ErrUnavailable, why) }

// CancelFor returns the message that asks a run to end, for the cause of the end of its context. The caller sets the id of
// the run.
func CancelFor(cause error) *wire.Cancel {
	reason := wire.Cancel_REASON_CANCELLED
	if errors.Is(cause, context.DeadlineExceeded) {
		reason = wire.Cancel_REASON_DEADLINE
	}
	return &wire.Cancel{Reason: reason, Message: strings.ToValidUTF8(cause.Error(), "\uFFFD")}
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
