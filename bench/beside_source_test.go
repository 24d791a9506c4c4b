//go:build unix

package bench

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/internal/kafkatest"
	"github.com/taskengine/taskengine/kafka"
	"github.com/taskengine/taskengine/kafka/consume"
	"github.com/taskengine/taskengine/kafka/source"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

const (
	besideRounds = 10   // of a run: each is b.N lives while the source reads, and b.N while it has nothing to read
	besideRate   = 1000 // records a second
)

// BenchmarkBesideSource measures whole lives of tasks on a node with a source that reads 1000 records a second into tasks that
// do not run, in turns with lives while as many records are written to a topic that is not read. "of-alone" is the median
// of the ratios of the rates, and "cpu-of-alone" that of the CPU time of the process, producer included.
func BenchmarkBesideSource(b *testing.B) {
	cluster, err := kafkatest.Start(1, kafkatest.Lasting())
	if err != nil {
		b.Fatal(err)
	}
	defer cluster.Close()
	for _, s := range stores {
		b.Run("store="+s.name, func(b *testing.B) { livesBesideSource(b, cluster, openStore(b, s.open)) })
	}
}

func livesBesideSource(b *testing.B, cluster *kafkatest.Cluster, store storage.Store) {
	read, other := "read-"+time.Now().Format("150405.000000"), "other-"+time.Now().Format("150405.000000")
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.Brokers()...))
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	if _, err := kadm.NewClient(client).CreateTopics(b.Context(), sourceParts, 1, nil, read, other); err != nil {
		b.Fatal(err)
	}
	sources, err := consume.New(consume.Config{Store: store, Sources: []consume.Source{{
		Definition: source.Definition{Name: "s", Topics: []string{read}, Group: "bench", Type: "order"},
		Connection: kafka.Connection{Name: "main", Brokers: cluster.Brokers()},
	}}})
	if err != nil {
		b.Fatal(err)
	}
	all, handlers := sources.Policies(), sources.Handlers()
	all["order"], all["noop"] = policy.DefaultType(), types().Types["noop"]
	handlers["noop"] = noop
	set := types()
	maps.Copy(set.Types, all)
	tokens := make(chan struct{}, inFlight)
	e, err := engine.Open(b.Context(), engine.Config{
		Store: store, Policies: set, Handlers: handlers,
		Observer: engine.Observer{Saved: func(_ time.Time, _ task.Ref, t *task.Task) {
			if t == nil || t.Type == "noop" {
				<-tokens
			}
		}},
	})
	if err != nil {
		b.Fatal(err)
	}
	defer sources.Close(context.Background())
	defer e.Close(context.Background())
	defer sources.Stop()
	if err := sources.Apply(b.Context(), e); err != nil {
		b.Fatal(err)
	}
	to, stop := new(atomic.Pointer[string]), make(chan struct{})
	to.Store(&read)
	var writing sync.WaitGroup
	writing.Go(func() { writeSteadily(client, to, stop) })
	defer writing.Wait()
	defer close(stop)
	for begin := time.Now(); sources.Stats()["s"].Tasks < besideRate; time.Sleep(5 * time.Millisecond) { // until it reads all partitions
		if time.Since(begin) > time.Minute {
			b.Fatalf("the source has added %d tasks within a minute", sources.Stats()["s"].Tasks)
		}
	}
	livesWhile(b, e, tokens)
	before := sources.Stats()["s"].Tasks
	var rates, cpus []float64
	for i := range besideRounds {
		var with, without spent
		for _, reads := range [2]bool{i%2 == 0, i%2 != 0} { // each of them is first as often
			if reads {
				to.Store(&read)
				with = livesWhile(b, e, tokens)
			} else {
				to.Store(&other)
				without = livesWhile(b, e, tokens)
			}
		}
		rates = append(rates, without.elapsed.Seconds()/with.elapsed.Seconds())
		cpus = append(cpus, with.cpu.Seconds()/without.cpu.Seconds())
	}
	slices.Sort(rates)
	slices.Sort(cpus)
	b.ReportMetric(rates[len(rates)/2], "of-alone")
	b.ReportMetric(cpus[len(cpus)/2], "cpu-of-alone")
	b.ReportMetric(float64(sources.Stats()["s"].Tasks-before)/besideRounds, "records/round")
	b.ReportMetric(0, "ns/op")
}

// writeSteadily writes records at besideRate to the topic that to has at that time.
func writeSteadily(client *kgo.Client, to *atomic.Pointer[string], stop chan struct{}) {
	every := time.NewTicker(10 * time.Millisecond)
	defer every.Stop()
	for {
		select {
		case <-stop:
			return
		case <-every.C:
		}
		for range besideRate / 100 {
			client.Produce(context.Background(), &kgo.Record{Topic: *to.Load(), Value: make([]byte, payloadSize)}, nil)
		}
	}
}

// livesWhile returns the time of b.N lives.
func livesWhile(b *testing.B, e *engine.Engine, tokens chan struct{}) spent {
	payload := make([]byte, payloadSize)
	var left atomic.Int64
	left.Store(int64(b.N))
	begin := beginSpending(b)
	var submitting sync.WaitGroup
	for range submitters {
		submitting.Go(func() {
			for left.Add(-1) >= 0 {
				tokens <- struct{}{}
				if _, err := e.Submit(context.Background(), engine.Request{Type: "noop", Payload: payload}); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	submitting.Wait()
	for range inFlight { // a token for each task that is not saved yet
		tokens <- struct{}{}
	}
	took := begin.end(b)
	for range inFlight {
		<-tokens
	}
	return took
}
