package consume_test

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/taskengine/taskengine/internal/kafkatest"
	"github.com/taskengine/taskengine/kafka/consume"
	"github.com/taskengine/taskengine/kafka/source"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// Records without a key, a value or the value of a header, of any time, and of a megabyte become tasks. One that is too large
// for its type becomes an error, and the partition goes on.
func TestRecordsOfAnyFormBecomeTasks(t *testing.T) {
	onEach(t, func(t *testing.T, brokers cluster) {
		topic := newTopic(t, brokers, 1, map[string]*string{"max.message.bytes": new("4000000"), "message.timestamp.after.max.ms": new(fmt.Sprint(int64(1 << 62)))})
		large, tooLarge := make([]byte, 1<<20), make([]byte, 1<<20+100)
		_, _ = rand.Read(large)
		_, _ = rand.Read(tooLarge)
		at := time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC)
		key := []byte("k")
		records := []*kgo.Record{
			{Key: key, Value: []byte("plain"), Timestamp: at},
			{Value: []byte("no key"), Timestamp: at, Headers: []kgo.RecordHeader{{Key: "h"}, {Key: "", Value: []byte("no name")}}},
			{Key: key, Timestamp: at}, // deletes the key in a compacted topic
			{Key: []byte{}, Value: []byte{0, 0xff}, Timestamp: at, Headers: []kgo.RecordHeader{{Key: "h", Value: []byte("v")}}},
			{Key: key, Value: tooLarge, Timestamp: at},
			{Key: key, Value: []byte("1970"), Timestamp: time.UnixMilli(1)},
			{Key: key, Value: []byte("before 1970"), Timestamp: time.UnixMilli(-1000)},
			{Key: key, Value: []byte("2262"), Timestamp: time.Date(2262, 1, 1, 0, 0, 0, 0, time.UTC)},
			{Key: key, Value: []byte("9999"), Timestamp: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)}, // which the client does not know
			{Key: key, Value: large, Timestamp: at},
			{Key: key, Value: []byte("last"), Timestamp: at},
		}
		client, err := kafkatest.Client(brokers.Brokers(), kgo.ProducerBatchMaxBytes(4_000_000))
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		for _, r := range records {
			r.Topic = topic
			if err := client.ProduceSync(t.Context(), r).FirstErr(); err != nil {
				t.Fatalf("%.20q: %v", r.Value, err)
			}
		}
		n := &node{t: t, cluster: brokers, store: newStore()}
		p := policy.DefaultType()
		p.MaxPayload = 1 << 20
		n.types = map[string]policy.Type{"order": p}
		d := definition("orders", topic)
		d.Headers = map[string]string{"h": "headers.h"}
		n.open(d)
		t.Cleanup(n.close)
		n.await("the tasks", func() bool {
			tasks, most := n.ran()
			return tasks == len(records)-1 && most == 1 && n.status("orders").Lag == 0
		})
		var rows []*task.Task
		n.await("the error", func() bool {
			rows, _, err = n.List(t.Context(), storage.Filter{Types: []string{consume.UnreadTypeOf("orders")}, States: []task.State{task.Error}}, task.ID{}, 10)
			return err != nil || len(rows) == 1
		})
		if err != nil || rows[0].Headers[source.HeaderOffset] != "4" || !strings.Contains(rows[0].LastError, "max_payload") {
			t.Errorf("the record that is too large: %v, %v", rows, err)
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		for payload, want := range map[string]struct{ key, time, h string }{
			"plain":       {"k", "2026-01-02T03:04:05.006Z", ""},
			"no key":      {"", "2026-01-02T03:04:05.006Z", ""},
			"":            {"k", "2026-01-02T03:04:05.006Z", ""},
			"\x00\xff":    {"", "2026-01-02T03:04:05.006Z", "v"},
			"1970":        {"k", "1970-01-01T00:00:00.001Z", ""},
			"before 1970": {"k", "", ""},
			"2262":        {"k", "2262-01-01T00:00:00.000Z", ""},
			string(large): {"k", "2026-01-02T03:04:05.006Z", ""},
			"last":        {"k", "2026-01-02T03:04:05.006Z", ""},
		} {
			got := n.last[payload]
			if got == nil || got.OrderingKey != want.key || got.Headers[source.HeaderTimestamp] != want.time || got.Headers["h"] != want.h {
				t.Errorf("%.20q: want %+v, got %.500v", payload, want, got)
			}
		}
	})
}

// Records behind a transaction that has not ended wait for it: the source says so, and is behind.
func TestATransactionThatDoesNotEndIsNamed(t *testing.T) {
	onEach(t, func(t *testing.T, brokers cluster) {
		topic := newTopic(t, brokers, 1, nil)
		n := newNode(t, brokers, definition("orders", topic))
		produce(t, brokers, numbered(topic, 1, 0, 5)...)
		client, err := kafkatest.Client(brokers.Brokers(), kgo.TransactionalID("open-"+topic))
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		for round, commits := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort} {
			first := 5 + 10*round
			before, _ := n.ran()
			if err := client.BeginTransaction(); err != nil {
				t.Fatal(err)
			}
			if err := client.ProduceSync(t.Context(), numbered(topic, 1, first, 5)...).FirstErr(); err != nil {
				t.Fatal(err)
			}
			produce(t, brokers, numbered(topic, 1, first+5, 5)...)
			n.await("a source that waits for the transaction", func() bool {
				s := n.status("orders")
				return s.Lag == 10 && strings.Contains(s.Partitions[0].Message, "a transaction that has not ended holds back 10 offsets")
			})
			if tasks, _ := n.ran(); tasks != before && round > 0 {
				t.Errorf("%d tasks have run, of %d before the transaction", tasks, before)
			}
			if err := client.EndTransaction(t.Context(), commits); err != nil {
				t.Fatal(err)
			}
			want := 15
			if !commits {
				want += 5
			}
			n.await("what it held back", func() bool {
				tasks, most := n.ran()
				s := n.status("orders")
				return tasks == want && most == 1 && s.Lag == 0 && s.Partitions[0].Message == ""
			})
		}
	})
}

// A compacted topic has gaps, also behind its last record that is kept.
func TestGapsOfACompactedTopicAreNoLoss(t *testing.T) {
	t.Parallel()
	topic := newTopic(t, brokers, 1, map[string]*string{
		"cleanup.policy": new("compact"), "min.cleanable.dirty.ratio": new("0.01"), "max.compaction.lag.ms": new("1"), "segment.ms": new("1"), "delete.retention.ms": new("0"),
	})
	for i := range 30 { // each in a segment of its own
		produce(t, brokers, &kgo.Record{Topic: topic, Key: fmt.Append(nil, i%3), Value: fmt.Append(nil, i)})
	}
	client, err := kafkatest.Client(brokers.Brokers(), kgo.ConsumeTopics(topic))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	left := func() (n int) { // records of the topic
		client.SetOffsets(map[string]map[int32]kgo.EpochOffset{topic: {0: {Epoch: -1, Offset: 0}}})
		for {
			for _, r := range client.PollFetches(t.Context()).Records() {
				if n++; r.Offset == 29 {
					return n
				}
			}
		}
	}
	n := newNode(t, brokers)
	n.await("a topic that is compacted", func() bool { return left() < 15 })
	n.close()
	n.open(definition("orders", topic))
	n.await("the records that are left", func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return slices.Min([]int{n.runs["27"], n.runs["28"], n.runs["29"]}) == 1
	})
	n.await("the end", func() bool { return n.status("orders").Lag == 0 })
	if s := n.status("orders"); s.Here.Lost != 0 || s.Partitions[0].Position != 30 || s.Partitions[0].Records > 15 {
		t.Errorf("%+v", s)
	}
}
