package workers

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taskengine/taskengine/plugins"
	"github.com/taskengine/taskengine/task"
)

// BenchmarkWorker measures tasks per second through one worker on loopback, and BenchmarkPlugin through one process that
// the node has started: many at once, and one after the other for the latency.
func BenchmarkWorker(b *testing.B) {
	n := serve(b, Config{})
	connect(b, n.address, slotsVariable+"=512")
	n.up(b, 1)
	benchmarks(b, n)
}

func BenchmarkPlugin(b *testing.B) {
	h, err := plugins.Start(b.Context(), plugins.Config{Name: "plugin", Command: []string{executable(b)}, Env: []string{actAs + "=plugin"}, Slots: 512})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = h.Close(context.Background()) })
	benchmarks(b, h)
}

func benchmarks(b *testing.B, h task.Handler) {
	b.Run("many", func(b *testing.B) { benchmark(b, h, 512) })
	b.Run("alone", func(b *testing.B) { benchmark(b, h, 1) })
}

func benchmark(b *testing.B, h task.Handler, inFlight int) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	for range inFlight {
		wg.Go(func() {
			for next.Add(1) <= int64(b.N) {
				t := &task.Task{ID: task.ID{1}, Version: 2, Type: "noop", Attempt: 1, Payload: make([]byte, 64)}
				if _, err := h.Handle(ctx, t); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
}
