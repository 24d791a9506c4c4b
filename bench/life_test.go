package bench

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

const (
	submitters  = 512
	inFlight    = 1024 // lives that have begun and have not ended, with the engine and without it
	payloadSize = 256
)

// BenchmarkLife measures whole lives of tasks: submitted, grabbed and finished, each
// durable, with a handler that does nothing. 512 goroutines submit, and at most 1024 lives
// are in flight. "bare" makes the same changes in the same store without an engine, with as
// many in flight: two commits at a time, each of which inserts 256 tasks and ends 256.
// "of-bare" is the engine's rate divided by that.
func BenchmarkLife(b *testing.B) {
	for _, s := range stores {
		rate := 0.0
		b.Run("store="+s.name+"/bare", func(b *testing.B) { rate = bareLives(b, openStore(b, s.open)) })
		b.Run("store="+s.name+"/engine", func(b *testing.B) {
			got := engineLives(b, openStore(b, s.open), 0)
			b.ReportMetric(got/rate, "of-bare")
		})
	}
}

// BenchmarkSearchedLife measures the lives of tasks of a type with search attributes.
func BenchmarkSearchedLife(b *testing.B) {
	for _, s := range stores {
		for _, n := range []int{0, 1, 4} {
			b.Run(fmt.Sprintf("store=%s/attributes=%d", s.name, n), func(b *testing.B) {
				set := types()
				p := set.Types["noop"]
				for i := range n {
					p.Search = append(p.Search, fmt.Sprintf("payload.customer.id%d", i))
				}
				set.Types["noop"] = p
				rest := strings.Repeat("x", payloadSize-100)
				livesOf(b, set, noop, func(i int64) []byte {
					return fmt.Appendf(nil, `{"customer": {"id0": %d, "id1": %d, "id2": %d, "id3": %d}, "rest": %q}`, i, i/10, i/1000, i%10, rest)
				}, openStore(b, s.open), 0)
			})
		}
	}
}

// BenchmarkBacklog measures the same beside tasks of a paused type. The memory is that of
// the whole process.
func BenchmarkBacklog(b *testing.B) {
	for _, backlog := range []int{0, 1_000_000} {
		b.Run(fmt.Sprintf("waiting=%d", backlog), func(b *testing.B) {
			engineLives(b, openStore(b, stores[0].open), backlog)
			b.ReportMetric(residentMB(), "rss-MB")
		})
	}
}

func types() policy.Set {
	paused := policy.DefaultType()
	paused.Paused = true
	return policy.Set{Slots: inFlight, Types: map[string]policy.Type{"noop": policy.DefaultType(), "paused": paused}}
}

var noop = task.HandlerFunc(func(context.Context, *task.Task) ([]byte, error) { return nil, nil })

// engineLives runs b.N tasks by a handler that does nothing, and returns how many of them there were in a second.
func engineLives(b *testing.B, store storage.Store, backlog int) (rate float64) {
	return livesBy(b, noop, store, backlog)
}

// livesBy runs b.N tasks by a handler and returns how many of them there were in a second.
func livesBy(b *testing.B, h task.Handler, store storage.Store, backlog int) (rate float64) {
	payload := make([]byte, payloadSize)
	return livesOf(b, types(), h, func(int64) []byte { return payload }, store, backlog)
}

// livesOf is livesBy with policies and payloads.
func livesOf(b *testing.B, set policy.Set, h task.Handler, payload func(i int64) []byte, store storage.Store, backlog int) (rate float64) {
	tokens := make(chan struct{}, inFlight)
	e, err := engine.Open(b.Context(), engine.Config{
		Store: store, Policies: set, Handlers: map[string]task.Handler{"noop": h, "paused": noop},
		Observer: engine.Observer{Saved: func(_ time.Time, _ task.Ref, t *task.Task) {
			if t == nil || t.State != task.Done {
				b.Errorf("a task ended as %+v", t)
			}
			<-tokens
		}},
	})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close(context.Background())
	fillPaused(b, e, backlog)
	var left atomic.Int64
	left.Store(int64(b.N))
	b.ReportAllocs()
	b.ResetTimer()
	used := cpuTime(b)
	var wg sync.WaitGroup
	for range submitters {
		wg.Go(func() {
			for i := left.Add(-1); i >= 0; i = left.Add(-1) {
				tokens <- struct{}{}
				if _, err := e.Submit(context.Background(), engine.Request{Type: "noop", Payload: payload(i)}); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	for range inFlight { // a token for each task that is not saved yet
		tokens <- struct{}{}
	}
	b.StopTimer()
	return report(b, used)
}

func report(b *testing.B, used time.Duration) (rate float64) {
	rate = float64(b.N) / b.Elapsed().Seconds()
	b.ReportMetric(rate, "tasks/s")
	b.ReportMetric(float64((cpuTime(b)-used).Nanoseconds())/1000/float64(b.N), "cpu-us/task")
	return rate
}

func fillPaused(b *testing.B, e *engine.Engine, n int) {
	payload := make([]byte, payloadSize)
	addMany(b, e, n, func(int) engine.Request { return engine.Request{Type: "paused", Payload: payload} })
}

// addMany adds tasks, 1000 at a time.
func addMany(b *testing.B, e *engine.Engine, count int, request func(i int) engine.Request) {
	for added := 0; added < count; {
		reqs := make([]engine.Request, min(count-added, 1000))
		for i := range reqs {
			reqs[i] = request(added + i)
		}
		if _, err := e.Submit(b.Context(), reqs...); err != nil {
			b.Fatal(err)
		}
		added += len(reqs)
	}
}

// bareLives makes the changes of b.N lives and returns how many there were in a second.
func bareLives(b *testing.B, store storage.Store) (rate float64) {
	const (
		committers = 2
		begins     = inFlight / committers / 2 // of a commit, which also ends as many
	)
	ids := task.NewIDs([32]byte{1})
	owner := ids.Next(time.Now())
	var left atomic.Int64
	left.Store(int64(b.N))
	b.ReportAllocs()
	b.ResetTimer()
	used := cpuTime(b)
	var wg sync.WaitGroup
	for range committers {
		wg.Go(func() {
			var running []task.Ref
			for {
				n := min(begins, int(left.Add(-begins))+begins)
				if n <= 0 && len(running) == 0 {
					return
				}
				var err error
				if running, err = bareStep(b, store, ids, owner, max(0, n), running); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	return report(b, used)
}

// bareStep finishes the running tasks and inserts n that are grabbed already.
func bareStep(b *testing.B, store storage.Store, ids *task.IDs, owner task.ID, n int, running []task.Ref) ([]task.Ref, error) {
	now := time.Now()
	rows := make([]*task.Task, n)
	payload := make([]byte, payloadSize)
	for i := range rows {
		t := &task.Task{ID: ids.Next(now), Type: "noop", Priority: task.DefaultPriority, Payload: payload}
		t.Create(task.Submitted, now, time.Time{})
		task.Change{Ref: t.Ref(), To: task.Processing, At: now, NextEventAt: now, Owner: owner}.Apply(t)
		rows[i] = t
	}
	ends := make([]task.Change, len(running))
	for i, r := range running {
		ends[i] = task.Change{Ref: r, To: task.Done, At: now, NextEventAt: now.Add(policy.DefaultType().Retention.Done)}
	}
	err := store.Update(b.Context(), func(tx storage.Tx) error {
		if _, err := tx.Insert(b.Context(), rows...); err != nil {
			return err
		}
		_, err := tx.Swap(b.Context(), ends...)
		return err
	})
	running = running[:0]
	for _, t := range rows {
		running = append(running, t.Ref())
	}
	return running, err
}
