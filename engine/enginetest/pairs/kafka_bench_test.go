//go:build !race

package pairs

import (
	"context"
	"encoding/binary"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	kafkacoord "github.com/taskengine/taskengine/coord/kafka"
	"github.com/taskengine/taskengine/coord/local"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/kafka"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

const (
	perSecond = 1000
	warmUp    = 10 // rounds that do not count: a broker that has just started is slow
)

// delays collects how long things took.
type delays struct {
	mu  sync.Mutex
	all []time.Duration // guarded by mu
}

func (d *delays) add(begin []byte) {
	took := time.Since(started) - time.Duration(binary.BigEndian.Uint64(begin))
	d.mu.Lock()
	d.all = append(d.all, took)
	d.mu.Unlock()
}

// await waits for a number of delays.
func (d *delays) await(b *testing.B, want int) {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		d.mu.Lock()
		got := len(d.all)
		d.mu.Unlock()
		if got >= want {
			return
		}
		if time.Now().After(deadline) {
			b.Fatalf("%d of %d have arrived", got, want)
		}
	}
}

func (d *delays) clear() { d.all = nil }

// report reports percentiles in milliseconds, and returns them.
func (d *delays) report(b *testing.B, name string) (p50, p99 float64) {
	slices.Sort(d.all)
	at := func(share float64) float64 { return d.all[int(share*float64(len(d.all)-1))].Seconds() * 1000 }
	p50, p99 = at(0.5), at(0.99)
	b.ReportMetric(p50, name+"-p50-ms")
	b.ReportMetric(p99, name+"-p99-ms")
	return p50, p99
}

// started is the origin of times in records and tasks.
var started = time.Now()

func stamp() []byte { return binary.BigEndian.AppendUint64(nil, uint64(time.Since(started))) }

// steadily calls fn a thousand times within a second.
func steadily(fn func()) {
	for begin, n := time.Now(), 0; n < perSecond; n++ {
		time.Sleep(time.Until(begin.Add(time.Duration(n) * time.Second / perSecond)))
		fn()
	}
}

// BenchmarkTriggerToGrabByKafka measures how long it takes from the submit of a task on one node until its handler begins
// on another that learns of it by Kafka, and in turns with that how long a record takes from a producer to a consumer of the
// same broker. An iteration is a second of each, at 1000 a second.
func BenchmarkTriggerToGrabByKafka(b *testing.B) {
	var records, tasks delays
	produce := rawRecords(b, &records)
	submit := tasksOfAnotherNode(b, &tasks)
	rounds := 0
	round := func() {
		rounds++
		steadily(produce)
		records.await(b, rounds*perSecond)
		steadily(submit)
		tasks.await(b, rounds*perSecond)
	}
	for range warmUp {
		round()
	}
	rounds = 0
	records.clear()
	tasks.clear()
	for b.Loop() {
		round()
	}
	raw50, raw99 := records.report(b, "record")
	node50, node99 := tasks.report(b, "task")
	b.ReportMetric(node50/raw50, "p50-ratio")
	b.ReportMetric(node99/raw99, "p99-ratio")
}

// rawRecords returns a function that sends a record to a consumer, by a topic like that of hints.
func rawRecords(b *testing.B, d *delays) (produce func()) {
	topic := "raw"
	options := []kgo.Opt{kgo.SeedBrokers(brokers.Brokers()...), kgo.ProducerLinger(0), kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.LeaderAck()), kgo.MaxProduceRequestsInflightPerBroker(5)}
	_, up := carryTo(b, topic) // which creates it
	up()
	ends := make(map[int32]kgo.Offset)
	for p := range int32(kafkacoord.DefaultPartitions) {
		ends[p] = kgo.NewOffset().AtEnd()
	}
	client, err := kgo.NewClient(append(options, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: ends}), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		b.Fatal(err)
	}
	var reading sync.WaitGroup
	b.Cleanup(func() { client.Close(); reading.Wait() })
	read := make(chan struct{})
	var once sync.Once
	reading.Go(func() {
		for {
			fetches := client.PollFetches(context.Background())
			if fetches.IsClientClosed() {
				return
			}
			fetches.EachRecord(func(r *kgo.Record) {
				once.Do(func() { close(read) })
				if len(r.Value) == 8 {
					d.add(r.Value)
				}
			})
		}
	})
	sent := int32(0)
	send := func(value []byte) {
		sent++
		client.Produce(context.Background(), &kgo.Record{Topic: topic, Partition: sent % kafkacoord.DefaultPartitions, Value: value}, func(_ *kgo.Record, err error) {
			if err != nil {
				b.Error(err)
			}
		})
	}
	for isRead := false; !isRead; {
		send([]byte("begin"))
		select {
		case <-read:
			isRead = true
		case <-time.After(10 * time.Millisecond):
		}
	}
	return func() { send(stamp()) }
}

// tasksOfAnotherNode returns a function that submits a task on a node which another node is to run. Both use a store in
// memory.
func tasksOfAnotherNode(b *testing.B, d *delays) (submit func()) {
	store, members := memory.New(), local.New()
	set := policy.Set{Slots: 1000, Types: map[string]policy.Type{"work": policy.DefaultType()}}
	open := func(name string, handlers map[string]task.Handler) *engine.Engine {
		bus, up := carryTo(b, "hints-of-benchmark")
		up()
		by := members.Peer().Coordinator()
		by.Bus = bus
		e, err := engine.Open(b.Context(), engine.Config{
			Store: store, Policies: set, Handlers: handlers, Name: name, Coordinator: by,
		})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			if err := e.Close(context.Background()); err != nil {
				b.Error(err)
			}
		})
		return e
	}
	begun := make(chan struct{}, 1)
	open("runs", map[string]task.Handler{"work": task.HandlerFunc(func(_ context.Context, t *task.Task) ([]byte, error) {
		if strings.HasPrefix(string(t.Payload), "{") {
			begun <- struct{}{}
			return nil, nil
		}
		d.add(t.Payload)
		return nil, nil
	})})
	submits := open("submits", nil)
	request := func(payload []byte) {
		if _, err := submits.Submit(b.Context(), engine.Request{Type: "work", Payload: payload}); err != nil {
			b.Error(err)
		}
	}
	request([]byte("{}"))
	<-begun
	return func() { request(stamp()) }
}

// carryTo connects a node to a topic without a network that can be cut, and returns a function that waits until it is up.
func carryTo(b *testing.B, topic string) (bus *kafkacoord.Bus, up func()) {
	bus, err := kafkacoord.New(kafkacoord.Options{Connection: kafka.Connection{Name: "main", Brokers: brokers.Brokers()}, Topic: topic, Create: true})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := bus.Close(); err != nil {
			b.Error(err)
		}
	})
	return bus, func() {
		for bus.BusStatus().Down != nil {
			time.Sleep(time.Millisecond)
		}
	}
}
