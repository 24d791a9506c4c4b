package handler_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/taskengine/taskengine/plugins/handler"
	"github.com/taskengine/taskengine/task"
)

// One statement inserts the rows of up to three tasks. Here no program serves the handler, so
// it is called as an engine would.
func ExampleBatch() {
	insert := handler.Batch(3, time.Minute, func(_ context.Context, tasks []*task.Task) ([]handler.Outcome, error) {
		fmt.Println("insert", len(tasks), "rows")
		outcomes := make([]handler.Outcome, len(tasks))
		for i, t := range tasks {
			if len(t.Payload) == 0 {
				outcomes[i].Err = task.Permanent(fmt.Errorf("%s is empty", t.Key))
			}
		}
		return outcomes, nil
	})

	var wg sync.WaitGroup
	for key, row := range map[string]string{"a": "tea", "b": "", "c": "salt"} {
		wg.Go(func() {
			if _, err := insert.Handle(context.Background(), &task.Task{Key: key, Payload: []byte(row)}); err != nil {
				fmt.Println(err)
			}
		})
	}
	wg.Wait()
	// Output:
	// insert 3 rows
	// b is empty
}

// What belongs to one task of a batch goes by its own context.
func ExampleContextOf() {
	handler.Batch(100, time.Second, func(ctx context.Context, tasks []*task.Task) ([]handler.Outcome, error) {
		for _, t := range tasks {
			own := handler.ContextOf(ctx, t)
			if own.Err() != nil { // it alone is cancelled
				continue
			}
			task.Logger(own).Info("inserted", "bytes", len(t.Payload))
		}
		return nil, nil
	})
}

// An order has a mail sent for each of its items, if and only if it is stored as done.
func ExampleSpawn() {
	order := handler.JSON(func(ctx context.Context, t *task.Task, items []string) (int, error) {
		for i, item := range items {
			mail := handler.Child{
				Type: "mail", Payload: []byte(item), Key: fmt.Sprintf("%s/%d", t.Key, i), RunAt: time.Now().Add(time.Minute),
			}
			if err := handler.Spawn(ctx, mail); err != nil {
				return 0, err
			}
		}
		return len(items), nil
	})
	_, err := order.Handle(context.Background(), &task.Task{Type: "order", Payload: []byte(`["tea"]`)})
	fmt.Println(err)
	// Output: children need the context of a task that a handler program runs; for one of a batch see ContextOf
}
