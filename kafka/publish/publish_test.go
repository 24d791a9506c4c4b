package publish_test

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/taskengine/taskengine/kafka"
	"github.com/taskengine/taskengine/kafka/publish"
	"github.com/taskengine/taskengine/task"
)

func ptr(s string) *string { return &s }

func headersOf(r *kgo.Record) map[string]string {
	all := make(map[string]string)
	for _, h := range r.Headers {
		all[h.Key] = string(h.Value)
	}
	return all
}

func TestATaskBecomesARecord(t *testing.T) {
	t.Parallel()
	topic := newTopic(t, brokers, 3, nil)
	h := open(t, publish.Config{Connection: connection(brokers), Mapping: publish.Mapping{
		Topic: topic, Key: "payload.customer", Value: "payload.order", Headers: map[string]string{"kind": "headers.kind", "none": "payload.none"},
	}})
	given := newTask(`{"customer": "c1", "order": {"n": 1.50}}`)
	given.Headers = map[string]string{"kind": "new", "Traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
	result, err := h.Handle(t.Context(), given)
	if err != nil {
		t.Fatal(err)
	}
	got := read(t, brokers, topic, 1)[0]
	if want := fmt.Sprintf(`{"topic":%q,"partition":%d,"offset":0}`, topic, got.Partition); string(result) != want {
		t.Errorf("the result is %s, want %s", result, want)
	}
	if string(got.Key) != "c1" || string(got.Value) != `{"n": 1.50}` {
		t.Errorf("the record has key %q and value %q", got.Key, got.Value)
	}
	want := map[string]string{
		"kind": "new", "traceparent": given.Headers["Traceparent"], "taskengine-task-id": given.ID.String(), "taskengine-type": "order",
	}
	if diff := cmp.Diff(want, headersOf(got)); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
}

// Without a mapping the payload is the value as it is, and an empty one is a record without a value.
func TestThePayloadIsTheValue(t *testing.T) {
	t.Parallel()
	topic := newTopic(t, brokers, 1, nil)
	h := open(t, publish.Config{Connection: connection(brokers), Mapping: publish.Mapping{TopicFrom: "headers.to", Key: "ordering_key"}})
	binary := newTask("\x00\xff no JSON")
	binary.Headers = map[string]string{"to": topic}
	empty := newTask("")
	empty.Headers, empty.OrderingKey = binary.Headers, "k"
	for _, given := range []*task.Task{binary, empty} {
		if _, err := h.Handle(t.Context(), given); err != nil {
			t.Fatal(err)
		}
	}
	got := read(t, brokers, topic, 2)
	if string(got[0].Value) != "\x00\xff no JSON" || got[0].Key != nil {
		t.Errorf("the first has key %q and value %q", got[0].Key, got[0].Value)
	}
	if got[1].Value != nil || string(got[1].Key) != "k" {
		t.Errorf("the second has key %q and value %q", got[1].Key, got[1].Value)
	}
}

func TestWhatBrokersRefuseIsPermanent(t *testing.T) {
	t.Parallel()
	small := newTopic(t, brokers, 1, map[string]*string{"max.message.bytes": ptr("1000")})
	compacted := newTopic(t, brokers, 1, map[string]*string{"cleanup.policy": ptr("compact")})
	for _, id := range []string{"", "refusals"} {
		h := open(t, publish.Config{Connection: connection(brokers), Mapping: publish.Mapping{TopicFrom: "headers.to"}, TransactionalID: id})
		for _, c := range []struct{ topic, payload, class string }{
			{small, strings.Repeat("xyz.", 2<<20), kafka.TooLarge},
			{small, random(5000), kafka.TooLarge},
			{"no-such-topic", "x", kafka.UnknownTopic},
			{"a topic", "x", kafka.InvalidTopic},
			{compacted, "no key", kafka.InvalidRecord},
			{"", "x", "kafka_no_record"},
		} {
			given := newTask(c.payload)
			given.Headers = map[string]string{"to": c.topic}
			_, err := h.Handle(t.Context(), given)
			if v := task.VerdictOf(nil, err); !v.GiveUp || v.Class != c.class || v.InDoubt {
				t.Errorf("%q to %q: %v, %+v", c.payload[:1], c.topic, err, v)
			}
		}
	}
}

// random returns text that cannot be compressed.
func random(n int) string {
	text := make([]byte, n)
	rand.NewChaCha8([32]byte{}).Read(text)
	return hex.EncodeToString(text)[:n]
}

func TestManyTasksAreWrittenOnceInTheOrderOfTheirCalls(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"", "many"} {
		topic := newTopic(t, brokers, 4, nil)
		h := open(t, publish.Config{Connection: connection(brokers), Slots: 64, Mapping: publish.Mapping{Topic: topic, Key: "ordering_key"}, TransactionalID: id})
		const keys, each = 32, 25
		var wg sync.WaitGroup
		for k := range keys {
			wg.Go(func() {
				for i := range each {
					given := newTask(fmt.Sprint(i))
					given.OrderingKey = fmt.Sprint(k)
					if _, err := h.Handle(t.Context(), given); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		next := make(map[string]int)
		for _, r := range read(t, brokers, topic, keys*each) {
			if n := next[string(r.Key)]; string(r.Value) != fmt.Sprint(n) {
				t.Fatalf("transactional id %q: key %s has %s where %d is next", id, r.Key, r.Value, n)
			}
			next[string(r.Key)]++
		}
		if n := ends(t, brokers, topic); id == "" && n != keys*each {
			t.Errorf("the topic has %d records, want %d", n, keys*each)
		}
	}
}

func TestATaskThatCannotBecomeARecordIsPermanent(t *testing.T) {
	t.Parallel()
	h := open(t, publish.Config{Connection: connection(brokers), Mapping: publish.Mapping{Topic: "any", Key: "payload.customer"}})
	_, err := h.Handle(t.Context(), newTask("no JSON"))
	if v := task.VerdictOf(nil, err); !v.GiveUp || v.Class != "kafka_no_record" || !strings.Contains(err.Error(), "the key: customer of the payload: it is not a JSON object") {
		t.Errorf("%v, %+v", err, v)
	}
}

func TestARefusedRecordDoesNotKeepOthersOutOfTheirTransaction(t *testing.T) {
	t.Parallel()
	small := newTopic(t, brokers, 1, map[string]*string{"max.message.bytes": ptr("1000")})
	h := open(t, publish.Config{Connection: connection(brokers), Mapping: publish.Mapping{Topic: small}, TransactionalID: "poison"})
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			given := newTask(fmt.Sprint(i))
			if i%10 == 3 {
				given.Payload = []byte(random(5000))
			}
			_, err := h.Handle(t.Context(), given)
			if v := task.VerdictOf(nil, err); (err != nil) != (i%10 == 3) || err != nil && v.Class != kafka.TooLarge {
				t.Errorf("%d: %v", i, err)
			}
		})
	}
	wg.Wait()
	seen := make(map[string]bool)
	for _, r := range read(t, brokers, small, 36) {
		if seen[string(r.Value)] || len(r.Value) > 2 {
			t.Errorf("%.20q was read twice, or should not be there", r.Value)
		}
		seen[string(r.Value)] = true
	}
}

func TestAHandlerIsDownUntilABrokerAnswers(t *testing.T) {
	t.Parallel()
	h, err := publish.New(publish.Config{
		Name: "publish", Connection: kafka.Connection{Name: "main", Brokers: []string{"127.0.0.1:1"}},
		Mapping: publish.Mapping{Topic: "any"}, Slots: 3, Timeout: time.Second, Ping: time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close(t.Context())
	capacities := make(chan task.Capacity, 100)
	defer h.Use(func(c task.Capacity) { capacities <- c }).End()
	for c := range capacities {
		if c.Slots != 0 {
			t.Fatalf("it has %d slots", c.Slots)
		}
		if strings.Contains(c.Down, "kafka.main: no broker of it answers; look whether 127.0.0.1:1 can be reached from here") {
			return
		}
	}
}
