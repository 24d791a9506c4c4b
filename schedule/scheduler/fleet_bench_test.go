package scheduler_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/schedule"
	"github.com/taskengine/taskengine/schedule/scheduler"
	"github.com/taskengine/taskengine/storage/pebble"
	"github.com/taskengine/taskengine/task"
)

// applyCron applies schedules with the same expression, five for each tenant, 100 with each call as a client does, from four
// clients at the same time.
func applyCron(b *testing.B, s scheduler.Schedules, n int, cron string) {
	const clients, part = 4, 100
	failed := make(chan error, clients)
	for c := range clients {
		go func() {
			for from := c * part; from < n; from += clients * part {
				var some []scheduler.Wanted
				for i := from; i < min(from+part, n); i++ {
					some = append(some, scheduler.Wanted{Name: fmt.Sprintf("tenant-%05d/%d", i/5, i%5), Definition: schedule.Definition{
						Cron: cron, TimeZone: "Europe/Berlin", Task: schedule.Template{Type: "report", Payload: `{"day": "{{date}}"}`},
					}})
				}
				done, err := s.ApplyAll(context.Background(), some)
				for _, d := range done {
					if d.Err != nil {
						err = d.Err
					}
				}
				if err != nil {
					failed <- err
					return
				}
			}
			failed <- nil
		}()
	}
	for range clients {
		if err := <-failed; err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSameMoment measures how late the tasks of 10,000 schedules begin that have the same expression, such as one for midnight.
// Use -benchtime 1x.
func BenchmarkSameMoment(b *testing.B) {
	const n = 10_000
	for b.Loop() {
		late := new(lateness)
		e := onPebble(b, late)
		at := time.Now().Add(time.Minute).Truncate(time.Minute).Add(time.Minute)
		applyCron(b, scheduler.Of(e), n, fmt.Sprintf("%d %d * * *", at.Minute(), at.In(berlin(b)).Hour()))
		if time.Now().After(at) {
			b.Fatal("the machine is too slow for this benchmark")
		}
		late.await(b, n, at)
	}
}

func berlin(b *testing.B) *time.Location {
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		b.Fatal(err)
	}
	return zone
}

// BenchmarkFleet measures 50,000 schedules that do not fire on a node with pebble: how fast they are applied, read, paused and
// resumed, how long the node takes to start, and its memory. Use -benchtime 1x.
func BenchmarkFleet(b *testing.B) {
	const n = 50_000
	for b.Loop() {
		dir := b.TempDir()
		before := heap()
		e, shutAll := openAt(b, dir)
		s := scheduler.Of(e)
		took := func(name string, scale time.Duration, fn func()) {
			begin := time.Now()
			fn()
			b.ReportMetric(float64(time.Since(begin))/float64(scale), name)
		}
		begin := time.Now()
		applyCron(b, s, n, "0 0 29 2 *")
		b.ReportMetric(n/time.Since(begin).Seconds(), "applied/s")
		time.Sleep(10 * time.Second) // their first runs, which are at once
		b.ReportMetric(float64(heap()-before)/(1<<20), "MiB")
		start := cpu(b)
		time.Sleep(10 * time.Second)
		b.ReportMetric(float64((cpu(b)-start).Microseconds())/10_000, "ms-CPU/s")
		list := func(q scheduler.Query, after string, want int) func() {
			return func() {
				if page, _, err := s.List(b.Context(), q, after, 100); err != nil || len(page) != want {
					b.Fatalf("a page of %d: %v", len(page), err)
				}
			}
		}
		took("ms-first-page", time.Millisecond, list(scheduler.Query{}, "", 100))
		took("ms-tenant", time.Millisecond, list(scheduler.Query{Prefix: "tenant-07777/"}, "", 5))
		change := func(v scheduler.Verb) func() {
			return func() {
				for after := ""; ; {
					c, err := s.ChangeAll(b.Context(), v, "tenant-0", after, 1000, false)
					if err != nil || len(c.Failed) > 0 {
						b.Fatal(c, err)
					}
					if after = c.Next; after == "" {
						return
					}
				}
			}
		}
		took("s-pause-all", time.Second, change(scheduler.Pausing("benchmark")))
		took("s-resume-all", time.Second, change(scheduler.Resuming()))
		shutAll()
		took("s-restart", time.Second, func() {
			e, shutAll = openAt(b, dir)
			if _, err := scheduler.Of(e).Get(b.Context(), "tenant-00000/0"); err != nil {
				b.Fatal(err)
			}
		})
		shutAll()
	}
}

// openAt starts an engine on the pebble in a folder.
func openAt(b *testing.B, dir string) (e *engine.Engine, shutAll func()) {
	store, err := pebble.Open(dir, pebble.Options{})
	if err != nil {
		b.Fatal(err)
	}
	e, err = engine.Open(b.Context(), engine.Config{
		Store: store, Policies: policy.Set{Types: map[string]policy.Type{"report": policy.DefaultType(), schedule.Type: scheduler.TypePolicy()}},
		Handlers: map[string]task.Handler{"report": new(lateness), schedule.Type: scheduler.Handler},
	})
	if err != nil {
		b.Fatal(err)
	}
	return e, func() {
		shut(b, e)
		if err := store.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
