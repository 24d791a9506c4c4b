package calls

import (
	"errors"
	"fmt"
	"time"

	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/plugins/internal/wire"
)

// AnswerOf returns the answer in a Finish.
func AnswerOf(f *wire.Finish) Answer {
	if n := len(f.GetChildren()) + len(f.GetSignals()); n > 0 {
		return Answer{Err: task.Permanent(task.WithClass("unsupported", fmt.Errorf(
			"the handler finished with %d children or signals, which this host does not support", n)))}
	}
	switch o := f.GetOutcome().(type) {
	case *wire.Finish_Result:
		return Answer{Result: o.Result}
	case *wire.Finish_Error:
		return Answer{Err: errorOf(o.Error)}
	case *wire.Finish_Snooze:
		return Answer{Err: task.Snooze(micros(o.Snooze.GetDelay()))}
	case *wire.Finish_Again:
		return Answer{Result: o.Again.GetResult(), Err: againOf(o.Again)}
	case *wire.Finish_Ended:
		return Answer{Err: task.Ended()}
	case *wire.Finish_Refused:
		return Answer{Err: Unavailable(errors.New(o.Refused.GetMessage()))}
	}
	return Answer{Err: task.InDoubt(errors.New("the handler's answer has no outcome that this host knows"))}
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
