//go:build !race

package slicer_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/pebble"
	"github.com/taskengine/taskengine/storage/postgres/postgrestest"
	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/timeslice"
	"github.com/taskengine/taskengine/timeslice/slicer"
)

// BenchmarkCursor measures a run of the cursor of a platform that has so many open slices: with an order in each iteration, from the call
// until it is carried out.
func BenchmarkCursor(b *testing.B) {
	for _, store := range []string{"pebble", "postgres"} {
		for _, open := range []int{1, 64, 500} {
			b.Run(fmt.Sprintf("%s/open=%d", store, open), func(b *testing.B) { benchmarkCursor(b, store, open) })
		}
	}
}

func benchmarkCursor(b *testing.B, kind string, open int) {
	var store storage.Store
	if kind == "pebble" {
		s, err := pebble.Open(b.TempDir(), pebble.Options{})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = s.Close() })
		store = s
	} else {
		server, err := pgtest.Start()
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = server.Close() })
		store = postgrestest.Open(b, server.Database(b))
	}
	interval, start := timeslice.Span(time.Minute), time.Now().Add(-1000*time.Minute)
	sources, err := slicer.New(slicer.Config{Sources: map[string]timeslice.Definition{"orders": {
		Type: "fetch", Values: timeslice.Values{Interval: &interval, Start: &start, MaxOpen: &open}, Platforms: map[string]timeslice.Values{"a": {}},
	}}})
	if err != nil {
		b.Fatal(err)
	}
	ended := make(chan struct{})
	handlers, set := sources.Handlers(), policy.Set{Types: sources.Policies()}
	set.Types["fetch"] = slicer.SlicePolicy(policy.DefaultType())
	handlers["fetch"] = slicer.Handler(task.HandlerFunc(func(ctx context.Context, _ *task.Task) ([]byte, error) {
		select {
		case <-ended:
		case <-ctx.Done():
		}
		return nil, ctx.Err()
	}))
	e, err := engine.Open(b.Context(), engine.Config{Store: store, Handlers: handlers, Policies: set})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close(context.WithoutCancel(b.Context()))
	defer close(ended)
	if err := sources.Apply(b.Context(), e); err != nil {
		b.Fatal(err)
	}
	p := timeslice.Platform{Source: "orders", Name: "a"}
	await := func(is func(*slicer.Status) bool) {
		for {
			s, err := sources.Get(b.Context(), e, p)
			if err == nil && is(s) {
				return
			}
			time.Sleep(100 * time.Microsecond)
		}
	}
	await(func(s *slicer.Status) bool { return len(s.State.Open) == open })
	b.ResetTimer()
	for i := range b.N {
		if err := sources.Set(b.Context(), e, p, map[string]string{"probe": fmt.Sprint(60+i%100, "s")}, slicer.By{}); err != nil {
			b.Fatal(err)
		}
		await(func(s *slicer.Status) bool { return len(s.State.Orders) == 0 })
	}
}
