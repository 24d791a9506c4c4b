package publish_test

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/taskengine/taskengine/internal/kafkatest"
	"github.com/taskengine/taskengine/kafka"
	"github.com/taskengine/taskengine/kafka/publish"
	"github.com/taskengine/taskengine/task"
)

// brokers is the cluster of all tests of this package. Tests that end brokers start one of their own.
var brokers *kafkatest.Cluster

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "8") // most of it is waiting for brokers
	os.Exit(kafkatest.Run(m, 1, func(c *kafkatest.Cluster) { brokers = c }))
}

var topics atomic.Int64

// newTopic creates a topic that no other test uses.
func newTopic(t *testing.T, c *kafkatest.Cluster, partitions int32, settings map[string]*string) string {
	t.Helper()
	name := fmt.Sprint("topic-", topics.Add(1))
	admin := kadm.NewClient(client(t, c))
	kafkatest.CreateTopic(t, admin, partitions, 1, settings, name)
	return name
}

func client(t *testing.T, c *kafkatest.Cluster, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kafkatest.Client(c.Brokers(), options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func connection(c *kafkatest.Cluster) kafka.Connection {
	return kafka.Connection{Name: "main", Brokers: c.Brokers()}
}

// open opens a handler that is up.
func open(t *testing.T, c publish.Config) *publish.Handler {
	t.Helper()
	if c.Timeout == 0 {
		c.Timeout = time.Minute
	}
	if c.Slots == 0 {
		c.Slots = 100
	}
	c.Name, c.Ping = "publish", 20*time.Millisecond
	h, err := publish.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = h.Close(ctx)
	})
	await(t, "a handler that is up", func() bool { return h.Down() == "" }, h.Down)
	return h
}

func await(t *testing.T, what string, is func() bool, state ...func() string) {
	t.Helper()
	for end := time.Now().Add(3 * time.Minute); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			for _, f := range state {
				what += ": " + f()
			}
			t.Fatalf("%s: not within three minutes", what)
		}
	}
}

var ids atomic.Uint64

func nextID() (id task.ID) {
	binary.BigEndian.PutUint64(id[8:], ids.Add(1))
	return id
}

func newTask(payload string) *task.Task {
	return &task.Task{ID: nextID(), Version: 1, Type: "order", Payload: []byte(payload)}
}

// read returns the next records of a topic, as a program that reads committed records sees them.
func read(t *testing.T, c *kafkatest.Cluster, topic string, n int) []*kgo.Record {
	t.Helper()
	reader := client(t, c, kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	var all []*kgo.Record
	for len(all) < n {
		fetched := reader.PollFetches(ctx)
		if err := fetched.Err(); err != nil {
			t.Fatalf("after %d records: %v", len(all), err)
		}
		all = append(all, fetched.Records()...)
	}
	return all
}

// ends returns how many records a topic has, and markers of transactions.
func ends(t *testing.T, c *kafkatest.Cluster, topic string) int64 {
	t.Helper()
	return c.Ends(t, topic, false)
}
