package consume_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/taskengine/taskengine/internal/kafkatest"
	"github.com/taskengine/taskengine/kafka/consume"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/storage/storagetest"
)

// The store fails before, in and at the end of transactions of readers. Each record becomes one task.
func TestAStoreThatFailsNowAndThenLosesAndDoublesNothing(t *testing.T) {
	t.Parallel()
	topic := newTopic(t, brokers, 2, nil)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	var mu sync.Mutex
	rng, left := rand.New(rand.NewPCG(seed, 1)), 60
	errFault := errors.New("a fault")
	n := &node{t: t, cluster: brokers, store: memory.New()}
	n.reads = storagetest.Faulty(n.store, func(c storagetest.Call) (f storagetest.Fault) {
		mu.Lock()
		defer mu.Unlock()
		if left == 0 || rng.IntN(10) > 0 {
			return f
		}
		left--
		return storagetest.Fault{Before: errFault}
	})
	n.types = map[string]policy.Type{"order": policy.DefaultType(), consume.TypeOf("orders"): quickRetries(t)}
	n.open(definition("orders", topic))
	t.Cleanup(n.close)
	filling, full := context.WithCancel(t.Context())
	produced := make(chan int)
	go func() {
		total := 0
		for ; filling.Err() == nil; time.Sleep(10 * time.Millisecond) {
			if tasks, _ := n.ran(); tasks > total-200 { // more at once would only take longer
				produce(t, brokers, numbered(topic, 2, total, 50)...)
				total += 50
			}
		}
		produced <- total
	}()
	n.await("faults", func() bool { mu.Lock(); defer mu.Unlock(); return left == 0 })
	full()
	total := <-produced
	n.await("all records", func() bool { tasks, _ := n.ran(); return tasks == total })
	got := n.status("orders")
	var added uint64
	for _, p := range got.Partitions {
		added += p.Tasks
	}
	if added != uint64(total) || n.inserted() != total {
		t.Errorf("%d records became %d tasks, and %d rows were added: %+v", total, added, n.inserted(), got)
	}
}

// quickRetries returns the policy of a source that tries again at once.
func quickRetries(t *testing.T) policy.Type {
	t.Helper()
	sources, err := consume.New(consume.Config{Sources: []consume.Source{{Definition: definition("orders", "any")}}})
	if err != nil {
		t.Fatal(err)
	}
	return retryingAfter(sources.Policies()[consume.TypeOf("orders")], time.Millisecond)
}

// The broker dies again and again, and hangs. Each record becomes one task.
func TestABrokerThatIsKilledAndHangsLosesAndDoublesNothing(t *testing.T) {
	t.Parallel()
	c := kafkatest.New(t, 1)
	topic := newTopic(t, c, 3, nil)
	n := newNode(t, c, definition("orders", topic))
	client, err := kafkatest.Client(c.Brokers(), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.RequestTimeoutOverhead(2*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	filling, full := context.WithCancel(t.Context())
	produced := make(chan int)
	go func() {
		total := 0
		for ; filling.Err() == nil; total++ {
			client.Produce(context.Background(), numbered(topic, 3, total, 1)[0], func(_ *kgo.Record, err error) {
				if err != nil && !errors.Is(err, kgo.ErrClientClosed) { // the test has failed
					t.Error(err)
				}
			})
			time.Sleep(2 * time.Millisecond)
		}
		if err := client.Flush(context.Background()); err != nil {
			t.Error(err)
		}
		produced <- total
	}()
	more := func() {
		before, _ := n.ran()
		n.await("further records", func() bool { tasks, _ := n.ran(); return tasks > before+100 })
	}
	more()
	for range 2 {
		if err := c.Kill(0); err != nil {
			t.Fatal(err)
		}
		if err := c.Restart(0); err != nil {
			t.Fatal(err)
		}
		more()
	}
	if err := c.Pause(0); err != nil {
		t.Fatal(err)
	}
	time.Sleep(500 * time.Millisecond) // the broker hangs
	if err := c.Resume(0); err != nil {
		t.Fatal(err)
	}
	more()
	full()
	total := <-produced
	n.await("all records", func() bool { tasks, _ := n.ran(); return tasks == total && n.status("orders").Lag == 0 })
	if n.inserted() != total {
		t.Errorf("%d records, and %d rows were added", total, n.inserted())
	}
}

// One of three brokers is lost, and the partitions move to other brokers. Each record becomes one task.
func TestPartitionsThatMoveBetweenBrokersLoseAndDoubleNothing(t *testing.T) {
	t.Parallel()
	c := kafkatest.New(t, 3)
	const topic = "moving"
	kadmin := admin(t, c)
	kafkatest.CreateTopic(t, kadmin, 3, 3, map[string]*string{"min.insync.replicas": new("2")}, topic)
	n := newNode(t, c, definition("orders", topic))
	client, err := kafkatest.Client(c.Brokers(), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	total := 0
	send := func() { // waits until the records are confirmed, and have become tasks
		t.Helper()
		if err := client.ProduceSync(t.Context(), numbered(topic, 3, total, 300)...).FirstErr(); err != nil {
			t.Fatal(err)
		}
		total += 300
		n.await("further records", func() bool { tasks, _ := n.ran(); return tasks == total })
	}
	send()
	if err := c.Kill(0); err != nil {
		t.Fatal(err)
	}
	send()
	if err := c.Restart(0); err != nil {
		t.Fatal(err)
	}
	for round := range 2 {
		var moves kadm.AlterPartitionAssignmentsReq
		for p := range int32(3) {
			first := (p + int32(round) + 1) % 3
			moves.Assign(topic, p, []int32{first + 1, (first+1)%3 + 1})
		}
		n.await("partitions that move", func() bool {
			moved, err := kadmin.AlterPartitionAssignments(t.Context(), moves)
			return err == nil && moved.Error() == nil
		})
		send()
	}
	if s := n.status("orders"); n.inserted() != total || s.Here.Lost != 0 {
		t.Errorf("%d records, and %d rows were added: %+v", total, n.inserted(), s)
	}
}

// Without brokers a source is paused and resumed, though a seek waits for them.
func TestASourceIsPausedWithoutBrokers(t *testing.T) {
	t.Parallel()
	c := kafkatest.New(t, 1)
	topic := newTopic(t, c, 2, nil)
	produce(t, c, numbered(topic, 2, 0, 100)...)
	n := newNode(t, c, definition("orders", topic))
	n.await("the records", func() bool { tasks, _ := n.ran(); return tasks == 100 && n.status("orders").Lag == 0 })
	if err := c.Kill(0); err != nil {
		t.Fatal(err)
	}
	if err := n.sources.Seek(t.Context(), n.Engine, "orders", consume.Seek{Begin: true}); err != nil {
		t.Fatal(err)
	}
	if err := n.sources.Pause(t.Context(), n.Engine, "orders", ""); err != nil {
		t.Fatal(err)
	}
	n.await("a pause beside a seek that waits", func() bool {
		s := n.status("orders")
		return s.Paused != nil && s.Pending == 1 && s.Partitions[0].Owner == "" && s.Partitions[1].Owner == ""
	})
	if err := n.sources.Resume(t.Context(), n.Engine, "orders"); err != nil {
		t.Fatal(err)
	}
	n.await("the end of the pause", func() bool { return n.status("orders").Paused == nil })
	if err := c.Restart(0); err != nil {
		t.Fatal(err)
	}
	n.await("all records once more", func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		for _, times := range n.runs {
			if times != 2 {
				return false
			}
		}
		return true
	})
}

// Records that cannot become tasks yet stay in their topic, also if they are large.
func TestRecordsThatWaitForABacklogTakeLittleMemory(t *testing.T) {
	t.Parallel()
	topic := newTopic(t, brokers, 4, nil)
	n := &node{t: t, cluster: brokers, store: newStore(), hold: make(chan struct{})}
	p := policy.DefaultType()
	p.MaxBacklog = policy.Backlog{Max: 1, WhenFull: policy.PauseSource}
	n.types = map[string]policy.Type{"order": p}
	d := definition("orders", topic)
	d.OrderingKey = ""
	n.open(d)
	t.Cleanup(n.close)
	defer close(n.hold)
	records := numbered(topic, 4, 0, 120)
	rng := rand.NewChaCha8([32]byte{1})
	for _, r := range records {
		large := make([]byte, 500<<10) // random, because brokers count compressed bytes
		_, _ = rng.Read(large)
		r.Value = large
	}
	produce(t, brokers, records...)
	n.await("a full backlog", func() bool { return n.status("orders").Here.Waiting != "" })
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if got := n.sources.Waiting("orders"); got > 4*3<<20 {
			t.Fatalf("%d bytes wait, of %d", got, 120*500<<10)
		}
	}
}
