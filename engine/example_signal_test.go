package engine_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

// An order waits for its payment without a slot. The signal may come before the order waits for it.
func ExampleEngine_Signal() {
	ctx := context.Background()
	store := memory.New()
	defer store.Close()
	e, err := engine.Open(ctx, engine.Config{
		Store:    store,
		Policies: policy.Set{Slots: 10, Types: map[string]policy.Type{"order": policy.DefaultType()}},
		Handlers: map[string]task.Handler{
			"order": task.HandlerFunc(func(_ context.Context, t *task.Task) ([]byte, error) {
				switch w := t.Woken(); w.By {
				case task.NotWoken:
					return nil, task.WaitFor([]string{"paid"}, time.Now().Add(48*time.Hour))
				case task.BySignal:
					return fmt.Appendf(nil, "shipped for %s", w.Signal.Data), nil
				default:
					return nil, task.Permanent(fmt.Errorf("nobody has paid"))
				}
			}),
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer e.Close(ctx)

	receipts, err := e.Submit(ctx, engine.Request{Type: "order", Key: "4711"})
	if err != nil {
		log.Fatal(err)
	}
	if _, _, err := e.Signal(ctx, engine.Signal{Type: "order", Key: "4711", Name: "paid", Data: []byte("42 EUR"), Keep: true}); err != nil {
		log.Fatal(err)
	}
	if err := e.WaitTasks(ctx, receipts[0].ID); err != nil {
		log.Fatal(err)
	}
	t, err := e.Get(ctx, receipts[0].ID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s: %s\n", t.State, t.Result)
	// Output: done: shipped for 42 EUR
}
