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

// call is one call of Handle. It is in a queue of the host, then among the running calls of one session, then answered.
// Each step removes it from the previous place under the host's mutex, so it is answered exactly once.
type call struct {
	run      *wire.Run
	size     int           // approximate size of run in a frame
	done     chan answer   // buffered: the one answer never blocks
	reporter task.Reporter // gets progress, checkpoints and log lines; nil for none

	// The host's mutex guards the fields below.

	session    *session // that runs it; nil while it is queued and when it is answered
	overdue    bool     // it did not stop in time after its cancellation
	reports    *reports // nil until the handler reports something
	queue      *queue   // that it is in; nil if in none
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

// checkText returns an error if a text of the task is not valid UTF-8. Such a text would break the whole frame, and
// replacing invalid bytes would change a key.
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

// answerOf returns the answer in a Finish.
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
		return answer{result: o.Again.GetResult(), err: againOf(o.Again)}
	case *wire.Finish_Ended:
		return answer{err: task.Ended()}
	case *wire.Finish_Refused:
		return answer{err: unavailable(errors.New(o.Refused.GetMessage()))}
	}
	return answer{err: task.InDoubt(errors.New("the handler's answer has no outcome that this host knows"))}
}

func againOf(a *wire.Again) error {
	var options []task.AgainOption
	if a.Payload != nil {
		options = append(options, task.WithPayload(a.GetPayload()))
	}
	if a.Checkpoint != nil {
		options = append(options, task.WithCheckpoint(a.GetCheckpoint()))
	}
	return task.Again(time.UnixMicro(a.GetAt()).UTC(), options...)
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

// micros returns a duration of n microseconds, limited to what a duration can hold.
func micros(n int64) time.Duration {
	return time.Duration(max(0, min(n, maxMicros))) * time.Microsecond
}

// queue is a list of the calls that no session has taken yet, oldest first.
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
