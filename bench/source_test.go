//go:build unix

package bench

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/internal/kafkatest"
	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/kafka"
	"github.com/taskengine/taskengine/kafka/consume"
	"github.com/taskengine/taskengine/kafka/source"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres"
	"github.com/taskengine/taskengine/storage/postgres/postgrestest"
	"github.com/taskengine/taskengine/task"
)

const (
	sourceParts  = 4    // partitions of the topic of one source, and callers of the library
	sourceBatch  = 1000 // tasks of a call
	sourceRounds = 3    // of a run: each is b.N tasks by the library and b.N by sources
)

// BenchmarkSource measures how fast sources add tasks, which do not run, from topics that have all of the records, in turns
// with the library, which adds as many in batches, with the same headers. "of-library" is the median of the ratios.
func BenchmarkSource(b *testing.B) {
	cluster, err := kafkatest.Start(1, kafkatest.Lasting())
	if err != nil {
		b.Fatal(err)
	}
	defer cluster.Close()
	for _, s := range stores {
		b.Run("store="+s.name, func(b *testing.B) {
			compareSources(b, cluster, func() storage.Store { return openStore(b, s.open) })
		})
	}
	b.Run("store=postgres", func(b *testing.B) {
		server, err := pgtest.Start("shared_buffers=1GB", "max_wal_size=4GB", "checkpoint_timeout=15min")
		if err != nil {
			b.Fatal(err)
		}
		defer func() { must(b, server.Close()) }()
		compareSources(b, cluster, func() storage.Store { return openPostgres(b, server) })
	})
}

// openPostgres returns a store in a database of its own.
func openPostgres(tb testing.TB, server *pgtest.Server) storage.Store {
	url := postgrestest.Tables(tb, server)
	store, err := postgres.Open(tb.Context(), url, postgres.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { must(tb, store.Close()) })
	return store
}

// compareSources compares one source, and fifty, with the library.
func compareSources(b *testing.B, cluster *kafkatest.Cluster, open func() storage.Store) {
	for _, n := range []int{1, 50} {
		b.Run(fmt.Sprint("sources=", n), func(b *testing.B) {
			var library, source spent
			var ratios []float64
			for range sourceRounds {
				one, other := addBatches(b, open()), readTopics(b, cluster, n, open())
				library, source = library.plus(one), source.plus(other)
				ratios = append(ratios, one.elapsed.Seconds()/other.elapsed.Seconds())
			}
			slices.Sort(ratios)
			b.ReportMetric(ratios[len(ratios)/2], "of-library")
			library.report(b, "library")
			source.report(b, "source")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// spent has the times of b.N tasks of each round.
type spent struct {
	began        time.Time
	elapsed, cpu time.Duration
}

func beginSpending(tb testing.TB) spent { return spent{began: time.Now(), cpu: -cpuTime(tb)} }

func (u spent) end(tb testing.TB) spent {
	return spent{elapsed: time.Since(u.began), cpu: u.cpu + cpuTime(tb)}
}

func (u spent) plus(o spent) spent { return spent{elapsed: u.elapsed + o.elapsed, cpu: u.cpu + o.cpu} }

func (u spent) report(b *testing.B, of string) {
	n := float64(b.N * sourceRounds)
	b.ReportMetric(n/u.elapsed.Seconds(), of+"-tasks/s")
	b.ReportMetric(float64(u.cpu.Nanoseconds())/1000/n, of+"-cpu-us/task")
}

// addBatches adds b.N tasks by the library.
func addBatches(b *testing.B, store storage.Store) spent {
	e, err := engine.Open(b.Context(), engine.Config{Store: store, Policies: policy.Set{Types: map[string]policy.Type{"order": policy.DefaultType()}}})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close(context.Background())
	used := beginSpending(b)
	var adding sync.WaitGroup
	for caller := range sourceParts {
		adding.Go(func() {
			for left := b.N*(caller+1)/sourceParts - b.N*caller/sourceParts; left > 0; {
				reqs := make([]engine.Request, min(left, sourceBatch))
				for i := range reqs {
					reqs[i] = engine.Request{Type: "order", Payload: make([]byte, payloadSize), Headers: map[string]string{
						source.HeaderTopic: "source-0", source.HeaderPartition: strconv.Itoa(caller), source.HeaderOffset: strconv.Itoa(left - i),
						source.HeaderTimestamp: time.Now().UTC().Format("2006-01-02T15:04:05.000Z"),
					}}
				}
				if _, err := e.Submit(b.Context(), reqs...); err != nil {
					b.Error(err)
					return
				}
				left -= len(reqs)
			}
		})
	}
	adding.Wait()
	return used.end(b)
}

// readTopics adds b.N tasks by n sources.
func readTopics(b *testing.B, cluster *kafkatest.Cluster, n int, store storage.Store) spent {
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.Brokers()...))
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	config := consume.Config{Store: store}
	parts := int32(sourceParts)
	if n > 1 {
		parts = 1
	}
	for i := range n {
		topic := fmt.Sprintf("source-%d-%d-%d", b.N, i, time.Now().UnixNano())
		if made, err := kadm.NewClient(client).CreateTopic(b.Context(), parts, 1, nil, topic); err != nil || made.Err != nil {
			b.Fatal(err, made.Err)
		}
		for range b.N*(i+1)/n - b.N*i/n {
			client.Produce(b.Context(), &kgo.Record{Topic: topic, Value: make([]byte, payloadSize)}, nil)
		}
		config.Sources = append(config.Sources, consume.Source{
			Definition: source.Definition{Name: fmt.Sprint("s", i), Topics: []string{topic}, Group: "bench", Type: "order"},
			Connection: kafka.Connection{Name: "main", Brokers: cluster.Brokers()},
		})
	}
	if err := client.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
	sources, err := consume.New(config)
	if err != nil {
		b.Fatal(err)
	}
	types := sources.Policies()
	types["order"] = policy.DefaultType()
	handlers := make(map[string]task.Handler)
	for typ, h := range sources.Handlers() {
		handlers[typ] = h
	}
	e, err := engine.Open(b.Context(), engine.Config{Store: store, Policies: policy.Set{Types: types}, Handlers: handlers})
	if err != nil {
		b.Fatal(err)
	}
	defer sources.Close(context.Background())
	defer e.Close(context.Background())
	defer sources.Stop()
	used := beginSpending(b)
	if err := sources.Apply(b.Context(), e); err != nil {
		b.Fatal(err)
	}
	for added := uint64(0); added < uint64(b.N); time.Sleep(5 * time.Millisecond) {
		added = 0
		for _, s := range sources.Stats() {
			added += s.Tasks
		}
	}
	return used.end(b)
}
