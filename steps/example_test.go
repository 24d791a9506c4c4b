package steps_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/steps"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

// An order is charged once, though the attempt that has charged it ends when it waits for the goods.
func ExampleHandler() {
	order := func(ctx context.Context, f *steps.Flow) ([]byte, error) {
		receipt, err := steps.Do(ctx, f, "charge", func(context.Context) (string, error) {
			fmt.Println("charging")
			return "receipt 1", nil
		})
		if err != nil {
			return nil, err
		}
		packed, err := f.WaitFor(ctx, 48*time.Hour, "packed")
		if err != nil {
			return nil, err
		}
		return fmt.Appendf(nil, "%s, sent by %s", receipt, packed.Signal.Data), nil
	}

	ctx := context.Background()
	store := memory.New()
	defer store.Close()
	e, err := engine.Open(ctx, engine.Config{
		Store:    store,
		Policies: policy.Set{Slots: 10, Types: map[string]policy.Type{"order": policy.DefaultType()}},
		Handlers: map[string]task.Handler{"order": steps.Handler(steps.Options{Version: 1}, order)},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer e.Close(ctx)
	receipts, err := e.Submit(ctx, engine.Request{Type: "order"})
	if err != nil {
		log.Fatal(err)
	}
	if _, _, err := e.Signal(ctx, engine.Signal{To: receipts[0].ID, Name: "packed", Data: []byte("parcel"), Keep: true}); err != nil {
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
	// Output:
	// charging
	// done: receipt 1, sent by parcel
}
