package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// BenchmarkWaits has b.N tasks wait for a signal, with and without an end of the wait, and measures in this order:
//
//   - begin: how many waits begin in a second, from submit to the end of the first attempt;
//   - heap: by how much the live heap has grown then, with the caches of the store;
//   - idle: the CPU time of the process in a second, in ten seconds without a signal, and idle-empty: the same before there
//     are tasks;
//   - signals: how many of the tasks, in random order, get their signal, run again and are done in a second, with at most
//     1024 under way, and wake: the time from the call of Signal to the call of the handler;
//   - wake-1000: the same time at 1000 signals in a second, which the last 10,000 tasks get.
func BenchmarkWaits(b *testing.B) {
	for _, s := range stores {
		for _, end := range []time.Duration{0, 30 * 24 * time.Hour} {
			b.Run(fmt.Sprintf("store=%s/end=%t", s.name, end > 0), func(b *testing.B) { waits(b, openStore(b, s.open), end) })
		}
	}
}

// waiting is the state of a benchmark of waits.
type waiting struct {
	*engine.Engine
	ids    []task.ID
	at     []atomic.Int64 // when the task's signal was sent, in nanoseconds since start
	wakes  []atomic.Int64 // how long it took until the task ran, in nanoseconds
	number map[task.ID]int
	start  time.Time
	tokens chan struct{} // holds one for each task under way
}

func waits(b *testing.B, store storage.Store, end time.Duration) {
	w := &waiting{
		ids: make([]task.ID, b.N), at: make([]atomic.Int64, b.N), wakes: make([]atomic.Int64, b.N), number: make(map[task.ID]int, b.N),
		start: time.Now(), tokens: make(chan struct{}, inFlight),
	}
	ids := task.NewIDs([32]byte{1})
	for i := range w.ids {
		w.ids[i] = ids.Next(w.start)
		w.number[w.ids[i]] = i
	}
	var err error
	w.Engine, err = engine.Open(b.Context(), engine.Config{
		Store: store, Policies: policy.Set{Slots: inFlight, Types: map[string]policy.Type{"wait": policy.DefaultType()}},
		Handlers: map[string]task.Handler{"wait": task.HandlerFunc(func(_ context.Context, t *task.Task) ([]byte, error) { return w.handle(t, end) })},
		Observer: engine.Observer{Saved: func(time.Time, task.Ref, *task.Task) { <-w.tokens }},
	})
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close(context.Background())
	empty := w.idle(b)
	heap := liveHeap()
	begin := w.all(b, 0, b.N, func(ctx context.Context, i int) error {
		_, err := w.Submit(ctx, engine.Request{ID: w.ids[i], Type: "wait"})
		return err
	})
	heap = liveHeap() - heap
	idle := w.idle(b)

	order, last := rand.Perm(b.N), min(b.N/2, 10_000)
	signal := func(ctx context.Context, i int) error {
		n := order[i]
		w.at[n].Store(int64(time.Since(w.start)))
		_, _, err := w.Signal(ctx, engine.Signal{To: w.ids[n], Name: "go", Data: []byte("data")})
		return err
	}
	signals := w.all(b, 0, b.N-last, signal)
	b.ReportMetric(begin, "begin/s")
	b.ReportMetric(float64(heap)/1e6, "heap-MB")
	b.ReportMetric(empty, "idle-empty-cpu-us/s")
	b.ReportMetric(idle, "idle-cpu-us/s")
	b.ReportMetric(signals, "signals/s")
	w.report(b, "wake", order[:b.N-last])
	w.paced(b, b.N-last, b.N, signal)
	w.report(b, "wake-1000", order[b.N-last:])
	b.ReportMetric(0, "ns/op")
}

// idle returns the CPU time of the process in a second, in microseconds.
func (w *waiting) idle(b *testing.B) float64 {
	if b.N == 1 {
		return 0 // a run that only looks for the number of tasks
	}
	const seconds = 10
	used := cpuTime(b)
	time.Sleep(seconds * time.Second)
	return float64((cpuTime(b) - used).Microseconds()) / seconds
}

func (w *waiting) handle(t *task.Task, end time.Duration) ([]byte, error) {
	if t.Woken().By == task.BySignal {
		n := w.number[t.ID]
		w.wakes[n].Store(int64(time.Since(w.start)) - w.at[n].Load())
		return nil, nil
	}
	var until time.Time
	if end > 0 {
		until = time.Now().Add(end)
	}
	return nil, task.WaitFor([]string{"go"}, until)
}

// all calls fn for all numbers from first to last by 512 goroutines, and returns how many tasks have ended an attempt in a
// second.
func (w *waiting) all(b *testing.B, first, last int, fn func(context.Context, int) error) (rate float64) {
	start, next := time.Now(), atomic.Int64{}
	next.Store(int64(first))
	var wg sync.WaitGroup
	for range submitters {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < last; i = int(next.Add(1)) - 1 {
				w.tokens <- struct{}{}
				if err := fn(b.Context(), i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	w.drain()
	return float64(last-first) / time.Since(start).Seconds()
}

// drain waits until no task is under way.
func (w *waiting) drain() {
	for range inFlight {
		w.tokens <- struct{}{}
	}
	for range inFlight {
		<-w.tokens
	}
}

// paced calls fn 1000 times in a second, each in a goroutine of its own.
func (w *waiting) paced(b *testing.B, first, last int, fn func(context.Context, int) error) {
	start := time.Now()
	var wg sync.WaitGroup
	for i := first; i < last; i++ {
		time.Sleep(time.Until(start.Add(time.Duration(i-first) * time.Millisecond)))
		w.tokens <- struct{}{}
		wg.Go(func() {
			if err := fn(b.Context(), i); err != nil {
				b.Error(err)
			}
		})
	}
	wg.Wait()
	w.drain()
}

func (w *waiting) report(b *testing.B, name string, numbers []int) {
	times := make([]time.Duration, 0, len(numbers))
	for _, n := range numbers {
		times = append(times, time.Duration(w.wakes[n].Load()))
	}
	if len(times) > 0 {
		b.ReportMetric(float64(quantile(times, 0.5).Microseconds()), name+"-p50-us")
		b.ReportMetric(float64(quantile(times, 0.99).Microseconds()), name+"-p99-us")
	}
}

// liveHeap returns the bytes that are in use after a collection of garbage.
func liveHeap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
