package handler

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/taskengine/taskengine/engine/task"
)

// JSON makes a handler of a function whose argument and result are encoded as JSON. A payload that cannot be decoded is a
// permanent error of class "bad_payload". The result is used if the error is nil or that of [task.Again].
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
