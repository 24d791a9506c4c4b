// Hello-go is a handler program: it serves the task type "upper".
package main

import (
	"bytes"
	"context"

	"github.com/taskengine/taskengine/plugins/handler"
	"github.com/taskengine/taskengine/task"
)

func main() {
	handler.Serve(handler.Handlers{
		"upper": handler.Func(func(_ context.Context, t *task.Task) ([]byte, error) {
			return bytes.ToUpper(t.Payload), nil
		}),
	})
}
