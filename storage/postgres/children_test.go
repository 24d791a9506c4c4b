package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/task"
)

// Children end their attempts from SQL, now and then in a transaction that is rolled back, on two nodes. Their parent learns of each.
func TestAParentLearnsOfChildrenThatEndFromSQL(t *testing.T) {
	const children = 40
	url := server.Database(t)
	set := types("parent", "child")
	for name, p := range set.Types {
		p.Retry.Max = 1000
		if name == "child" {
			p.Retention.Done = 0
		}
		set.Types[name] = p
	}
	work := map[string]work{
		"parent": func(_ context.Context, _ *node, t *task.Task) ([]byte, error) {
			if t.Woken().By == task.ByChildren {
				s := t.Children.Set("näme")
				return fmt.Appendf(nil, "%d of %d done", s.Done, s.Added), nil
			}
			var reqs []engine.Request
			for i := range children {
				r := engine.Request{Type: "child"}
				if i%2 == 0 {
					r.Payload = []byte("rolled back")
				}
				reqs = append(reqs, r)
			}
			return nil, task.WaitForChildren([]task.ChildrenWait{{Name: "näme"}}, time.Time{}, task.WithChildren("näme", reqs...))
		},
		"child": func(ctx context.Context, n *node, t *task.Task) ([]byte, error) {
			var fails error
			if len(t.Payload) > 0 && t.Attempt == 1 {
				fails = errDeclined
			}
			err := pgx.BeginFunc(ctx, n.store.Pool(), func(tx pgx.Tx) error {
				return errors.Join(finishBySQL(ctx, tx, t, "r"), fails)
			})
			if err != nil {
				return nil, err
			}
			return nil, task.Ended()
		},
	}
	nodes := []*node{join(t, url, set, work), join(t, url, set, work)}
	id := nodes[0].submit(engine.Request{Type: "parent"})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := nodes[0].WaitTasks(ctx, id); err != nil {
		t.Fatalf("%v; left: %s", err, one[string](t, nodes[0].store.Pool(), "select coalesce(string_agg(concat_ws(' ', type, state, error), ', '), 'nothing') from taskengine.tasks where state <> 'done'"))
	}
	got, err := nodes[0].Get(t.Context(), id)
	if want := fmt.Sprintf("%d of %[1]d done", children); err != nil || string(got.Result) != want {
		t.Errorf("it is %v with %q, %v; want %q", got.State, got.Result, err, want)
	}
}
