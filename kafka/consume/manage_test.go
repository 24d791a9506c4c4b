package consume_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/taskengine/taskengine/internal/kafkatest"
	"github.com/taskengine/taskengine/kafka/consume"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

func TestAPausedSourceReadsNothingAndKeepsItsPositions(t *testing.T) {
	onEach(t, testAPausedSourceReadsNothingAndKeepsItsPositions)
}

func testAPausedSourceReadsNothingAndKeepsItsPositions(t *testing.T, brokers cluster) {
	topic := newTopic(t, brokers, 2, nil)
	n := newNode(t, brokers, definition("orders", topic))
	produce(t, brokers, numbered(topic, 2, 0, 100)...)
	n.await("the first records", func() bool { tasks, _ := n.ran(); return tasks == 100 })
	if err := n.sources.Pause(t.Context(), n.Engine, "orders", "maintenance"); err != nil {
		t.Fatal(err)
	}
	n.await("the pause", func() bool {
		s := n.status("orders")
		return s.Pending == 0 && s.Paused != nil && s.Partitions[0].Owner == "" && s.Partitions[1].Owner == ""
	})
	if s := n.status("orders"); s.Paused.Reason != "maintenance" {
		t.Errorf("%+v", s.Paused)
	}
	produce(t, brokers, numbered(topic, 2, 100, 100)...)
	n.close()
	n.open(definition("orders", topic)) // a restart does not end the pause
	n.await("the lag", func() bool { return n.status("orders").Lag == 100 })
	time.Sleep(500 * time.Millisecond)
	if tasks, _ := n.ran(); tasks != 100 {
		t.Errorf("%d tasks have run", tasks)
	}
	if err := n.sources.Resume(t.Context(), n.Engine, "orders"); err != nil {
		t.Fatal(err)
	}
	n.await("the rest", func() bool { tasks, _ := n.ran(); return tasks == 200 })
	if _, most := n.ran(); most != 1 {
		t.Errorf("a task has run %d times", most)
	}
}

func TestASourceGoesWhereASeekSays(t *testing.T) {
	onEach(t, testASourceGoesWhereASeekSays)
}

func testASourceGoesWhereASeekSays(t *testing.T, brokers cluster) {
	topic := newTopic(t, brokers, 3, nil) // the last one stays empty
	middle := time.Now().Truncate(time.Millisecond)
	for i, r := range numbered(topic, 2, 0, 100) {
		r.Timestamp = middle.Add(time.Duration(i-50) * time.Second)
		produce(t, brokers, r)
	}
	n := newNode(t, brokers, definition("orders", topic))
	n.await("all records", func() bool { tasks, _ := n.ran(); return tasks == 100 && n.status("orders").Lag == 0 })
	one, offset := int32(1), int64(45)
	want := make(map[string]int)
	for i := range 100 {
		want[fmt.Sprint(i)] = 1
	}
	for _, c := range []struct {
		to    consume.Seek
		again func(i int) bool
	}{
		{consume.Seek{Begin: true}, func(int) bool { return true }},
		{consume.Seek{Time: middle}, func(i int) bool { return i >= 50 }},
		{consume.Seek{Time: middle.Add(-time.Hour)}, func(int) bool { return true }},      // before the first record
		{consume.Seek{Time: middle.Add(24 * time.Hour)}, func(int) bool { return false }}, // behind the last one
		{consume.Seek{Topic: topic, Partition: &one, Offset: &offset}, func(i int) bool { return i%2 == 1 && i/2 >= 45 }},
		{consume.Seek{End: true}, func(int) bool { return false }},
		{consume.Seek{Topic: topic, Begin: true}, func(int) bool { return true }},
	} {
		if err := n.sources.Seek(t.Context(), n.Engine, "orders", c.to); err != nil {
			t.Fatal(err)
		}
		for i := range 100 {
			if c.again(i) {
				want[fmt.Sprint(i)]++
			}
		}
		same := func() bool {
			n.mu.Lock()
			defer n.mu.Unlock()
			for i, times := range want {
				if n.runs[i] != times {
					return false
				}
			}
			return true
		}
		n.await(fmt.Sprintf("the seek %+v", c.to), func() bool { s := n.status("orders"); return s.Pending == 0 && s.Lag == 0 && same() })
	}
	for name, bad := range map[string]consume.Seek{
		"one of":      {Begin: true, End: true},
		"name one":    {},
		"the topic":   {Offset: &offset},
		"no topic":    {Topic: "other", Begin: true},
		"years 1970":  {Time: time.Unix(-1, 0)},
		"negative":    {Topic: topic, Partition: &one, Offset: new(int64(-1))},
		"3 partition": {Topic: topic, Partition: new(int32(3)), End: true},
	} {
		if err := n.sources.Seek(t.Context(), n.Engine, "orders", bad); !errors.Is(err, consume.ErrInvalid) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := n.sources.Pause(t.Context(), n.Engine, "unknown", ""); !errors.Is(err, consume.ErrUnknown) {
		t.Errorf("of another source: %v", err)
	}
}

// Records that cannot become tasks stop nothing. When the source is corrected, they become their tasks.
func TestARecordThatCannotBeReadIsAnErrorAndStopsNothing(t *testing.T) {
	onEach(t, testARecordThatCannotBeReadIsAnErrorAndStopsNothing)
}

func testARecordThatCannotBeReadIsAnErrorAndStopsNothing(t *testing.T, brokers cluster) {
	topic := newTopic(t, brokers, 1, nil)
	d := definition("orders", topic)
	d.OrderingKey, d.Key = "", "value.id"
	n := &node{t: t, cluster: brokers, store: newStore(), types: map[string]policy.Type{"order": policy.DefaultType()}}
	small := n.types["order"]
	small.MaxPayload = 20
	n.types["order"] = small
	n.open(d)
	t.Cleanup(func() { n.close() })
	large := `{"id":"large, and then some"}`
	for _, value := range []string{`{"id":"a"}`, "no JSON", `{"id":"b"}`, large, `{"id":"c"}`, `{"id":["d"]}`, `{"id":"e"}`} {
		produce(t, brokers, &kgo.Record{Topic: topic, Value: []byte(value), Key: []byte("k"), Headers: []kgo.RecordHeader{{Key: "h", Value: []byte{0xff}}}})
	}
	unread := func() []*task.Task {
		rows, _, err := n.List(t.Context(), storage.Filter{Types: []string{consume.UnreadTypeOf("orders")}, States: []task.State{task.Error}}, task.ID{}, 10)
		if err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(rows, func(a, b *task.Task) int {
			return strings.Compare(a.Headers["kafka-offset"], b.Headers["kafka-offset"])
		})
		return rows
	}
	n.await("the others", func() bool { tasks, _ := n.ran(); return tasks == 4 && len(unread()) == 3 })
	s := n.status("orders")
	if p := s.Partitions[0]; p.Unread != 3 || p.Tasks != 4 || p.Position != 7 || s.Here.Unread != 3 {
		t.Errorf("%+v", p)
	}
	for i, want := range []string{"offset 1", "max_payload", "offset 5"} {
		if got := unread()[i]; !strings.Contains(got.LastError, want) || got.Headers["kafka-topic"] != topic || got.Headers["kafka-offset"] != fmt.Sprint(2*i+1) {
			t.Errorf("want %q: %q, %v", want, got.LastError, got.Headers)
		}
	}
	n.close()
	d.Key = ""
	n.types["order"] = policy.DefaultType()
	n.open(d)
	for _, u := range unread() {
		if _, err := n.Resume(t.Context(), u.Ref()); err != nil {
			t.Fatal(err)
		}
	}
	n.await("those that could not be read", func() bool { tasks, most := n.ran(); return tasks == 7 && most == 1 && len(unread()) == 0 })
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.runs["no JSON"] != 1 || n.runs[large] != 1 || n.last["no JSON"].Headers["kafka-offset"] != "1" {
		t.Errorf("%v", n.runs)
	}
}

// While the backlog is full, the source does not read on, and says so.
func TestASourceWaitsForRoomInABacklog(t *testing.T) {
	t.Parallel()
	for _, full := range []policy.WhenFull{policy.PauseSource, policy.Reject} {
		t.Run(full.String(), func(t *testing.T) {
			t.Parallel()
			topic := newTopic(t, brokers, 1, nil)
			n := &node{t: t, cluster: brokers, store: newStore(), hold: make(chan struct{})}
			p := policy.DefaultType()
			p.MaxBacklog = policy.Backlog{Max: 100, WhenFull: full} // less than a transaction adds
			n.types = map[string]policy.Type{"order": p}
			d := definition("orders", topic)
			d.OrderingKey = ""
			n.open(d)
			t.Cleanup(n.close)
			produce(t, brokers, numbered(topic, 1, 0, 5000)...)
			n.await("a full backlog", func() bool { return strings.Contains(n.status("orders").Here.Waiting, "backlog") })
			s := n.status("orders")
			if p := s.Partitions[0]; p.Tasks > 100+8 || p.Owner == "" || s.Lag < 3000 {
				t.Errorf("%+v", s)
			}
			close(n.hold)
			n.await("all records", func() bool { tasks, most := n.ran(); return tasks == 5000 && most == 1 })
		})
	}
}

// Records of a type with a full backlog delay no partition but their own, and the node stops without waiting for room.
func TestAPartitionThatWaitsForABacklogDelaysNoOther(t *testing.T) {
	t.Parallel()
	full, other := newTopic(t, brokers, 1, nil), newTopic(t, brokers, 1, nil)
	n := &node{t: t, cluster: brokers, store: newStore(), hold: make(chan struct{})}
	slow := policy.DefaultType()
	slow.MaxBacklog, slow.Concurrency = policy.Backlog{Max: 1, WhenFull: policy.PauseSource}, 1
	n.types = map[string]policy.Type{"slow": slow, "order": policy.DefaultType()}
	n.holds = "slow"
	d := definition("orders", full, other)
	d.Type, d.TypeFrom, d.OrderingKey = "", "key", ""
	n.open(d)
	t.Cleanup(n.close)
	t.Cleanup(func() { close(n.hold) })
	records := func(topic, key string, first, n int) (all []*kgo.Record) {
		for i := first; i < first+n; i++ {
			all = append(all, &kgo.Record{Topic: topic, Key: []byte(key), Value: fmt.Append(nil, i)})
		}
		return all
	}
	produce(t, brokers, records(full, "slow", 0, 10_000)...) // more than fit into the feed
	n.await("a full backlog", func() bool { return strings.Contains(n.status("orders").Here.Waiting, "backlog") })
	produce(t, brokers, records(other, "order", 10_000, 1000)...)
	n.await("the records of the other partition", func() bool { tasks, most := n.ran(); return tasks == 1000 && most == 1 })
	n.await("reports of both readers", func() bool { return n.status("orders").Here.Reading == 2 })
	if s := n.status("orders"); !strings.Contains(s.Here.Waiting, "backlog") {
		t.Errorf("%+v", s.Here)
	}
	n.sources.Stop()
	n.await("the end of the readers", func() bool { return n.status("orders").Here.Reading == 0 })
}

// Partitions and topics that appear later are read from their first record on, also of a topic that is created again.
func TestATopicThatIsCreatedAgainAndNewPartitionsAreRead(t *testing.T) {
	onEach(t, testATopicThatIsCreatedAgainAndNewPartitionsAreRead)
}

func testATopicThatIsCreatedAgainAndNewPartitionsAreRead(t *testing.T, brokers cluster) {
	prefix := newTopic(t, brokers, 1, nil)
	d := definition("orders")
	d.Topics, d.Pattern = nil, prefix+".*"
	n := newNode(t, brokers, d)
	look := func() { // as it does every half a minute
		if err := n.sources.Apply(t.Context(), n.Engine); err != nil {
			t.Fatal(err)
		}
	}
	partitions := func() int { return len(n.status("orders").Partitions) }
	produce(t, brokers, numbered(prefix, 1, 0, 10)...)
	n.await("the first partition", func() bool { tasks, _ := n.ran(); return tasks == 10 })
	if made, err := admin(t, brokers).CreatePartitions(t.Context(), 2, prefix); err != nil || made[prefix].Err != nil {
		t.Fatal(err, made)
	}
	create(t, brokers, prefix+"-more", 1, nil)
	produce(t, brokers, append(numbered(prefix, 3, 10, 30), numbered(prefix+"-more", 1, 40, 10)...)...)
	n.await("new partitions", func() bool { look(); return partitions() == 4 })
	n.await("the new records", func() bool { tasks, _ := n.ran(); return tasks == 50 })
	kafkatest.DeleteTopics(t, brokers.Brokers(), prefix)
	n.await("a topic with the same name", func() bool {
		made, err := admin(t, brokers).CreateTopic(t.Context(), 2, 1, nil, prefix)
		return err == nil && made.Err == nil
	})
	produce(t, brokers, numbered(prefix, 2, 50, 20)...)
	n.await("the records of the new topic", func() bool { look(); tasks, _ := n.ran(); return tasks == 70 })
	n.await("the end of the old partitions", func() bool {
		rows, _, err := n.List(t.Context(), storage.Filter{Types: []string{consume.TypeOf("orders")}, States: []task.State{task.Done}}, task.ID{}, 10)
		return err == nil && len(rows) == 3
	})
	if _, most := n.ran(); most != 1 {
		t.Errorf("a task has run %d times", most)
	}
	kafkatest.DeleteTopics(t, brokers.Brokers(), prefix+"-more")
	if err := n.sources.Seek(t.Context(), n.Engine, "orders", consume.Seek{Begin: true}); err != nil {
		t.Fatal(err)
	}
	n.await("a seek of the topics that are there", func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.runs["50"] == 2 && n.runs["69"] == 2
	})
	n.await("the end of the order", func() bool { return n.status("orders").Pending == 0 })
}

// The range of records that a topic has deleted before they were read is reported, and the source goes on behind it.
func TestRecordsThatAreDeletedBeforeTheyAreReadAreReported(t *testing.T) {
	onEach(t, testRecordsThatAreDeletedBeforeTheyAreReadAreReported)
}

func testRecordsThatAreDeletedBeforeTheyAreReadAreReported(t *testing.T, brokers cluster) {
	topic := newTopic(t, brokers, 1, nil)
	n := newNode(t, brokers, definition("orders", topic))
	produce(t, brokers, numbered(topic, 1, 0, 10)...)
	n.await("the first records", func() bool { tasks, _ := n.ran(); return tasks == 10 })
	if err := n.sources.Pause(t.Context(), n.Engine, "orders", ""); err != nil {
		t.Fatal(err)
	}
	n.await("the pause", func() bool { return n.status("orders").Partitions[0].Owner == "" })
	produce(t, brokers, numbered(topic, 1, 10, 40)...)
	var gone kadm.Offsets
	gone.AddOffset(topic, 0, 30, -1)
	if _, err := admin(t, brokers).DeleteRecords(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	if err := n.sources.Resume(t.Context(), n.Engine, "orders"); err != nil {
		t.Fatal(err)
	}
	n.await("the records that are left", func() bool { tasks, _ := n.ran(); return tasks == 30 })
	s := n.status("orders")
	if lost := s.Partitions[0].Lost; len(lost) != 1 || lost[0].From != 10 || lost[0].To != 30 || s.Here.Lost != 20 {
		t.Errorf("%+v", s)
	}
}

// Aborted records become no tasks, and the positions go beyond the markers of transactions.
func TestOnlyCommittedRecordsBecomeTasks(t *testing.T) {
	onEach(t, testOnlyCommittedRecordsBecomeTasks)
}

func testOnlyCommittedRecordsBecomeTasks(t *testing.T, brokers cluster) {
	topic := newTopic(t, brokers, 1, nil)
	n := newNode(t, brokers, definition("orders", topic))
	client, err := kafkatest.Client(brokers.Brokers(), kgo.TransactionalID("test-"+topic))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for i := range 6 {
		if err := client.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := client.ProduceSync(t.Context(), numbered(topic, 1, 10*i, 10)...).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := client.EndTransaction(t.Context(), kgo.TransactionEndTry(i%2 == 0)); err != nil {
			t.Fatal(err)
		}
	}
	n.await("the committed records", func() bool { tasks, _ := n.ran(); return tasks == 30 && n.status("orders").Lag == 0 })
	if _, most := n.ran(); most != 1 || n.runs["10"] != 0 {
		t.Errorf("%v", n.runs)
	}
}

func TestAPlanSaysWhereASeekGoesAndChangesNothing(t *testing.T) {
	onEach(t, testAPlanSaysWhereASeekGoesAndChangesNothing)
}

func testAPlanSaysWhereASeekGoesAndChangesNothing(t *testing.T, brokers cluster) {
	topic := newTopic(t, brokers, 2, nil)
	n := newNode(t, brokers, definition("orders", topic))
	produce(t, brokers, numbered(topic, 2, 0, 20)...)
	n.await("the records", func() bool { return n.status("orders").Lag == 0 && len(n.status("orders").Partitions) == 2 })
	n.await("the positions", func() bool { return n.status("orders").Partitions[1].Position == 10 })
	for _, c := range []struct {
		to   consume.Seek
		want []consume.Move
	}{
		{consume.Seek{Begin: true}, []consume.Move{{topic, 0, 10, 0}, {topic, 1, 10, 0}}},
		{consume.Seek{End: true, Topic: topic}, []consume.Move{{topic, 0, 10, 10}, {topic, 1, 10, 10}}},
		{consume.Seek{Time: time.Now().Add(time.Hour)}, []consume.Move{{topic, 0, 10, 10}, {topic, 1, 10, 10}}},
		{consume.Seek{Offset: new(int64(4)), Topic: topic, Partition: new(int32(1))}, []consume.Move{{topic, 1, 10, 4}}},
	} {
		got, err := n.sources.Plan(t.Context(), n.Engine, "orders", c.to)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v, %v; want %v", c.to, got, err, c.want)
		}
	}
	for _, wrong := range []consume.Seek{{}, {Begin: true, Topic: "other"}, {End: true, Topic: topic, Partition: new(int32(2))}} {
		if _, err := n.sources.Plan(t.Context(), n.Engine, "orders", wrong); !errors.Is(err, consume.ErrInvalid) {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
	if s := n.status("orders"); s.Pending != 0 || s.Partitions[0].Position != 10 {
		t.Errorf("%+v", s)
	}
}

// A source is paused and resumed while it waits for brokers that give no answer.
func TestASourceIsPausedWhileItWaitsForBrokers(t *testing.T) {
	t.Parallel()
	c, fake := newFake(t, "a")
	produce(t, c, numbered("a", 1, 0, 10)...)
	n := newNode(t, c, definition("orders", "a"))
	n.await("the records", func() bool { tasks, _ := n.ran(); return tasks == 10 })
	s := n.status("orders")
	row := func(id task.ID) *task.Task {
		found, err := n.Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	isPaused := func() bool {
		r := row(s.Partitions[0].Task)
		return r.State == task.Waiting && r.NextEventAt.Year() == 9999
	}
	heal, held := hang(t, fake, func(kmsg.Request) bool { return true })
	for range 2 {
		n.await("a run that waits", func() bool { n.look(); return held.Load() > 0 && row(s.Task).State == task.Processing })
		if err := n.sources.Pause(t.Context(), n.Engine, "orders", ""); err != nil {
			t.Fatal(err)
		}
		n.await("a pause", isPaused)
		if err := n.sources.Resume(t.Context(), n.Engine, "orders"); err != nil {
			t.Fatal(err)
		}
		n.await("its end", func() bool { return !isPaused() })
	}
	heal()
	produce(t, c, numbered("a", 1, 10, 10)...)
	n.await("further records", func() bool { tasks, most := n.ran(); return tasks == 20 && most == 1 })
}
