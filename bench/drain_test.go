package bench

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/internal/machine"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// BenchmarkDrain measures how fast a backlog that does not fit into memory is finished: b.N tasks of a
// paused type, from the moment at which the type is resumed.
func BenchmarkDrain(b *testing.B) {
	benchmarkBacklog(b, func(b *testing.B, e *engine.Engine) (release func() error) {
		fillPaused(b, e, b.N)
		return func() error { return e.Unpause(b.Context(), "paused") }
	})
}

// BenchmarkDue measures how fast b.N tasks that are due at the same moment are finished.
func BenchmarkDue(b *testing.B) {
	benchmarkBacklog(b, func(b *testing.B, e *engine.Engine) (release func() error) {
		const enough = 20 * time.Microsecond // to submit each
		due := time.Now().Add(time.Second + time.Duration(b.N)*enough)
		payload := make([]byte, payloadSize)
		const page = 500
		for n := 0; n < b.N; n += page {
			reqs := make([]engine.Request, min(page, b.N-n))
			for i := range reqs {
				reqs[i] = engine.Request{Type: "noop", Payload: payload, At: due}
			}
			if _, err := e.Submit(b.Context(), reqs...); err != nil {
				b.Fatal(err)
			}
		}
		machine.Pause(time.Until(due))
		return func() error { return nil } // they are due
	})
}

// benchmarkBacklog measures on every store how fast the b.N tasks that fill has submitted are finished,
// from release until the last one is done.
func benchmarkBacklog(b *testing.B, fill func(b *testing.B, e *engine.Engine) (release func() error)) {
	for _, s := range stores {
		b.Run("store="+s.name, func(b *testing.B) {
			e, over := drained(b, s.open)
			release := fill(b, e)
			b.ReportAllocs()
			b.ResetTimer()
			used := cpuTime(b)
			if err := release(); err != nil {
				b.Fatal(err)
			}
			<-over
			b.StopTimer()
			report(b, used)
		})
	}
}

// BenchmarkOffered measures the throughput when more is offered than possible: b.N tasks at 60 000 a
// second, each submitted by a goroutine of its own, independently of the others.
func BenchmarkOffered(b *testing.B) {
	for _, s := range stores {
		b.Run("store="+s.name, func(b *testing.B) {
			e, over := drained(b, s.open)
			payload := make([]byte, payloadSize)
			var submits sync.WaitGroup
			used, began := cpuTime(b), time.Now()
			b.ResetTimer()
			for n := 0; n < b.N; {
				const rate = 60_000
				for due := int(time.Since(began).Seconds() * rate); n < min(due, b.N); n++ {
					submits.Go(func() {
						if _, err := e.Submit(context.Background(), engine.Request{Type: "noop", Payload: payload}); err != nil {
							b.Error(err)
						}
					})
				}
				machine.Pause(200 * time.Microsecond)
			}
			submits.Wait()
			<-over
			b.StopTimer()
			report(b, used)
		})
	}
}

// drained returns an engine, and a channel that is closed when b.N tasks are done.
func drained(b *testing.B, open func(dir string) (storage.Store, error)) (e *engine.Engine, over chan struct{}) {
	over = make(chan struct{})
	var ended atomic.Int64
	e, err := engine.Open(b.Context(), engine.Config{
		Store: openStore(b, open), Policies: types(), Handlers: map[string]task.Handler{"noop": noop, "paused": noop},
		Observer: engine.Observer{Saved: func(_ time.Time, _ task.Ref, t *task.Task) {
			if t != nil && t.State == task.Done && ended.Add(1) == int64(b.N) {
				close(over)
			}
		}},
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { e.Close(context.Background()) })
	return e, over
}
