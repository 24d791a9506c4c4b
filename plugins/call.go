package plugins

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/plugins/internal/wire"
)

// call is one Handle that waits for its answer. It is first in the host's queue, then
// among the running ones of one session, then done: each step takes it out of the one
// before, under the host's mutex, so it is answered exactly once.
type call struct {
	run      *wire.Run
	size     int           // of run in a frame, roughly
	done     chan answer   // has room for the one answer
	reporter task.Reporter // who wants to know what the handler says meanwhile; nil is nobody

	// Guarded by the host's mutex.
	session    *session // that runs it; nil while it is queued and when it is done
	overdue    bool     // it did not stop in time after its cancellation
	notes      *notes   // nil until the handler says something
	queue      *queue   // that it waits in; nil if in none
	next, prev *call    // in the queue
}

type answer struct {
	result []byte
	err    error
}

func newCall(ctx context.Context, t *task.Task) (*call, error) {
	if err := checkText(t); err != nil {
		return nil, err
	}
	run := &wire.Run{
		TaskId: t.ID[:], Version: t.Version, Type: t.Type, Attempt: t.Attempt, Crashes: t.Crashes,
		Priority: uint32(t.Priority), Key: t.Key, OrderingKey: t.OrderingKey, Payload: t.Payload, Headers: t.Headers,
		Checkpoint: t.Checkpoint(),
	}
	if deadline, ok := ctx.Deadline(); ok {
		run.Deadline = deadline.UnixMicro()
	}
	size := 96 + len(t.Type) + len(t.Key) + len(t.OrderingKey) + len(t.Payload) + len(run.Checkpoint)
	for k, v := range t.Headers {
		size += 8 + len(k) + len(v)
	}
	return &call{run: run, size: size, done: make(chan answer, 1), reporter: task.ReporterOf(ctx)}, nil
}

func (c *call) id() task.ID { return task.ID(c.run.TaskId) }

// checkText returns an error for a task that the wire cannot carry unchanged: one
// such text would break the whole frame, and mending it would change a key.
func checkText(t *task.Task) error {
	bad := ""
	switch {
	case !utf8.ValidString(t.Type):
		bad = "type"
	case !utf8.ValidString(t.Key):
		bad = "key"
	case !utf8.ValidString(t.OrderingKey):
		bad = "ordering key"
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

// answerOf translates what a handler process answered.
func answerOf(f *wire.Finish) answer {
	if n := len(f.GetChildren()) + len(f.GetSignals()); n > 0 {
		return answer{err: task.Permanent(task.WithClass("unsupported", fmt.Errorf(
			"the handler finished with %d children or signals, which this host does not support", n)))}
	}
	switch o := f.GetOutcome().(type) {
	case *wire.Finish_Result:
		return answer{result: o.Result}
	case *wire.Finish_Error:
		return answer{err: errorOf(o.Error)}
	case *wire.Finish_Snooze:
		return answer{err: task.Snooze(micros(o.Snooze.GetDelay()))}
	case *wire.Finish_Again:
		return answer{result: o.Again.GetResult(), err: task.Again(time.UnixMicro(o.Again.GetAt()).UTC())}
	case *wire.Finish_Refused:
		return answer{err: unavailable(errors.New(o.Refused.GetMessage()))}
	}
	return answer{err: task.InDoubt(errors.New("the handler's answer has no outcome that this host knows"))}
}

func errorOf(e *wire.Error) error {
	err := errors.New(e.GetMessage())
	switch {
	case e.RetryDelay != nil && e.GetRetryDelayAtLeast():
		err = task.RetryAfter(micros(e.GetRetryDelay()), err)
	case e.RetryDelay != nil:
		err = task.RetryIn(micros(e.GetRetryDelay()), err)
	}
	if e.GetInDoubt() {
		err = task.InDoubt(err)
	}
	if e.GetPermanent() {
		err = task.Permanent(err)
	}
	if e.GetClass() != "" {
		err = task.WithClass(e.GetClass(), err)
	}
	return err
}

const maxMicros = int64(1<<63-1) / int64(time.Microsecond)

// micros makes a duration of a number off the wire, whatever that is.
func micros(n int64) time.Duration {
	return time.Duration(max(0, min(n, maxMicros))) * time.Microsecond
}

// queue holds the calls that no session has taken yet, oldest first.
type queue struct {
	first, last *call
	n           int
}

func (q *queue) push(c *call) {
	c.queue, c.prev = q, q.last
	if q.last == nil {
		q.first = c
	} else {
		q.last.next = c
	}
	q.last = c
	q.n++
}

func (q *queue) remove(c *call) {
	if c.prev == nil {
		q.first = c.next
	} else {
		c.prev.next = c.next
	}
	if c.next == nil {
		q.last = c.prev
	} else {
		c.next.prev = c.prev
	}
	c.queue, c.next, c.prev = nil, nil, nil
	q.n--
}
