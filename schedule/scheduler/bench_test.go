package scheduler_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/schedule"
	"github.com/taskengine/taskengine/schedule/scheduler"
	"github.com/taskengine/taskengine/storage/pebble"
	"github.com/taskengine/taskengine/task"
)

// manySchedules is the number of schedules of the benchmarks.
const manySchedules = 100_000

// lateness notes how late tasks begin. It is safe for concurrent use.
type lateness struct {
	mu   sync.Mutex
	late []time.Duration // guarded by mu
	last time.Time       // guarded by mu: when the newest began
}

// Handle implements [task.Handler].
func (l *lateness) Handle(_ context.Context, t *task.Task) ([]byte, error) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.late, l.last = append(l.late, now.Sub(t.ReadyAt)), now
	return nil, nil
}

// await waits until as many tasks have begun, and reports when the last one did, and the percentiles.
func (l *lateness) await(b *testing.B, tasks int, from time.Time) {
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		l.mu.Lock()
		n := len(l.late)
		l.mu.Unlock()
		if n >= tasks {
			break
		}
		if time.Since(begin) > 5*time.Minute {
			b.Fatalf("%d of %d tasks have begun", n, tasks)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	slices.Sort(l.late)
	b.ReportMetric(l.last.Sub(from).Seconds(), "s-until-all-run")
	b.ReportMetric(float64(l.late[len(l.late)/2].Microseconds())/1000, "p50-late-ms")
	b.ReportMetric(float64(l.late[len(l.late)*99/100].Microseconds())/1000, "p99-late-ms")
}

// onPebble starts an engine on pebble that runs schedules and tasks of type report.
func onPebble(b *testing.B, h task.Handler) *engine.Engine {
	store, err := pebble.Open(b.TempDir(), pebble.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = store.Close() })
	report := policy.DefaultType()
	report.Retention = policy.Retention{}
	e, err := engine.Open(b.Context(), engine.Config{
		Store: store, Policies: policy.Set{Types: map[string]policy.Type{"report": report, schedule.Type: scheduler.TypePolicy()}},
		Handlers: map[string]task.Handler{"report": h, schedule.Type: scheduler.Handler},
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { shut(b, e) })
	return e
}

// applyMany makes schedules that fire every hour, the first time at first and then spread over a time.
func applyMany(b *testing.B, e *engine.Engine, first time.Time, spread time.Duration) {
	s := scheduler.Of(e)
	work := make(chan int)
	var all sync.WaitGroup
	for range 256 {
		all.Go(func() {
			for i := range work {
				d := schedule.Definition{
					Every: time.Hour, Anchor: first.Add(time.Duration(i) * spread / manySchedules), Start: first,
					Task: schedule.Template{Type: "report", Payload: `{"day": "{{date}}"}`},
				}
				if _, err := s.Apply(context.Background(), fmt.Sprint("schedule-", i), d); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for i := range manySchedules {
		work <- i
	}
	close(work)
	all.Wait()
}

// BenchmarkFires measures how late the tasks of 100,000 schedules begin that fire in the same second, or within ten. Use
// -benchtime 1x.
func BenchmarkFires(b *testing.B) {
	for _, spread := range []time.Duration{time.Second, 10 * time.Second} {
		b.Run(fmt.Sprint("within=", spread), func(b *testing.B) {
			for b.Loop() {
				late := new(lateness)
				e := onPebble(b, late)
				first := time.Now().Add(40 * time.Second).Truncate(time.Second)
				applyMany(b, e, first, spread)
				if time.Now().After(first) {
					b.Fatal("the machine is too slow for this benchmark")
				}
				late.await(b, manySchedules, first)
			}
		})
	}
}

// BenchmarkIdleSchedules measures the cost of 100,000 schedules that do not fire: memory of the process in addition to an
// engine without schedules, and CPU time for each second. Use -benchtime 1x.
func BenchmarkIdleSchedules(b *testing.B) {
	for b.Loop() {
		e := onPebble(b, new(lateness))
		before := heap()
		applyMany(b, e, time.Now().Add(24*time.Hour), time.Hour)
		time.Sleep(5 * time.Second) // their first runs, which are at once
		b.ReportMetric(float64(heap()-before)/(1<<20), "MiB")
		start := cpu(b)
		time.Sleep(10 * time.Second)
		b.ReportMetric(float64((cpu(b)-start).Microseconds())/10_000, "ms-CPU/s")
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
