package bench

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// BenchmarkFanOut has one task add b.N tasks with the end of an attempt, and measures lives/s: how many of them live in a second, from the
// submit of that task until all have ended. With kind=children the task waits for them. With kind=tasks they are
// others, and it is done when it has added them.
func BenchmarkFanOut(b *testing.B) {
	for _, s := range stores {
		for _, kind := range []string{"tasks", "children"} {
			b.Run(fmt.Sprintf("store=%s/kind=%s", s.name, kind), func(b *testing.B) { fanOut(b, openStore(b, s.open), kind == "children") })
		}
	}
}

func fanOut(b *testing.B, store storage.Store, joins bool) {
	typ := policy.DefaultType()
	typ.Retention.Done = 0
	ended := make(chan struct{}, b.N+1)
	parent := func(_ context.Context, t *task.Task) ([]byte, error) {
		if t.Woken().By == task.ByChildren {
			return nil, nil
		}
		reqs := make([]task.Request, b.N)
		for i := range reqs {
			reqs[i] = task.Request{Type: "child"}
		}
		if joins {
			return nil, task.WaitForChildren([]task.ChildrenWait{{Name: "c"}}, time.Time{}, task.WithChildren("c", reqs...))
		}
		return nil, task.Again(time.Time{}, task.WithTasks(reqs...))
	}
	e, err := engine.Open(b.Context(), engine.Config{
		Store: store, Policies: policy.Set{Slots: inFlight, Types: map[string]policy.Type{"parent": policy.DefaultType(), "child": typ}},
		Handlers: map[string]task.Handler{
			"parent": task.HandlerFunc(parent),
			"child":  task.HandlerFunc(func(context.Context, *task.Task) ([]byte, error) { return nil, nil }),
		},
		Observer: engine.Observer{Saved: func(_ time.Time, _ task.Ref, t *task.Task) {
			if t != nil && t.Type == "child" {
				ended <- struct{}{}
			}
		}},
	})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close(context.Background())
	b.ResetTimer()
	receipts, err := e.Submit(b.Context(), engine.Request{Type: "parent"})
	if err != nil {
		b.Fatal(err)
	}
	for range b.N {
		<-ended
	}
	if err := e.WaitTasks(b.Context(), receipts[0].ID); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "lives/s")
}
