package handler

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/plugins/internal/wire"
)

// fillIn sets t to the task of a run.
func fillIn(t *task.Task, run *wire.Run) {
	*t = task.Task{
		Version: run.GetVersion(), State: task.Processing, Type: run.GetType(), Priority: uint8(run.GetPriority()),
		Key: run.GetKey(), OrderingKey: run.GetOrderingKey(), Attempt: run.GetAttempt(), Crashes: run.GetCrashes(),
		Headers: run.GetHeaders(), Payload: run.GetPayload(),
		Notes: task.NewNotes(task.Progress{}, run.GetCheckpoint()),
	}
	copy(t.ID[:], run.GetTaskId())
}

// finishOf returns the answer to a run for its verdict and extras. x may be nil.
func finishOf(runID uint64, v task.Verdict, x *extras, maxResult uint64) *wire.Finish {
	f := &wire.Finish{RunId: runID}
	if maxResult > 0 && uint64(len(v.Result)) > maxResult {
		v = task.VerdictOf(nil, tooLarge("the result has", len(v.Result), maxResult))
	}
	if x != nil {
		v = x.apply(v, maxResult)
		if v.Outcome == task.Completed {
			f.Children, f.Signals = x.children, x.signals
		}
	}
	if v.Outcome == task.Completed && v.Rerun != nil {
		v = task.VerdictOf(nil, task.Permanent(task.WithClass("unsupported", errors.New(
			"the handler asked to run again with another payload, a checkpoint or tasks to be added, which the protocol between handler programs and nodes does not carry"))))
	}
	switch {
	case v.Outcome == task.Completed && v.Again.IsZero():
		f.Outcome = &wire.Finish_Result{Result: v.Result}
	case v.Outcome == task.Completed:
		f.Outcome = &wire.Finish_Again{Again: &wire.Again{At: v.Again.UnixMicro(), Result: v.Result}}
	case v.Outcome == task.Snoozed:
		f.Outcome = &wire.Finish_Snooze{Snooze: &wire.Snooze{Delay: ceilMicros(v.Delay)}}
	case v.Outcome == task.HandedBack:
		f.Outcome = &wire.Finish_Refused{Refused: &wire.Refused{Message: text(v.Error)}}
	default:
		e := &wire.Error{Message: text(v.Error), Class: text(v.Class), Permanent: v.GiveUp, InDoubt: v.InDoubt}
		if v.Delay >= 0 {
			delay := ceilMicros(v.Delay)
			e.RetryDelay, e.RetryDelayAtLeast = &delay, v.AtLeast
		}
		f.Outcome = &wire.Finish_Error{Error: e}
	}
	return f
}

func tooLarge(what string, n int, most uint64) error {
	return task.Permanent(task.WithClass("result_too_large", fmt.Errorf("%s %d bytes, max_result of the type allows %d", what, n, most)))
}

// ceilMicros returns d in microseconds. It rounds up, so that no delay is shortened.
func ceilMicros(d time.Duration) int64 {
	n := d / time.Microsecond
	if d%time.Microsecond > 0 {
		n++
	}
	return int64(n)
}

// text returns s as valid UTF-8 of at most wire.MaxErrorBytes bytes, so that it can be sent.
func text(s string) string {
	if len(s) > wire.MaxErrorBytes {
		s = s[:wire.MaxErrorBytes]
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
