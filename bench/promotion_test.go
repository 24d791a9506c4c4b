package bench

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/internal/machine"
	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// BenchmarkPromotion measures how many tasks end in a second while b.N tasks that are due at the same moment are moved from
// waiting to submitted, and afterwards. 16 run at a time, and each takes 1 ms. Beside them, 20 tasks a second of another
// type with slots of its own are due: "late" is how long after their time they begin while the others are moved, at the median and at most.
func BenchmarkPromotion(b *testing.B) {
	for _, s := range stores {
		b.Run("store="+s.name, func(b *testing.B) { measurePromotion(b, openStore(b, s.open)) })
	}
	b.Run("store=postgres", func(b *testing.B) {
		server, err := pgtest.Start("shared_buffers=1GB", "max_wal_size=4GB", "checkpoint_timeout=15min")
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { must(b, server.Close()) })
		measurePromotion(b, openPostgres(b, server))
	})
}

// promotion has the observations of a run of BenchmarkPromotion.
type promotion struct {
	mu    sync.Mutex
	ends  []time.Time // of the tasks that are due together
	moved time.Time   // when the last one was moved
	late  []lateness  // of the others
}

type lateness struct {
	at time.Time
	by time.Duration
}

func measurePromotion(b *testing.B, store storage.Store) {
	const (
		slots  = 16
		others = 20 // a second
		most   = 50 // seconds of them
	)
	var p promotion
	var left atomic.Int64
	left.Store(int64(b.N))
	over := make(chan struct{})
	typ := policy.DefaultType()
	typ.Limits = []string{"together"}
	e, err := engine.Open(b.Context(), engine.Config{
		Store: store,
		Policies: policy.Set{
			Slots:  2 * slots,
			Limits: map[string]policy.Limit{"together": {Name: "together", Max: slots}},
			Types:  map[string]policy.Type{"together": typ, "other": policy.DefaultType()},
		},
		Handlers: map[string]task.Handler{
			"together": task.HandlerFunc(func(context.Context, *task.Task) ([]byte, error) {
				time.Sleep(time.Millisecond)
				return nil, nil
			}),
			"other": task.HandlerFunc(func(_ context.Context, t *task.Task) ([]byte, error) {
				now := time.Now()
				p.mu.Lock()
				defer p.mu.Unlock()
				p.late = append(p.late, lateness{t.ReadyAt, now.Sub(t.ReadyAt)})
				return nil, nil
			}),
		},
		Observer: engine.Observer{Saved: func(now time.Time, _ task.Ref, t *task.Task) {
			if t == nil || t.Type != "together" {
				return
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			if t.State == task.Submitted {
				p.moved = now
			} else if p.ends = append(p.ends, now); left.Add(-1) == 0 {
				close(over)
			}
		}},
	})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close(context.Background())
	const enough = 100 * time.Microsecond // to submit each
	due := time.Now().Add(time.Second + time.Duration(b.N)*enough)
	addMany(b, e, b.N, func(int) engine.Request {
		return engine.Request{Type: "together", Payload: make([]byte, payloadSize), At: due}
	})
	addMany(b, e, others*most, func(i int) engine.Request {
		return engine.Request{Type: "other", At: due.Add(time.Duration(i+1) * time.Second / others)}
	})
	machine.Pause(time.Until(due))
	b.ResetTimer()
	<-over
	b.StopTimer()
	p.report(b, due)
}

func (p *promotion) report(b *testing.B, due time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	during := 0
	for _, at := range p.ends {
		if at.Before(p.moved) {
			during++
		}
	}
	moving := p.moved.Sub(due)
	b.ReportMetric(moving.Seconds(), "moving-s")
	b.ReportMetric(float64(during)/moving.Seconds(), "meanwhile/s")
	b.ReportMetric(float64(len(p.ends)-during)/(b.Elapsed()-moving).Seconds(), "afterwards/s")
	var late []time.Duration
	for _, l := range p.late {
		if l.at.Before(p.moved) {
			late = append(late, l.by)
		}
	}
	b.ReportMetric(quantile(late, 0.5).Seconds()*1000, "late-p50-ms")
	b.ReportMetric(quantile(late, 1).Seconds()*1000, "late-max-ms")
}
