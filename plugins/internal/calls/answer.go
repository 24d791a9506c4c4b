package calls

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/taskengine/taskengine/plugins/internal/wire"
	"github.com/taskengine/taskengine/task"
)

// AnswerOf returns the answer in a Finish.
func AnswerOf(f *wire.Finish) Answer {
	switch o := f.GetOutcome().(type) {
	case *wire.Finish_Result:
		if len(f.GetChildren()) == 0 {
			return Answer{Result: o.Result}
		}
		return Answer{Result: o.Result, Err: task.Again(time.Time{}, childrenOf(f))}
	case *wire.Finish_Error:
		return Answer{Err: errorOf(o.Error)}
	case *wire.Finish_Snooze:
		return Answer{Err: task.Snooze(micros(o.Snooze.GetDelay()))}
	case *wire.Finish_Again:
		return Answer{Result: o.Again.GetResult(), Err: againOf(f, o.Again)}
	case *wire.Finish_Ended:
		return Answer{Err: task.Ended()}
	case *wire.Finish_Refused:
		return Answer{Err: Unavailable(errors.New(o.Refused.GetMessage()))}
	}
	return Answer{Err: task.InDoubt(errors.New("the handler's answer has no outcome that this host knows"))}
}

func againOf(f *wire.Finish, a *wire.Again) error {
	var options []task.AgainOption
	if len(f.GetChildren()) > 0 {
		options = append(options, childrenOf(f))
	}
	if a.Payload != nil {
		options = append(options, task.WithPayload(a.GetPayload()))
	}
	if a.Checkpoint != nil {
		options = append(options, task.WithCheckpoint(a.GetCheckpoint()))
	}
	if w := a.GetWait(); w != nil {
		return task.WaitFor(w.GetNames(), dueAt(a), options...)
	}
	return task.Again(dueAt(a), options...)
}

// dueAt returns when an again that has just arrived is due; zero is never.
func dueAt(a *wire.Again) time.Time {
	switch {
	case a.GetAt() == 0 && a.GetDelay() > 0:
		return time.Now().Add(micros(a.GetDelay()))
	case a.GetAt() == 0 && a.GetWait() != nil:
		return time.Time{}
	}
	return time.UnixMicro(a.GetAt()).UTC()
}

// childrenOf returns the option that adds the children of a finish if and only if that is stored.
func childrenOf(f *wire.Finish) task.AgainOption {
	requests := make([]task.Request, len(f.GetChildren()))
	for i, c := range f.GetChildren() {
		r := task.Request{Type: c.GetType(), Payload: c.GetPayload(), Key: c.GetKey(), OrderingKey: c.GetOrderingKey(), Headers: c.GetHeaders()}
		if c.Priority != nil {
			priority := uint8(min(c.GetPriority(), math.MaxUint8)) // the engine refuses larger ones
			r.Priority = &priority
		}
		if c.GetRunAt() != 0 {
			r.At = time.UnixMicro(c.GetRunAt()).UTC()
		}
		requests[i] = r
	}
	return task.WithTasks(requests...)
}

// Forbid returns the answer in f, or an error instead of it if f has children and forbidden returns why their types may not
// be added. The error is permanent, because the work was done.
func Forbid(f *wire.Finish, forbidden func(types ...string) error) Answer {
	if len(f.GetChildren()) > 0 && forbidden != nil {
		types := make([]string, len(f.GetChildren()))
		for i, c := range f.GetChildren() {
			types[i] = c.GetType()
		}
		if err := forbidden(types...); err != nil {
			return Answer{Err: task.Permanent(task.WithClass("forbidden", fmt.Errorf("the worker may not add these tasks: %w", err)))}
		}
	}
	return AnswerOf(f)
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

// micros returns a duration of n microseconds, limited to the range of a duration.
func micros(n int64) time.Duration {
	return time.Duration(max(0, min(n, maxMicros))) * time.Microsecond
}
