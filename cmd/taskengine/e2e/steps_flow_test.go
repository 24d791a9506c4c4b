package e2e

import (
	"context"
	"fmt"

	"github.com/taskengine/taskengine/steps"
	"github.com/taskengine/taskengine/task"
)

// flowSteps is how many steps a task of the type "flow" has.
const flowSteps = 10

// flowHandler returns a handler with steps that do nothing. The result of each is stored before the next one begins.
func flowHandler() task.Handler {
	return steps.Handler(steps.Options{Version: 1}, func(ctx context.Context, f *steps.Flow) ([]byte, error) {
		sum := 0
		for i := range flowSteps {
			n, err := steps.Do(ctx, f, "add", func(context.Context) (int, error) { return i, nil })
			if err != nil {
				return nil, err
			}
			sum += n
		}
		return fmt.Append(nil, sum), nil
	})
}
