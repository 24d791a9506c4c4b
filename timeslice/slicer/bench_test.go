package slicer_test

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
	"github.com/taskengine/taskengine/storage/pebble"
	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/timeslice"
	"github.com/taskengine/taskengine/timeslice/slicer"
)

// BenchmarkPlatforms has 10,000 platforms fetch a slice each in every iteration, which takes a minute: on one node, with pebble. With
// "starts" the platforms start at different seconds. Otherwise all slices end at once, and are due within the spread in the name. It
// reports how late attempts begin, the part of a processor and the memory that is used.
func BenchmarkPlatforms(b *testing.B) {
	for _, spread := range []time.Duration{6 * time.Second, 0} { // the usual one, and none
		b.Run(fmt.Sprint("spread=", spread), func(b *testing.B) { benchmarkPlatforms(b, spread, false) })
	}
	b.Run("starts", func(b *testing.B) { benchmarkPlatforms(b, 0, true) })
}

func benchmarkPlatforms(b *testing.B, spread time.Duration, differ bool) {
	const platforms = 10_000
	begin := time.Now().Add(10 * time.Second).Truncate(time.Second)
	interval, spreadOf, max := timeslice.Span(time.Minute), timeslice.Span(spread), 100
	d := timeslice.Definition{Type: "fetch", Values: timeslice.Values{Interval: &interval, Spread: &spreadOf, MaxOpen: &max}, Platforms: make(map[string]timeslice.Values)}
	for i := range platforms {
		start := begin.Add(-time.Minute)
		if differ {
			start = start.Add(time.Duration(i) * time.Minute / platforms).Truncate(time.Millisecond)
		}
		d.Platforms[fmt.Sprint("p", i)] = timeslice.Values{Start: &start}
	}
	var mu sync.Mutex
	var late []time.Duration
	sources, err := slicer.New(slicer.Config{Sources: map[string]timeslice.Definition{"orders": d}})
	if err != nil {
		b.Fatal(err)
	}
	handlers, set := sources.Handlers(), policy.Set{Types: sources.Policies()}
	set.Types["fetch"] = slicer.SlicePolicy(policy.DefaultType())
	handlers["fetch"] = slicer.Handler(task.HandlerFunc(func(_ context.Context, t *task.Task) ([]byte, error) {
		w, _, err := timeslice.WorkOf(t)
		due := w.End.Add(timeslice.Platform{Source: w.Source, Name: w.Platform}.Delay(spread))
		mu.Lock()
		late = append(late, time.Since(due))
		mu.Unlock()
		return nil, err
	}))
	store, err := pebble.Open(b.TempDir(), pebble.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	e, err := engine.Open(b.Context(), engine.Config{Store: store, Handlers: handlers, Policies: set})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close(context.WithoutCancel(b.Context()))
	if err := sources.Apply(b.Context(), e); err != nil {
		b.Fatal(err)
	}
	time.Sleep(time.Until(begin.Add(30 * time.Second)))
	mu.Lock()
	late = nil
	mu.Unlock()
	before := processorTime(b)
	b.ResetTimer()
	time.Sleep(time.Duration(b.N) * time.Minute)
	used := processorTime(b) - before
	mu.Lock()
	defer mu.Unlock()
	slices.Sort(late)
	if n := len(late); n > 0 {
		b.ReportMetric(float64(n)/float64(b.N), "slices/op")
		b.ReportMetric(float64(late[n/2].Microseconds())/1000, "p50-late-ms")
		b.ReportMetric(float64(late[n*99/100].Microseconds())/1000, "p99-late-ms")
		b.ReportMetric(float64(late[n-1].Microseconds())/1000, "max-late-ms")
	}
	b.ReportMetric(used.Seconds()/b.Elapsed().Seconds(), "processors")
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	b.ReportMetric(float64(memory.Sys-memory.HeapReleased)/(1<<20), "MiB") // of Go, without released memory
}

func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
