package bench

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// BenchmarkOrder measures how fast a backlog of b.N tasks ends that share ordering keys. The unit "commits/task" counts
// the commits of the engine in that time, with a sync each.
func BenchmarkOrder(b *testing.B) {
	for _, s := range stores {
		rate := 0.0
		for _, keys := range []int{0, 10_000, 100, 1} {
			b.Run(fmt.Sprintf("store=%s/keys=%d", s.name, keys), func(b *testing.B) {
				got := orderedDrain(b, openStore(b, s.open), nil, keys)
				if keys == 0 {
					rate = got
				}
				b.ReportMetric(got/rate, "of-unordered")
			})
		}
	}
}

// BenchmarkParkedKey measures the same with 10 000 keys, in a store with 100 000 other tasks: tasks of a type without a
// handler, and tasks of a key behind an error.
func BenchmarkParkedKey(b *testing.B) {
	const others = 100_000
	rate := 0.0
	for _, c := range []struct {
		name string
		like engine.Request
	}{
		{"unhandled", engine.Request{Type: "unhandled"}},
		{"parked", engine.Request{Type: "stuck", OrderingKey: "stuck"}},
	} {
		b.Run(c.name, func(b *testing.B) {
			got := orderedDrain(b, openStore(b, stores[0].open), slices.Repeat([]engine.Request{c.like}, others), 10_000)
			if c.name == "unhandled" {
				rate = got
			}
			b.ReportMetric(got/rate, "of-unhandled")
		})
	}
}

// orderedDrain adds b.N tasks of a paused type, and returns how many of them end in a second once it is not paused. With
// keys > 0 the tasks have that many ordering keys in turn. The others are added first; a task of the type stuck fails.
func orderedDrain(b *testing.B, store storage.Store, others []engine.Request, keys int) float64 {
	var commits, left atomic.Int64
	left.Store(int64(b.N))
	ended := make(chan struct{})
	stuck := policy.DefaultType()
	stuck.Retry.Max = 1
	paused := policy.DefaultType()
	paused.Paused = true
	e, err := engine.Open(b.Context(), engine.Config{
		Store:    store,
		Policies: policy.Set{Slots: inFlight, Types: map[string]policy.Type{"noop": paused, "stuck": stuck}},
		Handlers: map[string]task.Handler{"noop": noop, "stuck": task.HandlerFunc(func(context.Context, *task.Task) ([]byte, error) {
			return nil, task.Permanent(fmt.Errorf("it is stuck"))
		})},
		Observer: engine.Observer{
			Saved: func(_ time.Time, _ task.Ref, t *task.Task) {
				if t != nil && t.State == task.Done && left.Add(-1) == 0 {
					close(ended)
				}
			},
			Committed: func(time.Duration, error) { commits.Add(1) },
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close(context.Background())
	addMany(b, e, len(others), func(i int) engine.Request { return others[i] })
	payload := make([]byte, payloadSize)
	addMany(b, e, b.N, func(i int) engine.Request {
		r := engine.Request{Type: "noop", Payload: payload}
		if keys > 0 {
			r.OrderingKey = fmt.Sprint("key ", i%keys)
		}
		return r
	})
	before := commits.Load()
	used := cpuTime(b)
	b.ResetTimer()
	if err := e.Unpause(b.Context(), "noop"); err != nil {
		b.Fatal(err)
	}
	<-ended
	b.StopTimer()
	b.ReportMetric(float64(commits.Load()-before)/float64(b.N), "commits/task")
	return report(b, used)
}
