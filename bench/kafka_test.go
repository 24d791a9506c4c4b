//go:build unix

package bench

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/taskengine/taskengine/internal/kafkatest"
	"github.com/taskengine/taskengine/kafka"
	"github.com/taskengine/taskengine/kafka/publish"
)

// BenchmarkTopic measures whole lives of tasks, as BenchmarkLife does, with the handler that sends them to a topic of
// Kafka. "bare" sends as many records without an engine, with as many in flight.
func BenchmarkTopic(b *testing.B) {
	cluster, err := kafkatest.Start(1, kafkatest.Lasting())
	if err != nil {
		b.Fatal(err)
	}
	defer cluster.Close()
	admin, err := kgo.NewClient(kgo.SeedBrokers(cluster.Brokers()...))
	if err != nil {
		b.Fatal(err)
	}
	defer admin.Close()
	if made, err := kadm.NewClient(admin).CreateTopic(b.Context(), 4, 1, nil, "tasks"); err != nil || made.Err != nil {
		b.Fatal(err, made.Err)
	}
	b.Run("bare", func(b *testing.B) { bareRecords(b, cluster) })
	for _, s := range stores {
		b.Run("store="+s.name+"/engine", func(b *testing.B) {
			h, err := publish.New(publish.Config{
				Name: "publish", Connection: kafka.Connection{Name: "main", Brokers: cluster.Brokers()},
				Mapping: publish.Mapping{Topic: "tasks"}, Slots: inFlight, Timeout: time.Minute,
			})
			if err != nil {
				b.Fatal(err)
			}
			defer h.Close(context.Background())
			livesBy(b, h, openStore(b, s.open), 0)
		})
	}
}

// bareRecords sends b.N records.
func bareRecords(b *testing.B, cluster *kafkatest.Cluster) {
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.Brokers()...), kgo.ProducerLinger(0))
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	tokens := make(chan struct{}, inFlight)
	used := cpuTime(b)
	b.ResetTimer()
	var sending sync.WaitGroup
	for range b.N {
		tokens <- struct{}{}
		sending.Add(1)
		client.Produce(context.Background(), &kgo.Record{Topic: "tasks", Value: make([]byte, payloadSize)}, func(_ *kgo.Record, err error) {
			if err != nil {
				b.Error(err)
			}
			<-tokens
			sending.Done()
		})
	}
	sending.Wait()
	b.StopTimer()
	report(b, used)
}
