package consume_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/kafka/consume"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/storagetest"
	"github.com/taskengine/taskengine/task"
)

const many = 12_000 // records of a partition, which are several transactions

// heldReader is a node whose reader of a partition with many records has committed the first ones, and waits before it
// commits further ones that it has prepared.
type heldReader struct {
	*node
	at    int64 // the position
	store *heldStore
}

// heldStore is a store in which the third transaction of readers waits. The first one opens the relay of the only
// reader, and the second one adds the first tasks.
type heldStore struct {
	storage.Store
	transactions   atomic.Int32
	held, released chan struct{}
	once           sync.Once  // closes released
	outcome        chan error // of the third transaction
}

func (s *heldStore) Update(ctx context.Context, fn func(storage.Tx) error) error {
	if s.transactions.Add(1) != 3 {
		return s.Store.Update(ctx, fn)
	}
	close(s.held)
	<-s.released
	err := s.Store.Update(ctx, fn)
	s.outcome <- err
	return err
}

func (s *heldStore) release() { s.once.Do(func() { close(s.released) }) }

func holdReader(t *testing.T) *heldReader {
	t.Helper()
	topic := newTopic(t, brokers, 1, nil)
	produce(t, brokers, numbered(topic, 1, 0, many)...)
	h := &heldReader{node: &node{t: t, cluster: brokers, store: newStore(), hold: make(chan struct{})}}
	h.store = &heldStore{Store: h.node.store, held: make(chan struct{}), released: make(chan struct{}), outcome: make(chan error, 1)}
	h.reads = h.store
	d := definition("orders", topic)
	d.OrderingKey = ""
	h.open(d)
	t.Cleanup(h.close)
	t.Cleanup(func() { h.store.release(); close(h.hold) })
	<-h.store.held
	if h.at = h.status("orders").Partitions[0].Position; h.at <= 0 || h.at >= many/2 {
		t.Fatalf("the reader is held at %d", h.at)
	}
	return h
}

// goOn has the reader go on, which has lost its partition.
func (h *heldReader) goOn() {
	h.t.Helper()
	h.store.release()
	if err := <-h.store.outcome; err == nil {
		h.t.Error("a reader that has lost its partition has committed")
	}
}

// checkAdded checks that the records of these ranges have become one task each, and no others.
func (n *node) checkAdded(ranges ...[2]int64) {
	n.t.Helper()
	added := make(map[string]int)
	for after := (task.ID{}); ; {
		rows, next, err := n.List(n.t.Context(), storage.Filter{Types: []string{"order"}}, after, 1000)
		if err != nil {
			n.t.Fatal(err)
		}
		for _, row := range rows {
			full, err := n.Get(n.t.Context(), row.ID)
			if err != nil {
				n.t.Fatal(err)
			}
			added[string(full.Payload)]++
		}
		if after = next; after.IsZero() {
			break
		}
	}
	total := 0
	for _, r := range ranges {
		for i := r[0]; i < r[1]; i++ {
			if total++; added[fmt.Sprint(i)] != 1 {
				n.t.Fatalf("record %d has become %d tasks", i, added[fmt.Sprint(i)])
			}
		}
	}
	if len(added) != total {
		n.t.Errorf("%d records have become tasks, want %d", len(added), total)
	}
}

// A seek moves the position while a reader has records prepared. None of these becomes a task.
func TestRecordsThatWerePreparedBeforeASeekAreNotAdded(t *testing.T) {
	t.Parallel()
	h := holdReader(t)
	status := h.status("orders").Partitions[0]
	const to = many * 3 / 4
	if err := h.sources.Seek(t.Context(), h.Engine, "orders", consume.Seek{Topic: status.Topic, Partition: &status.Partition, Offset: new(int64(to))}); err != nil {
		t.Fatal(err)
	}
	h.await("the seek", func() bool { s := h.status("orders"); return s.Pending == 0 && s.Partitions[0].Position >= to })
	h.goOn()
	h.await("the records behind the seek", func() bool { return h.status("orders").Lag == 0 })
	h.checkAdded([2]int64{0, h.at}, [2]int64{to, many})
}

// A source is paused while a reader has records prepared. They become tasks when it is resumed.
func TestRecordsThatWerePreparedBeforeAPauseAreAddedOnceAfterIt(t *testing.T) {
	t.Parallel()
	h := holdReader(t)
	if err := h.sources.Pause(t.Context(), h.Engine, "orders", ""); err != nil {
		t.Fatal(err)
	}
	h.await("the pause", func() bool { s := h.status("orders"); return s.Pending == 0 && s.Partitions[0].Owner == "" })
	h.goOn()
	h.await("the end of the reader", func() bool { return h.status("orders").Here.Reading == 0 })
	if s := h.status("orders"); s.Partitions[0].Position != h.at || s.Partitions[0].Tasks != uint64(h.at) {
		t.Errorf("paused at %d: %+v", h.at, s.Partitions[0])
	}
	if err := h.sources.Resume(t.Context(), h.Engine, "orders"); err != nil {
		t.Fatal(err)
	}
	h.await("all records", func() bool { return h.status("orders").Lag == 0 })
	h.checkAdded([2]int64{0, many})
}

// A reader loses its partition while it has records prepared, without noticing it. The next reader adds them.
func TestAReaderThatHasLostItsPartitionAddsNothingItHadPrepared(t *testing.T) {
	t.Parallel()
	h := holdReader(t)
	row, err := h.Get(t.Context(), h.status("orders").Partitions[0].Task)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Edit(t.Context(), row.Ref(), engine.Edit{Interrupts: true, At: new(h.Now())}); err != nil {
		t.Fatal(err)
	}
	h.goOn()
	h.await("all records", func() bool { return h.status("orders").Lag == 0 })
	h.checkAdded([2]int64{0, many})
	if got := h.status("orders").Partitions[0]; got.Tasks != many || got.Records != many {
		t.Errorf("%+v", got)
	}
}

// Transactions fail at their begin, in their middle and before their end, while the next records are prepared.
func TestCommitsThatFailWhileTheNextIsPreparedLoseAndDoubleNothing(t *testing.T) {
	t.Parallel()
	topic := newTopic(t, brokers, 2, nil)
	produce(t, brokers, numbered(topic, 2, 0, 2*many)...)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	n := &node{t: t, cluster: brokers, store: newStore(), hold: make(chan struct{})}
	var mu sync.Mutex
	rng, left := rand.New(rand.NewPCG(seed, 1)), 10
	errFault := errors.New("a fault")
	n.reads = storagetest.Faulty(n.store, func(c storagetest.Call) (f storagetest.Fault) {
		mu.Lock()
		defer mu.Unlock()
		if left == 0 || rng.IntN(3) > 0 {
			return f
		}
		left--
		if c != storagetest.Update && rng.IntN(2) == 0 {
			return storagetest.Fault{After: errFault} // the transaction is rolled back
		}
		return storagetest.Fault{Before: errFault}
	})
	n.types = map[string]policy.Type{"order": policy.DefaultType(), consume.TypeOf("orders"): quickRetries(t)}
	d := definition("orders", topic)
	d.OrderingKey = ""
	n.open(d)
	t.Cleanup(n.close)
	t.Cleanup(func() { close(n.hold) })
	n.await("all records", func() bool { return n.status("orders").Lag == 0 })
	n.checkAdded([2]int64{0, 2 * many})
	mu.Lock()
	defer mu.Unlock()
	if left == 10 {
		t.Error("no transaction has failed")
	}
}

// Of many records that the engine refuses, each is kept, and the others become tasks.
func TestManyRecordsThatTheEngineRefusesAreKeptOneByOne(t *testing.T) {
	t.Parallel()
	topic := newTopic(t, brokers, 1, nil)
	n := &node{t: t, cluster: brokers, store: newStore()}
	small := policy.DefaultType()
	small.MaxPayload = 4
	n.types = map[string]policy.Type{"order": small}
	var records []*kgo.Record
	for i := range 3000 {
		value := fmt.Append(nil, i)
		if i%2 == 1 {
			value = fmt.Append(nil, "large ", i)
		}
		records = append(records, &kgo.Record{Topic: topic, Value: value})
	}
	produce(t, brokers, records...)
	d := definition("orders", topic)
	d.OrderingKey = ""
	n.open(d)
	t.Cleanup(n.close)
	n.await("the small ones", func() bool { tasks, _ := n.ran(); return tasks == 1500 && n.status("orders").Lag == 0 })
	if p := n.status("orders").Partitions[0]; p.Tasks != 1500 || p.Unread != 1500 || p.Records != 3000 {
		t.Errorf("%+v", p)
	}
}
