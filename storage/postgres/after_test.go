package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/task"
)

// The end of a task from SQL reaches its followers on several nodes, also if its row is not kept.
func TestTasksThatEndFromSQLTellThoseAfterThem(t *testing.T) {
	const rounds = 12
	url := server.Database(t)
	set := types("kept", "gone", "late")
	gone := set.Types["gone"]
	gone.Retention.Done = 0
	set.Types["gone"] = gone
	gate := make(chan struct{})
	bySQL := func(ctx context.Context, n *node, t *task.Task) ([]byte, error) {
		select {
		case <-gate:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if err := pgx.BeginFunc(ctx, n.store.Pool(), func(tx pgx.Tx) error { return finishBySQL(ctx, tx, t, "r") }); err != nil {
			return nil, err
		}
		return nil, task.Ended()
	}
	work := map[string]work{"kept": bySQL, "gone": bySQL, "late": func(context.Context, *node, *task.Task) ([]byte, error) { return nil, nil }}
	nodes := []*node{join(t, url, set, work), join(t, url, set, work)}
	var late []task.ID
	for i := range rounds {
		first := []task.ID{nodes[i%2].submit(engine.Request{Type: "kept"}), nodes[i%2].submit(engine.Request{Type: "gone"})}
		late = append(late, nodes[(i+1)%2].submit(engine.Request{Type: "late", After: first}), nodes[i%2].submit(engine.Request{Type: "late", After: first[1:]}))
	}
	close(gate)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for _, id := range late {
		if err := errors.Join(nodes[0].WaitTasks(ctx, id)); err != nil {
			_, why, _ := nodes[0].Why(t.Context(), id)
			t.Fatalf("%v: %+v", err, why)
		}
		if got, err := nodes[0].Get(t.Context(), id); err != nil || got.State != task.Done || got.Attempt != 1 {
			t.Errorf("it is %+v, %v", got, err)
		}
	}
}
