package consume_test

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/taskengine/taskengine/kafka/consume"
)

// lateListing has the client that fetches the topics a and b list the offsets of the one that is added last: it knows no
// partitions of that yet, because the answer about the other one comes after it was added. The client then begins at the
// nearest offset that is there, without an error.
type lateListing struct {
	mu     sync.Mutex
	first  string // guarded by mu: the topic of the reader that opens its stream first; "" before that
	isHeld bool   // guarded by mu: the client waits for the answer about first
}

// patience is how long brokers wait for a client to do what a test is about.
const patience = 3 * time.Minute

// control has list answer the questions of the client for the first offset of a topic, -2, and for the end, -1. The fake
// brokers answer them if that returns nil. added returns how many partitions the client has.
func (l *lateListing) control(t *testing.T, c *kfake.Cluster, added func() int, list func(r *kmsg.ListOffsetsRequest, topic string, which int64) kmsg.Response) {
	until := func(what string, is func() bool) {
		c.SleepControl(func() {
			for end := time.Now().Add(patience); !is() && t.Context().Err() == nil; time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Errorf("%s: not within %v", what, patience)
					return
				}
			}
		})
	}
	c.Control(func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		switch r := r.(type) {
		case *kmsg.ListOffsetsRequest:
			if len(r.Topics) != 1 {
				break
			}
			topic, which := r.Topics[0].Topic, r.Topics[0].Partitions[0].Timestamp
			if r.IsolationLevel == 1 && l.holds() {
				answer := list(r, topic, which)
				return answer, nil, answer != nil
			}
			if r.IsolationLevel == 0 && which == -1 && !l.isFirst(topic) { // the last question of a reader before it opens its stream
				until("a client that asks for the other topic", l.holds)
			}
		case *kmsg.MetadataRequest:
			if len(r.Topics) == 1 && l.hold(*r.Topics[0].Topic) {
				until("a client with both topics", func() bool { return added() == 2 })
			}
		}
		return nil, nil, false
	})
}

// isFirst reports whether topic is the first one. It is if there was none.
func (l *lateListing) isFirst(topic string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.first == "" {
		l.first = topic
	}
	return l.first == topic
}

// hold reports whether a question about topic is the one to hold.
func (l *lateListing) hold(topic string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	is := !l.isHeld && l.first == topic
	l.isHeld = l.isHeld || is
	return is
}

func (l *lateListing) holds() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.isHeld
}

// The topic deletes records when a reader has found its first position in the log, and has fetched nothing yet. A client that is slow
// may learn of both topics at once, and asks one question about them: then nothing is deleted, and the test is run again.
func TestRecordsThatAreDeletedWhileAReaderBeginsAreReported(t *testing.T) {
	untilAsked(t, testRecordsThatAreDeletedWhileAReaderBegins)
}

// untilAsked runs a test until it reports that a reader has asked for one topic alone.
func untilAsked(t *testing.T, test func(t *testing.T) bool) {
	t.Parallel()
	for try := range 10 {
		happened := false
		t.Run(fmt.Sprint(try), func(t *testing.T) { happened = test(t) })
		if happened || t.Failed() {
			return
		}
	}
	t.Error("no reader has asked for one topic alone")
}

// testRecordsThatAreDeletedWhileAReaderBegins reports whether records were deleted at the right moment.
func testRecordsThatAreDeletedWhileAReaderBegins(t *testing.T) bool {
	c, fake := newFake(t, "a", "b")
	produce(t, c, append(numbered("a", 1, 0, 50), numbered("b", 1, 50, 50)...)...)
	n := &node{t: t, cluster: c, store: newStore(), pace: consume.Pace{Quick: patience}} // a second question would be taken for one of the client
	at := admin(t, c)
	var once sync.Once
	var isDeleted atomic.Bool
	new(lateListing).control(t, fake, func() int { return n.sources.Streams("orders") }, func(_ *kmsg.ListOffsetsRequest, topic string, _ int64) kmsg.Response {
		once.Do(func() {
			fake.SleepControl(func() {
				isDeleted.Store(true)
				var gone kadm.Offsets
				gone.AddOffset(topic, 0, 30, -1)
				if _, err := at.DeleteRecords(t.Context(), gone); err != nil {
					t.Error(err)
				}
			})
		})
		return nil
	})
	n.open(definition("orders", "a", "b"))
	t.Cleanup(n.close)
	n.await("the records that are left", func() bool {
		tasks, _ := n.ran()
		return tasks == 100 && !isDeleted.Load() || tasks == 70 && n.status("orders").Lag == 0 && slices.Equal(n.losses("orders"), []lossOf{{0, 0, 30, false}})
	})
	if !isDeleted.Load() {
		return false
	}
	if s := n.status("orders"); s.Here.Lost != 30 {
		t.Errorf("%+v", s)
	}
	produce(t, c, append(numbered("a", 1, 100, 10), numbered("b", 1, 110, 10)...)...)
	n.await("further records", func() bool { tasks, most := n.ran(); return tasks == 90 && most == 1 })
	if got := n.losses("orders"); len(got) != 1 {
		t.Errorf("what is lost is %v", got)
	}
	return true
}

// A broker that is not current says, when a reader begins, that the log ends before the position. The records between have
// become tasks. A client that asks one question about both topics gets no such answer, and the test is run again.
func TestABrokerThatIsNotCurrentWhenAReaderBeginsDoublesNothing(t *testing.T) {
	untilAsked(t, testABrokerThatIsNotCurrentWhenAReaderBegins)
}

// testABrokerThatIsNotCurrentWhenAReaderBegins reports whether a client began too early.
func testABrokerThatIsNotCurrentWhenAReaderBegins(t *testing.T) bool {
	const end, position, records = 5, 10, 20
	c, fake := newFake(t, "a", "b")
	produce(t, c, append(numbered("a", 1, 0, records), numbered("b", 1, records, records)...)...)
	n := &node{t: t, cluster: c, store: newStore(), pace: consume.Pace{Quick: patience}}
	n.open(definition("orders", "a", "b"))
	t.Cleanup(func() { n.close() })
	n.await("the records", func() bool { tasks, _ := n.ran(); return tasks == 2*records && n.status("orders").Lag == 0 })
	n.pauseAt("orders")
	for _, topic := range []string{"a", "b"} {
		if err := n.sources.Seek(t.Context(), n.Engine, "orders", consume.Seek{Topic: topic, Partition: new(int32(0)), Offset: new(int64(position))}); err != nil {
			t.Fatal(err)
		}
	}
	n.await("the seeks", func() bool { s := n.status("orders"); return s.Pending == 0 && s.Lag == 2*(records-position) })
	n.close()
	n.open(definition("orders", "a", "b"))
	var began atomic.Bool // the client has, too early
	fake.ControlKey(int16(kmsg.Fetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		for _, of := range r.(*kmsg.FetchRequest).Topics {
			for _, one := range of.Partitions {
				if one.FetchOffset == end {
					began.Store(true)
				}
			}
		}
		return nil, nil, false
	})
	new(lateListing).control(t, fake, func() int { return n.sources.Streams("orders") }, func(r *kmsg.ListOffsetsRequest, topic string, which int64) kmsg.Response {
		if which != -1 || began.Load() {
			return nil
		}
		stale := r.ResponseKind().(*kmsg.ListOffsetsResponse)
		of, one := kmsg.NewListOffsetsResponseTopic(), kmsg.NewListOffsetsResponseTopicPartition()
		of.Topic, one.Offset, one.Timestamp, one.LeaderEpoch = topic, end, -1, -1
		of.Partitions = append(of.Partitions, one)
		stale.Topics = append(stale.Topics, of)
		return stale
	})
	if err := n.sources.Resume(t.Context(), n.Engine, "orders"); err != nil {
		t.Fatal(err)
	}
	n.await("a client that begins before the position", func() bool { return began.Load() || n.status("orders").Lag == 0 })
	if !began.Load() {
		return false
	}
	n.await("the records behind the positions", func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.runs[fmt.Sprint(records-1)] == 2 && n.runs[fmt.Sprint(2*records-1)] == 2
	})
	n.await("the end", func() bool { return n.status("orders").Lag == 0 })
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range 2 * records {
		if want := 1 + i%records/position; n.runs[fmt.Sprint(i)] != want {
			t.Errorf("record %d has become %d tasks, want %d", i, n.runs[fmt.Sprint(i)], want)
		}
	}
	return true
}
