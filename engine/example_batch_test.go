package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

// A batch with a callback: the rows of an import are added together with the report that runs when they have ended.
func Example_batch() {
	ctx := context.Background()
	store := memory.New()
	defer store.Close()
	row := func(_ context.Context, t *task.Task) ([]byte, error) {
		if len(t.Payload) == 0 {
			return nil, task.EndAs(task.Failed, errors.New("the row is empty")) // no person can mend it
		}
		return nil, nil
	}
	report := func(_ context.Context, t *task.Task) ([]byte, error) {
		rows := t.Children.Set("row")
		return fmt.Appendf(nil, "%d rows were imported, %d were not", rows.Done, rows.Failed), nil
	}
	e, err := engine.Open(ctx, engine.Config{
		Store:    store,
		Policies: policy.Set{Slots: 10, Types: map[string]policy.Type{"row": policy.DefaultType(), "report": policy.DefaultType()}},
		Handlers: map[string]task.Handler{"row": task.HandlerFunc(row), "report": task.HandlerFunc(report)},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer e.Close(ctx)
	rows := []engine.Request{{Type: "row", Payload: []byte("1")}, {Type: "row"}, {Type: "row", Payload: []byte("3")}}
	receipts, err := e.Submit(ctx, engine.Request{
		Type: "report", Key: "import 17",
		Children: &task.NewChildren{Sets: []task.ChildRequests{{Name: "row", Requests: rows}}},
	})
	if err != nil {
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
	// done: 2 rows were imported, 1 were not
}
