package handler

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/taskengine/taskengine/engine/task"
)

// JSON makes a handler of a function from and to values that are JSON on the wire. A
// payload that is no such value is a permanent error of class "bad_payload". Next to
// the error of [task.Again] the value is the result, next to any other it is dropped.
func JSON[In, Out any](f func(ctx context.Context, t *task.Task, in In) (Out, error)) task.Handler {
	return Func(func(ctx context.Context, t *task.Task) ([]byte, error) {
		var in In
		if err := json.Unmarshal(t.Payload, &in); err != nil {
			return nil, task.Permanent(task.WithClass("bad_payload", fmt.Errorf("the payload is not what %s takes: %w", t.Type, err)))
		}
		out, err := f(ctx, t, in)
		if task.VerdictOf(nil, err).Outcome != task.Completed {
			return nil, err
		}
		result, encodeErr := json.Marshal(out)
		if encodeErr != nil {
			return nil, fmt.Errorf("the result of %s: %w", t.Type, encodeErr)
		}
		return result, err
	})
}
