package bench

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/engine/task"
)

// BenchmarkDrain measures how fast a backlog is worked off that does not fit into memory:
// b.N tasks of a paused type, from the moment that it goes on.
func BenchmarkDrain(b *testing.B) {
	for _, s := range stores {
		b.Run("store="+s.name, func(b *testing.B) {
			var ended atomic.Int64
			over := make(chan struct{})
			e, err := engine.Open(b.Context(), engine.Config{
				Store: openStore(b, s.open), Policies: types(), Handlers: map[string]task.Handler{"paused": noop},
				Observer: engine.Observer{Saved: func(_ time.Time, _ task.Ref, t *task.Task) {
					if t != nil && t.State == task.Done && ended.Add(1) == int64(b.N) {
						close(over)
					}
				}},
			})
			if err != nil {
				b.Fatal(err)
			}
			defer e.Close(context.Background())
			fillPaused(b, e, b.N)
			b.ReportAllocs()
			b.ResetTimer()
			used := cpuTime(b)
			if err := e.Unpause(b.Context(), "paused"); err != nil {
				b.Fatal(err)
			}
			<-over
			b.StopTimer()
			report(b, used)
		})
	}
}
