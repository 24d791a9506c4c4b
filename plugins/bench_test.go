package plugins

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine/task"
)

// BenchmarkGo measures tasks per second through one Go process, many at once.
func BenchmarkGo(b *testing.B) {
	c := self(b, "handlers")
	c.Slots = 512
	benchmark(b, start(b, c), "noop", 512)
}

// BenchmarkGoAlone measures one task after the other: the latency of the way.
func BenchmarkGoAlone(b *testing.B) {
	benchmark(b, start(b, self(b, "handlers")), "noop", 1)
}

func benchmark(b *testing.B, h *Host, typ string, inFlight int) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	for range inFlight {
		wg.Go(func() {
			for next.Add(1) <= int64(b.N) {
				t := &task.Task{ID: task.ID{1}, Version: 2, Type: typ, Attempt: 1, Payload: make([]byte, 64)}
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

// BenchmarkPython measures tasks per second through one Python process, many at once.
func BenchmarkPython(b *testing.B) {
	for _, slots := range []int{16, 64, 512} {
		b.Run(fmt.Sprintf("slots=%d", slots), func(b *testing.B) {
			c := python(b)
			c.Slots = slots
			benchmark(b, start(b, c), "noop", 512)
		})
	}
}
