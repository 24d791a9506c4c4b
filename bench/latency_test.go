package bench

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/internal/machine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// BenchmarkLatency submits 1000 tasks in a second, each at its time and in its own
// goroutine, independently of the others, so that no delay hides another:
//
//   - grab: trigger-to-grab, from when the task's row is durable to the call of its
//     handler;
//   - start: insert-to-start, from the call of Submit to the call of the handler;
//   - pacing: how late Submit was called, because of the timers and the scheduler.
//
// sync is the median of writing and syncing one block before and after, in the same
// run. Run it with -benchtime 10000x or more.
func BenchmarkLatency(b *testing.B) {
	for _, s := range stores {
		b.Run("store="+s.name+"/slots=free", func(b *testing.B) {
			store := openStore(b, s.open)
			before := syncTime(b)
			watch := newRecords(time.Now())
			watch.reserve(b.N)
			e, err := engine.Open(b.Context(), engine.Config{
				Store: store, Policies: types(), Handlers: map[string]task.Handler{"noop": noop},
				Observer: engine.Observer{
					Inserted: func(_ time.Time, t *task.Task) { watch.of(t.ID).durable = watch.since(time.Now()) },
					Started:  func(_ time.Time, t *task.Task) { watch.of(t.ID).started = watch.since(time.Now()) },
				},
			})
			if err != nil {
				b.Fatal(err)
			}
			defer e.Close(context.Background())
			openLoop(b, e, watch)
			if err := e.WaitType(context.Background(), "noop"); err != nil {
				b.Fatal(err)
			}
			sync := (before + syncTime(b)) / 2
			var grab, start, pacing []time.Duration
			for _, r := range watch.all {
				grab = append(grab, time.Duration(r.started-r.durable))
				start = append(start, time.Duration(r.started-r.called))
				pacing = append(pacing, time.Duration(r.called-r.intended))
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(sync.Nanoseconds())/1000, "sync-us")
			b.ReportMetric(float64(quantile(grab, 0.5).Nanoseconds())/1000, "grab-p50-us")
			b.ReportMetric(float64(quantile(grab, 0.99).Nanoseconds())/1000, "grab-p99-us")
			b.ReportMetric(float64(quantile(start, 0.5).Nanoseconds())/1000, "start-p50-us")
			b.ReportMetric(float64(quantile(start, 0.99).Nanoseconds())/1000, "start-p99-us")
			b.ReportMetric(float64(quantile(start, 0.5))/float64(sync), "start-p50/sync")
			b.ReportMetric(float64(quantile(pacing, 0.5).Nanoseconds())/1000, "pacing-p50-us")
			b.ReportMetric(float64(quantile(pacing, 0.99).Nanoseconds())/1000, "pacing-p99-us")
		})
		b.Run("store="+s.name+"/slots=busy", func(b *testing.B) { handOver(b, openStore(b, s.open)) })
	}
}

// handOver measures the time from the end of a handler to the start of the next, with one slot for
// which a task always waits.
func handOver(b *testing.B, store storage.Store) {
	before := syncTime(b)
	var ended time.Time
	var gaps []time.Duration
	set := policy.Set{Slots: 1, Types: map[string]policy.Type{"short": policy.DefaultType()}}
	e, err := engine.Open(b.Context(), engine.Config{
		Store: store, Policies: set,
		Handlers: map[string]task.Handler{"short": task.HandlerFunc(func(context.Context, *task.Task) ([]byte, error) {
			if !ended.IsZero() {
				gaps = append(gaps, time.Since(ended))
			}
			time.Sleep(200 * time.Microsecond)
			ended = time.Now()
			return nil, nil
		})},
	})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close(context.Background())
	reqs := make([]engine.Request, b.N)
	for i := range reqs {
		reqs[i] = engine.Request{Type: "short"}
	}
	if _, err := e.Submit(b.Context(), reqs...); err != nil {
		b.Fatal(err)
	}
	if err := e.WaitType(context.Background(), "short"); err != nil {
		b.Fatal(err)
	}
	sync := (before + syncTime(b)) / 2
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(sync.Nanoseconds())/1000, "sync-us")
	b.ReportMetric(float64(quantile(gaps, 0.5).Nanoseconds())/1000, "gap-p50-us")
	b.ReportMetric(float64(quantile(gaps, 0.99).Nanoseconds())/1000, "gap-p99-us")
	b.ReportMetric(float64(quantile(gaps, 0.5))/float64(sync), "gap-p50/sync")
}

// openLoop submits one task every millisecond; a submit that is late does not delay the others.
func openLoop(b *testing.B, e *engine.Engine, watch *records) {
	const interval = time.Millisecond
	payload := make([]byte, payloadSize)
	var wg sync.WaitGroup
	began := time.Now()
	for i := range b.N {
		due := began.Add(time.Duration(i) * interval)
		for left := time.Until(due); left > 0; left = time.Until(due) {
			machine.Pause(left)
		}
		number, r := watch.add()
		r.id, r.intended = watch.newID(number, due), watch.since(due)
		wg.Go(func() {
			r.called = watch.since(time.Now())
			if _, err := e.Submit(context.Background(), engine.Request{ID: r.id, Type: "noop", Payload: payload}); err != nil {
				b.Error(err)
			}
		})
	}
	wg.Wait()
}
