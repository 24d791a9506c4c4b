package handler

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/taskengine/taskengine/task"
)

// JSON makes a handler of a function. Its argument and result are encoded as JSON; []byte is the raw payload or result. A
// payload that cannot be decoded is a permanent error of class "bad_payload". The result is used if the error is nil or comes
// from [task.Again]. A result that cannot be encoded, such as NaN, is a permanent error of class "bad_result": another
// attempt would do the work once more.
func JSON[In, Out any](f func(ctx context.Context, t *task.Task, in In) (Out, error)) task.Handler {
	return Func(func(ctx context.Context, t *task.Task) ([]byte, error) {
		var in In
		if raw, ok := any(&in).(*[]byte); ok {
			*raw = t.Payload
		} else if err := json.Unmarshal(t.Payload, &in); err != nil {
			return nil, task.Permanent(task.WithClass("bad_payload", fmt.Errorf("the payload does not fit %s: %w", t.Type, err)))
		}
		out, err := f(ctx, t, in)
		if task.VerdictOf(nil, err).Outcome != task.Completed {
			return nil, err
		}
		if raw, ok := any(out).([]byte); ok {
			return raw, err
		}
		result, encodeErr := marshal(out)
		if encodeErr != nil {
			return nil, task.Permanent(task.WithClass("bad_result", fmt.Errorf("the result of %s cannot be encoded: %w", t.Type, encodeErr)))
		}
		return result, err
	})
}

// marshal encodes a value. A panic of one of its methods is an error.
func marshal(v any) (encoded []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	return json.Marshal(v)
}
