package publish_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/taskengine/taskengine/internal/kafkatest"
	"github.com/taskengine/taskengine/kafka"
	"github.com/taskengine/taskengine/kafka/publish"
	"github.com/taskengine/taskengine/task"
)

// A broker that hangs leaves open whether it has the record. The attempts that follow wait for that one.
func TestARecordInDoubtIsNotSentAgain(t *testing.T) {
	t.Parallel()
	c := kafkatest.New(t, 1)
	topic := newTopic(t, c, 1, nil)
	h := open(t, publish.Config{Connection: connection(c), Mapping: publish.Mapping{Topic: topic}})
	if _, err := h.Handle(t.Context(), newTask("warm")); err != nil {
		t.Fatal(err)
	}
	if err := c.Pause(0); err != nil {
		t.Fatal(err)
	}
	waits, later := newTask("waits"), newTask("later")
	for range 3 {
		for _, given := range []*task.Task{waits, later} {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			_, err := h.Handle(ctx, given)
			cancel()
			if v := task.VerdictOf(nil, err); !v.InDoubt || v.Class != "kafka_unconfirmed" {
				t.Fatalf("%v, %+v", err, v)
			}
		}
	}
	edited := *waits
	edited.Payload = []byte("edited")
	if _, err := h.Handle(t.Context(), &edited); !errors.Is(err, task.ErrUnavailable) {
		t.Errorf("while the record before is under way: %v", err)
	}
	if err := c.Resume(0); err != nil {
		t.Fatal(err)
	}
	await(t, "the records", func() bool { return ends(t, c, topic) >= 3 })
	var result struct{ Offset int64 }
	await(t, "the outcome of the record that had no attempt", func() bool {
		got, err := h.Handle(t.Context(), waits)
		return err == nil && json.Unmarshal(got, &result) == nil
	})
	if result.Offset != 1 && result.Offset != 2 {
		t.Errorf("its offset is %d", result.Offset)
	}
	if _, err := h.Handle(t.Context(), &edited); err != nil {
		t.Errorf("an edited task after the record: %v", err)
	}
	if n := ends(t, c, topic); n != 4 {
		t.Errorf("the topic has %d records, want 4", n)
	}
}

// While the broker is killed and started again and again, or one of three is lost at a time, each task is written once, in
// the order of its key.
func TestNothingIsLostOrDoubledWhileTheBrokerIsKilled(t *testing.T) {
	t.Parallel()
	for _, of := range []struct {
		id             string
		brokers, kills int
	}{{"", 1, 3}, {"killed", 1, 3}, {"", 3, 2}} {
		t.Run(fmt.Sprintf("transactional id %s, %d brokers", of.id, of.brokers), func(t *testing.T) {
			t.Parallel()
			c := kafkatest.New(t, of.brokers)
			const topic = "written"
			kafkatest.CreateTopic(t, kadm.NewClient(client(t, c)), 3, int16(of.brokers), map[string]*string{"min.insync.replicas": ptr(fmt.Sprint(min(2, of.brokers)))}, topic)
			timeout := 2 * time.Second // attempts run out of time while the broker starts
			if of.id != "" {
				timeout = 20 * time.Second // the outcome of a transaction is looked for as long
			}
			h := open(t, publish.Config{
				Connection: connection(c), Mapping: publish.Mapping{Topic: topic, Key: "ordering_key"}, Timeout: timeout, TransactionalID: of.id,
			})
			sent, stop := writeOrdered(t, h)
			more := func() {
				before := sent.Load()
				await(t, "records", func() bool { return sent.Load() > before+100 })
			}
			for broker := range of.kills {
				more()
				if err := c.Kill(broker % of.brokers); err != nil {
					t.Fatal(err)
				}
				if of.brokers > 1 {
					more() // without it
				}
				if err := c.Restart(broker % of.brokers); err != nil {
					t.Fatal(err)
				}
			}
			stop()
			total := int(sent.Load())
			next := make(map[string]int)
			for _, r := range read(t, c, topic, total) {
				if n := next[string(r.Key)]; string(r.Value) != fmt.Sprint(n) {
					t.Fatalf("key %s has %s where %d is next", r.Key, r.Value, n)
				}
				next[string(r.Key)]++
			}
			if n := ends(t, c, topic); of.id == "" && n != int64(total) {
				t.Errorf("the topic has %d records of %d tasks", n, total)
			}
		})
	}
}

// writeOrdered writes tasks of several keys, one after the other of each key, until stop is called. It counts the tasks that are
// confirmed.
func writeOrdered(t *testing.T, h *publish.Handler) (sent *atomic.Int64, stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	sent = new(atomic.Int64)
	var wg sync.WaitGroup
	for k := range 20 {
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				given := newTask(fmt.Sprint(i))
				given.OrderingKey = fmt.Sprint(k)
				for { // as the engine does
					_, err := h.Handle(context.Background(), given)
					if err == nil {
						sent.Add(1)
						break
					}
					if task.VerdictOf(nil, err).GiveUp {
						t.Errorf("%v", err)
						return
					}
					time.Sleep(10 * time.Millisecond)
				}
				time.Sleep(5 * time.Millisecond) // more records are no better test of the broker's end
			}
		})
	}
	return sent, func() {
		cancel()
		wg.Wait()
	}
}

// A topic that takes no records keeps half of the slots at most, and its tasks are handed back.
func TestATopicThatTakesNoRecordsDelaysNoOther(t *testing.T) {
	t.Parallel()
	fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "stuck", "good"))
	if err != nil {
		t.Fatal(err)
	}
	defer fake.Close()
	fault := fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "stuck", Err: kerr.NotEnoughReplicas, Count: -1})
	h := open(t, publish.Config{
		Connection: kafka.Connection{Name: "main", Brokers: fake.ListenAddrs()}, Slots: 10, Mapping: publish.Mapping{TopicFrom: "headers.to"},
	})
	handle := func(topic string) error {
		given := newTask("x")
		given.Headers = map[string]string{"to": topic}
		_, err := h.Handle(t.Context(), given)
		return err
	}
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			err := handle("stuck")
			for ; errors.Is(err, task.ErrUnavailable); err = handle("stuck") {
				time.Sleep(time.Millisecond) // a probe was faster
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	await(t, "five records that wait", func() bool {
		probing, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		given := newTask("probe")
		given.Headers = map[string]string{"to": "stuck"}
		_, err := h.Handle(probing, given)
		return errors.Is(err, task.ErrUnavailable) && strings.Contains(err.Error(), "5 records for topic stuck wait")
	})
	for range 20 {
		if err := handle("good"); err != nil {
			t.Fatal(err)
		}
	}
	fault.Remove()
	wg.Wait()
}

// Records that no broker confirms take the slots of their attempts until they are confirmed: further tasks wait in the engine.
func TestRecordsInDoubtTakeSlots(t *testing.T) {
	t.Parallel()
	fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "stuck"))
	if err != nil {
		t.Fatal(err)
	}
	defer fake.Close()
	h := open(t, publish.Config{
		Connection: kafka.Connection{Name: "main", Brokers: fake.ListenAddrs()}, Slots: 3, Mapping: publish.Mapping{Topic: "stuck"},
	})
	if _, err := h.Handle(t.Context(), newTask("warm")); err != nil { // the first attempt asks for the limits of the topic
		t.Fatal(err)
	}
	fault := fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicas, Count: -1})
	var now atomic.Pointer[task.Capacity]
	defer h.Use(func(c task.Capacity) { now.Store(&c) }).End()
	attempt := func(given *task.Task) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if _, err := h.Handle(ctx, given); !task.VerdictOf(nil, err).InDoubt {
			t.Fatal(err)
		}
	}
	tasks := []*task.Task{newTask("a"), newTask("b"), newTask("c")}
	for i, given := range tasks {
		attempt(given)
		attempt(given) // and takes no further slot
		if c := *now.Load(); c.Slots != 2-i {
			t.Errorf("with %d records in doubt there are %d slots", i+1, c.Slots)
		}
	}
	if c := *now.Load(); !strings.Contains(c.Down, "3 records of earlier attempts wait for a broker to confirm them") || h.Down() != c.Down {
		t.Errorf("without a slot it is down for %q, %q", c.Down, h.Down())
	}
	fault.Remove()
	await(t, "all slots", func() bool { return now.Load().Slots == 3 })
	for _, given := range tasks {
		if _, err := h.Handle(t.Context(), given); err != nil {
			t.Error(err)
		}
	}
}

// A setting that is lowered after the handler has learned it makes whole batches too large, and no record alone.
func TestRecordsAreNotRefusedForTheSizeOfTheirBatch(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"", "batches"} {
		topic := newTopic(t, brokers, 1, nil)
		h := open(t, publish.Config{Connection: connection(brokers), Mapping: publish.Mapping{Topic: topic}, TransactionalID: id})
		if _, err := h.Handle(t.Context(), newTask("first")); err != nil {
			t.Fatal(err)
		}
		_, err := kadm.NewClient(client(t, brokers)).AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "max.message.bytes", Value: ptr("3000")}}, topic)
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 60 {
			wg.Go(func() {
				if _, err := h.Handle(t.Context(), newTask(random(2000))); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if n := len(read(t, brokers, topic, 61)); n != 61 {
			t.Errorf("the topic has %d records, want 61", n)
		}
	}
}

// Records may be as large as the topic allows, although the usual bound of a batch is smaller.
func TestALargeRecordIsSentToATopicThatTakesIt(t *testing.T) {
	t.Parallel()
	topic := newTopic(t, brokers, 1, map[string]*string{"max.message.bytes": ptr("8000000")})
	for _, id := range []string{"", "large"} {
		h := open(t, publish.Config{Connection: connection(brokers), Mapping: publish.Mapping{Topic: topic}, TransactionalID: id})
		if _, err := h.Handle(t.Context(), newTask(random(3<<20))); err != nil {
			t.Error(err)
		}
	}
}

// A topic that was deleted is an error, and works again when it was created again.
func TestATopicThatIsDeletedAndCreatedAgain(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"", "created again"} {
		t.Run("transactional id "+id, func(t *testing.T) {
			t.Parallel()
			topic := newTopic(t, brokers, 2, nil)
			h := open(t, publish.Config{Connection: connection(brokers), Mapping: publish.Mapping{Topic: topic}, TransactionalID: id})
			admin := kadm.NewClient(client(t, brokers))
			for range 3 {
				if _, err := h.Handle(t.Context(), newTask("x")); err != nil {
					t.Fatal(err)
				}
			}
			kafkatest.DeleteTopics(t, brokers.Brokers(), topic)
			_, err := h.Handle(t.Context(), newTask("x"))
			if v := task.VerdictOf(nil, err); !v.GiveUp || v.Class != kafka.UnknownTopic {
				t.Fatalf("without the topic: %v", err)
			}
			kafkatest.CreateTopic(t, admin, 2, 1, nil, topic)
			var last error
			await(t, "a record in the new topic", func() bool {
				_, last = h.Handle(t.Context(), newTask("x"))
				return last == nil
			}, func() string { return last.Error() })
		})
	}
}

// A broker that answers the end of a transaction with an error may have made it or not.
func TestATransactionThatWasNotCommittedIsNotInDoubt(t *testing.T) {
	t.Parallel()
	fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
	if err != nil {
		t.Fatal(err)
	}
	defer fake.Close()
	h := open(t, publish.Config{
		Connection: kafka.Connection{Name: "main", Brokers: fake.ListenAddrs()}, Mapping: publish.Mapping{Topic: "t"}, TransactionalID: "x",
	})
	fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.EndTxn}, Err: kerr.UnknownServerError, TopLevel: true})
	_, err = h.Handle(t.Context(), newTask("first"))
	if v := task.VerdictOf(nil, err); err == nil || v.InDoubt || v.GiveUp {
		t.Errorf("%v, %+v", err, v)
	}
	if _, err := h.Handle(t.Context(), newTask("second")); err != nil {
		t.Fatal(err)
	}
}

func TestTheOutcomeOfATransactionIsFoundOut(t *testing.T) {
	t.Parallel()
	topic := newTopic(t, brokers, 1, nil)
	for name, c := range map[string]struct {
		end  func(*kgo.Client) error
		want bool
	}{
		"committed": {func(c *kgo.Client) error { return c.EndTransaction(t.Context(), kgo.TryCommit) }, true},
		"aborted":   {func(c *kgo.Client) error { return c.EndTransaction(t.Context(), kgo.TryAbort) }, false},
		"open":      {func(c *kgo.Client) error { return nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			before := client(t, brokers, kgo.TransactionalID(topic))
			r := &kgo.Record{Topic: topic, Value: []byte(name)}
			if err := before.BeginTransaction(); err != nil {
				t.Fatal(err)
			}
			if err := before.ProduceSync(t.Context(), r).FirstErr(); err != nil {
				t.Fatal(err)
			}
			if err := c.end(before); err != nil {
				t.Fatal(err)
			}
			committed, err := publish.Look(publish.Config{Connection: connection(brokers), Timeout: time.Minute, TransactionalID: topic}, r)
			if committed != c.want || err != nil {
				t.Errorf("committed: %v, %v", committed, err)
			}
		})
	}
}
