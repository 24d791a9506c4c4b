package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

// A reminder that comes more than half a minute late is worth nothing. The other requests of the call are done.
func ExampleEngine_Submit_late() {
	ctx := context.Background()
	reminder := policy.DefaultType()
	reminder.MaxLateness = 30 * time.Second
	e, err := engine.Open(ctx, engine.Config{
		Store:    memory.New(),
		Policies: policy.Set{Types: map[string]policy.Type{"reminder": reminder}},
		Handlers: map[string]task.Handler{"reminder": task.HandlerFunc(func(context.Context, *task.Task) ([]byte, error) { return nil, nil })},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer e.Close(ctx)
	receipts, err := e.Submit(ctx,
		engine.Request{Type: "reminder", At: e.Now().Add(-time.Hour)},
		engine.Request{Type: "reminder", At: e.Now().Add(-time.Second)})
	if err != nil && !errors.Is(err, engine.ErrLate) {
		log.Fatal(err)
	}
	for _, r := range receipts {
		fmt.Println(r.Outcome)
	}
	// Output:
	// late
	// created
}
