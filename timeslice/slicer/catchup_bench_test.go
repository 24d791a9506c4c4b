package slicer_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/pebble"
	"github.com/taskengine/taskengine/storage/postgres"
	"github.com/taskengine/taskengine/storage/postgres/schema"
	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/timeslice"
	"github.com/taskengine/taskengine/timeslice/slicer"
)

// BenchmarkCatchUp has 100 platforms catch up with a day of slices of a minute, at the limit of their threads: two each, and an attempt takes
// 100 ms. At the same time another source has 100 platforms with slices of a second, and tasks of another type are submitted, one each
// 10 ms. It reports how late attempts of these begin, in the 20 seconds before the catching up and during it.
func BenchmarkCatchUp(b *testing.B) {
	stores := map[string]func(b *testing.B) storage.Store{"pebble": openPebble, "postgres": openPostgres}
	for _, name := range []string{"pebble", "postgres"} {
		for _, longest := range []time.Duration{time.Minute, 10 * time.Minute, time.Hour} {
			b.Run(fmt.Sprintf("%s/catch_up_interval=%v", name, longest), func(b *testing.B) {
				for range b.N {
					catchUp(b, stores[name](b), longest)
				}
			})
		}
	}
}

func openPebble(b *testing.B) storage.Store {
	s, err := pebble.Open(b.TempDir(), pebble.Options{})
	if err != nil {
		b.Fatal(err)
	}
	return s
}

func openPostgres(b *testing.B) storage.Store {
	server, err := pgtest.Start("shared_buffers=256MB", "max_wal_size=4GB")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = server.Close() })
	url := server.Database(b)
	if _, err := schema.Migrate(b.Context(), url, schema.Default); err != nil {
		b.Fatal(err)
	}
	s, err := postgres.Open(b.Context(), url, postgres.Options{})
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// delays are how late attempts have begun, by what they are. They are safe for concurrent use.
type delays struct {
	mu  sync.Mutex
	all map[string][]time.Duration // guarded by mu
}

func (d *delays) add(what string, late time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all[what] = append(d.all[what], late)
}

func (d *delays) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.all)
}

// report reports the delays so far, and forgets them.
func (d *delays) report(b *testing.B, phase string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for what, all := range d.all {
		slices.Sort(all)
		if n := len(all); n > 0 {
			b.ReportMetric(float64(all[n/2].Microseconds())/1000, phase+"-"+what+"-p50-ms")
			b.ReportMetric(float64(all[n*99/100].Microseconds())/1000, phase+"-"+what+"-p99-ms")
		}
	}
	clear(d.all)
}

const day = 24 * time.Hour

func catchUp(b *testing.B, store storage.Store, longest time.Duration) {
	const platforms = 100
	span := func(d time.Duration) *timeslice.Span { return new(timeslice.Span(d)) }
	behind := timeslice.Definition{Type: "fetch", Values: timeslice.Values{Interval: span(time.Minute), CatchUp: span(longest)}, Platforms: make(map[string]timeslice.Values)}
	other := timeslice.Definition{Type: "other", Values: timeslice.Values{Interval: span(time.Second), Spread: span(time.Second)}, Platforms: make(map[string]timeslice.Values)}
	for i := range platforms {
		behind.Platforms[fmt.Sprint("p", i)], other.Platforms[fmt.Sprint("p", i)] = timeslice.Values{}, timeslice.Values{}
	}
	sources, err := slicer.New(slicer.Config{Sources: map[string]timeslice.Definition{"orders": behind, "other": other}})
	if err != nil {
		b.Fatal(err)
	}
	late := &delays{all: make(map[string][]time.Duration)}
	var mu sync.Mutex
	var fetched time.Duration // guarded by mu
	var n int                 // guarded by mu
	done := make(chan struct{})
	handlers, set := sources.Handlers(), policy.Set{Types: sources.Policies()}
	_, threads := timeslice.ThreadsLimits("orders")
	set.Limits = map[string]policy.Limit{threads: {Name: threads, Per: "headers." + timeslice.Header, Max: 2, Cluster: true}}
	fetch := slicer.SlicePolicy(policy.DefaultType())
	fetch.Limits = []string{threads}
	set.Types["fetch"], set.Types["other"], set.Types["ping"] = fetch, slicer.SlicePolicy(policy.DefaultType()), policy.DefaultType()
	handlers["fetch"] = slicer.Handler(task.HandlerFunc(func(_ context.Context, t *task.Task) ([]byte, error) {
		time.Sleep(100 * time.Millisecond)
		w, _, err := timeslice.WorkOf(t)
		mu.Lock()
		defer mu.Unlock()
		if before := fetched; before < platforms*day {
			n++
			if fetched += w.End.Sub(w.Start); fetched >= platforms*day {
				close(done)
			}
		}
		return nil, err
	}))
	handlers["other"] = slicer.Handler(task.HandlerFunc(func(_ context.Context, t *task.Task) ([]byte, error) {
		w, _, err := timeslice.WorkOf(t)
		late.add("slice", time.Since(w.End.Add(timeslice.Platform{Source: w.Source, Name: w.Platform}.Delay(time.Second))))
		return nil, err
	}))
	handlers["ping"] = task.HandlerFunc(func(_ context.Context, t *task.Task) ([]byte, error) {
		late.add("task", time.Since(t.CreatedAt))
		return nil, nil
	})
	e, err := engine.Open(b.Context(), engine.Config{Store: store, Handlers: handlers, Policies: set})
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		_ = e.Close(context.WithoutCancel(b.Context()))
		_ = store.Close()
	}()
	if err := sources.Apply(b.Context(), e); err != nil {
		b.Fatal(err)
	}
	time.Sleep(5 * time.Second)
	submitting, stop := context.WithCancel(b.Context())
	var submits sync.WaitGroup
	submits.Go(func() { submitPings(submitting, e) })
	defer submits.Wait()
	defer stop()
	late.forget()
	time.Sleep(20 * time.Second)
	late.report(b, "before")
	mu.Lock()
	fetched, n = 0, 0
	mu.Unlock()
	begin, used := time.Now(), processorTime(b)
	for i := range platforms {
		p := timeslice.Platform{Source: "orders", Name: fmt.Sprint("p", i)}
		if err := sources.Reset(b.Context(), e, p, time.Time{}, begin.Add(-day).Truncate(time.Minute), slicer.By{}); err != nil {
			b.Fatal(err)
		}
	}
	<-done
	took := time.Since(begin)
	late.report(b, "during")
	mu.Lock()
	defer mu.Unlock()
	b.ReportMetric(took.Seconds(), "catch-up-s")
	b.ReportMetric(float64(n), "slices")
	b.ReportMetric((processorTime(b)-used).Seconds()/took.Seconds(), "processors")
}

// submitPings submits a task of the type ping each 10 ms.
func submitPings(ctx context.Context, e *engine.Engine) {
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			go func() { _, _ = e.Submit(ctx, engine.Request{Type: "ping"}) }()
		case <-ctx.Done():
			return
		}
	}
}
