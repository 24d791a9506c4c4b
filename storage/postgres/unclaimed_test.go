//go:build !race

package postgres_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/storage/postgres"
	"github.com/taskengine/taskengine/task"
)

// idsOf returns SQL that makes ids of tasks that a owns, and SQL that makes ids of tasks that b owns.
func idsOf(t *testing.T, a, b *node, typ string) (ofA, ofB string) {
	t.Helper()
	for i := 0; ofA == "" || ofB == ""; i++ {
		key := fmt.Sprint("key ", i)
		id := a.submit(engine.Request{Type: typ, OrderingKey: key})
		a.end(id, task.Done)
		sql := fmt.Sprintf("taskengine.id_in(taskengine.new_id(), %d)", task.ShardOf(key))
		if a.runs(id) > 0 {
			ofA = sql
		} else {
			ofB = sql
		}
	}
	return ofA, ofB
}

// waitBoth waits until two nodes know each other.
func waitBoth(t *testing.T, nodes ...*node) {
	t.Helper()
	for _, n := range nodes {
		for len(n.Members()) < len(nodes) {
			select {
			case <-t.Context().Done():
				t.Fatal("the nodes do not find each other")
			case <-time.After(time.Millisecond):
			}
		}
	}
}

// addMany adds tasks from SQL, without a hint to any node.
func addMany(t *testing.T, s *postgres.Store, n int, args string) (ids []task.ID) {
	t.Helper()
	rows, err := s.Pool().Query(t.Context(), fmt.Sprintf("select (taskengine.add(%s, wake => false)).id from generate_series(1, %d)", args, n))
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var id task.ID
		if err := rows.Scan((*[16]byte)(&id)); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return ids
}

// A node finds its tasks without a hint behind any number of tasks of another node in the same queue,
// and behind tasks that run.
func TestTasksWithoutAHintAreFoundBehindAnyBacklog(t *testing.T) {
	url := server.Database(t)
	hold := make(chan struct{})
	set := types("work")
	do := map[string]work{"work": func(ctx context.Context, _ *node, t *task.Task) ([]byte, error) {
		if len(t.Payload) == 0 {
			return nil, nil
		}
		select {
		case <-hold:
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}
	a, b := join(t, url, set, do), join(t, url, set, do)
	defer close(hold)
	waitBoth(t, a, b)
	ofA, ofB := idsOf(t, a, b, "work")
	addMany(t, a.store, 3000, fmt.Sprintf(`'work', '"hold"', id => %s`, ofA))
	for _, id := range addMany(t, a.store, 22, "'work', id => "+ofB) {
		b.end(id, task.Done)
		if b.runs(id) != 1 {
			t.Errorf("task %v of node b ran there %d times", id, b.runs(id))
		}
	}
}
