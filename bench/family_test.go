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

// BenchmarkFanOut has one task add b.N tasks, in portions of 10,000, and measures lives/s: how many of them live in a second, from the
// submit of that task until it is done. With kind=children it waits for all of them, with kind=tasks they are
// others, and it is done when it has added them: then the benchmark waits for them.
func BenchmarkFanOut(b *testing.B) {
	for _, s := range stores {
		for _, kind := range []string{"tasks", "children"} {
			b.Run(fmt.Sprintf("store=%s/kind=%s", s.name, kind), func(b *testing.B) { fanOut(b, openStore(b, s.open), kind == "children") })
		}
	}
}

func fanOut(b *testing.B, store storage.Store, joins bool) {
	const portion = 10_000
	typ := policy.DefaultType()
	typ.Retention.Done = 0
	ended := make(chan struct{}, b.N+1)
	parent := func(_ context.Context, t *task.Task) ([]byte, error) {
		added := 0
		if s := t.Children.Set("c"); s != nil {
			added = int(s.Added)
		} else if c := t.Checkpoint(); c != nil {
			fmt.Sscan(string(c), &added)
		}
		n := min(portion, b.N-added)
		reqs := make([]task.Request, n)
		for i := range reqs {
			reqs[i] = task.Request{Type: "child"}
		}
		switch last := added+n == b.N; {
		case joins && n == 0:
			return nil, nil
		case joins && last:
			return nil, task.WaitForChildren([]task.ChildrenWait{{Name: "c"}}, time.Time{}, task.WithChildren("c", reqs...))
		case joins:
			return nil, task.Again(time.Now(), task.WithChildren("c", reqs...))
		case last:
			return nil, task.Again(time.Time{}, task.WithTasks(reqs...))
		}
		return nil, task.Again(time.Now(), task.WithTasks(reqs...), task.WithCheckpoint(fmt.Append(nil, added+n)))
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
