//go:build !race

package consume_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/internal/kafkatest"
	"github.com/taskengine/taskengine/kafka"
	"github.com/taskengine/taskengine/kafka/consume"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

// overtaken is a node on which the task of the first record of a topic never gets a slot, while tasks of the records behind
// it are finished.
type overtaken struct {
	engine   *engine.Engine
	sources  *consume.Sources
	topic    string
	finished atomic.Int64 // tasks of high priority
	client   *kgo.Client
	started  atomic.Bool // the starved task has
	over     chan struct{}
}

// newOvertaken has the task of low priority in the store when it returns.
func newOvertaken(tb testing.TB) *overtaken {
	tb.Helper()
	o := &overtaken{topic: fmt.Sprint("overtaken-", topics.Add(1)), over: make(chan struct{})}
	var err error
	if o.client, err = kafkatest.Client(brokers.Brokers(), kgo.DefaultProduceTopic(o.topic), kgo.MaxBufferedRecords(100_000)); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(o.client.Close)
	kafkatest.CreateTopic(tb, kadm.NewClient(o.client), 1, 1, nil, o.topic)
	low, high := policy.DefaultType(), policy.DefaultType()
	low.Priority, low.Concurrency = task.LowestPriority, 1
	high.Priority, high.Retention.Done = task.HighestPriority+1, 0
	high.MaxBacklog = policy.Backlog{Max: 20_000, WhenFull: policy.PauseSource}
	d := definition("orders", o.topic)
	d.Type, d.TypeFrom, d.OrderingKey = "", "key", ""
	store := memory.New()
	o.sources, err = consume.New(consume.Config{Store: store, Log: slog.New(slog.DiscardHandler), Sources: []consume.Source{
		{Definition: d, Connection: kafka.Connection{Name: "main", Brokers: brokers.Brokers()}},
	}})
	if err != nil {
		tb.Fatal(err)
	}
	handlers, types := o.sources.Handlers(), o.sources.Policies()
	maps.Copy(types, map[string]policy.Type{"low": low, "high": high})
	handlers["low"] = task.HandlerFunc(func(ctx context.Context, t *task.Task) ([]byte, error) {
		if string(t.Payload) == "starved" {
			o.started.Store(true)
		}
		select { // the first one keeps the only place of the type
		case <-o.over:
		case <-ctx.Done():
		}
		return nil, context.Cause(ctx)
	})
	handlers["high"] = task.HandlerFunc(func(context.Context, *task.Task) ([]byte, error) { o.finished.Add(1); return nil, nil })
	o.engine, err = engine.Open(tb.Context(), engine.Config{
		Name: "n1", Store: store, Policies: policy.Set{Slots: 64, Types: types}, Handlers: handlers, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		defer cancel()
		o.sources.Stop()
		close(o.over)
		_ = o.engine.Close(ctx)
		_ = o.sources.Close(ctx)
	})
	if _, err := o.engine.Submit(tb.Context(), task.Request{Type: "low", Payload: []byte("holds the place")}); err != nil {
		tb.Fatal(err)
	}
	if err := o.sources.Apply(tb.Context(), o.engine); err != nil {
		tb.Fatal(err)
	}
	if err := o.client.ProduceSync(tb.Context(), &kgo.Record{Key: []byte("low"), Value: []byte("starved")}).FirstErr(); err != nil {
		tb.Fatal(err)
	}
	return o
}

// overtake writes n records of high priority, and waits until their tasks are finished and the position is behind them.
func (o *overtaken) overtake(tb testing.TB, n int64) {
	tb.Helper()
	want := o.finished.Load() + n
	var failed atomic.Bool
	for range n {
		o.client.Produce(tb.Context(), &kgo.Record{Key: []byte("high"), Value: []byte("overtakes")}, func(_ *kgo.Record, err error) {
			if err != nil {
				failed.Store(true)
			}
		})
	}
	for seen, at := int64(-1), time.Now(); ; time.Sleep(5 * time.Millisecond) {
		done := o.finished.Load()
		if done == want && o.status(tb).Partitions[0].Position == want+1 {
			break
		}
		if done > seen {
			seen, at = done, time.Now()
		}
		if failed.Load() || time.Since(at) > 3*time.Minute {
			tb.Fatalf("%d of %d tasks are finished: %+v", done, want, o.status(tb))
		}
	}
}

func (o *overtaken) status(tb testing.TB) *consume.Status {
	tb.Helper()
	s, err := o.sources.Get(tb.Context(), o.engine, "orders")
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// heap returns the bytes of the live heap.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// A task that never gets a slot holds no position back and nothing in memory, however many tasks of its topic overtake it.
// (Elsewhere the first offset that is not finished is the position to commit, and the finished ones behind it are kept.)
func TestTasksThatOvertakeAStarvedOneTakeNoMemoryAndHoldNoPosition(t *testing.T) {
	o := newOvertaken(t)
	o.overtake(t, 20_000)
	before := heap()
	o.overtake(t, 80_000)
	if grown := int64(heap()) - int64(before); grown > 4<<20 { // the offsets in a set and a map would be 10 MB
		t.Errorf("%d bytes more are in use after 80,000 further tasks", grown)
	}
	if waiting := o.sources.Waiting("orders"); waiting != 0 {
		t.Errorf("%d bytes of records wait", waiting)
	}
	if o.started.Load() {
		t.Error("the starved task was not starved")
	}
	asks, at, err := kadm.NewClient(o.client), int64(-1), error(nil)
	for end := time.Now().Add(3 * time.Minute); at != 100_001 && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		var offsets kadm.OffsetResponses
		if offsets, err = asks.FetchOffsets(t.Context(), "group-orders"); err == nil { // a broker that is new has no coordinator yet
			at = offsets.Offsets()[o.topic][0].At
		}
	}
	if at != 100_001 {
		t.Errorf("the group is at %d, %v", at, err)
	}
}

// The same with as many records as wanted: go test -run - -bench Overtake -benchtime 10000000x ./kafka/consume.
func BenchmarkOvertakeAStarvedTask(b *testing.B) {
	o := newOvertaken(b)
	o.overtake(b, 10_000)
	before := heap()
	b.ResetTimer()
	o.overtake(b, int64(b.N))
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
	b.ReportMetric(float64(before)/(1<<20), "MiB-before")
	b.ReportMetric(float64(heap())/(1<<20), "MiB-after")
}
