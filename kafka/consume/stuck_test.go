package consume_test

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/internal/kafkatest"
	"github.com/taskengine/taskengine/kafka/source"
)

// hang has the broker give no answer to some requests until the result is called, and answer the others.
func hang(t *testing.T, c *kfake.Cluster, is func(kmsg.Request) bool) (heal func(), held *atomic.Int64) {
	healed := make(chan struct{})
	held = new(atomic.Int64)
	c.Control(func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		select {
		case <-healed:
			return nil, nil, false
		default:
		}
		if !is(r) {
			return nil, nil, false
		}
		held.Add(1)
		c.SleepControl(func() { <-healed })
		return nil, nil, false
	})
	heal = func() {
		select {
		case <-healed:
		default:
			close(healed)
		}
	}
	t.Cleanup(heal)
	return heal, held
}

func asksFor(topic string) func(kmsg.Request) bool {
	return func(r kmsg.Request) bool {
		if l, ok := r.(*kmsg.ListOffsetsRequest); ok {
			for _, one := range l.Topics {
				if one.Topic == topic {
					return true
				}
			}
		}
		return false
	}
}

// A topic whose partitions have no leader when the source begins is read when it has one, from where the source was to
// begin. The others do not wait for it.
func TestATopicWithoutLeadersDelaysNoOther(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]source.Start{"earliest": {}, "latest": source.Latest()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, fake := newFake(t, "a", "stuck", "z")
			produce(t, c, numbered("stuck", 1, 0, 5)...)
			fault := fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Topic: "stuck", Err: kerr.LeaderNotAvailable, Count: -1})
			d := definition("orders", "a", "stuck", "z")
			d.Start = start
			n := newNode(t, c, d)
			n.await("readers of the others", func() bool {
				s := n.status("orders")
				return len(s.Partitions) == 2 && s.Partitions[0].Owner != "" && s.Partitions[1].Owner != ""
			})
			produce(t, c, append(numbered("a", 1, 5, 10), numbered("z", 1, 15, 10)...)...)
			n.await("the records of the others", func() bool { tasks, _ := n.ran(); return tasks == 20 })
			if got := n.status("orders").Problem; !strings.HasPrefix(got, "kafka.main: topic stuck: partition 0 has no offsets: LEADER_NOT_AVAILABLE") {
				t.Errorf("the problem is %q", got)
			}
			fault.Remove()
			want := 25
			if start.IsLatest() {
				want = 20
			}
			n.await("the topic", func() bool { return len(n.status("orders").Partitions) == 3 && n.status("orders").Problem == "" })
			n.await("its records", func() bool { tasks, most := n.ran(); return tasks == want && most == 1 && n.status("orders").Lag == 0 })
		})
	}
}

// A broker that does not say where the partitions of a topic begin delays no other source.
func TestAnAnswerAboutATopicThatHangsDelaysNoOtherSource(t *testing.T) {
	t.Parallel()
	c, fake := newFake(t, "hangs", "other")
	heal, held := hang(t, fake, asksFor("hangs"))
	n := newNode(t, c, definition("orders", "hangs"), definition("others", "other"))
	n.await("a question that hangs", func() bool { return held.Load() > 0 })
	produce(t, c, numbered("other", 1, 0, 10)...)
	n.await("the records of the other", func() bool { tasks, _ := n.ran(); return tasks == 10 })
	heal()
	produce(t, c, numbered("hangs", 1, 10, 10)...)
	n.await("the records of the topic", func() bool { tasks, most := n.ran(); return tasks == 20 && most == 1 })
}

// While no broker says which topics there are, records of the partitions that are read become tasks.
func TestAListOfTopicsThatHangsDelaysNoReader(t *testing.T) {
	t.Parallel()
	c, fake := newFake(t, "a")
	n := newNode(t, c, definition("orders", "a"))
	produce(t, c, numbered("a", 1, 0, 10)...)
	n.await("the first records", func() bool { tasks, _ := n.ran(); return tasks == 10 })
	client, err := kafkatest.Client(c.Brokers())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.ProduceSync(t.Context(), numbered("a", 1, 10, 1)...).FirstErr(); err != nil { // it knows the topic now
		t.Fatal(err)
	}
	_, held := hang(t, fake, func(r kmsg.Request) bool { _, is := r.(*kmsg.MetadataRequest); return is })
	n.look()
	n.await("a question that hangs", func() bool { return held.Load() > 0 })
	if err := client.ProduceSync(t.Context(), numbered("a", 1, 11, 100)...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	n.await("further records", func() bool { tasks, most := n.ran(); return tasks == 111 && most == 1 })
	if held.Load() == 0 {
		t.Error("nothing hangs any more")
	}
}

// While the coordinator of the group gives no answer, records become tasks.
func TestAGroupCommitThatHangsDelaysNoReader(t *testing.T) {
	t.Parallel()
	c, fake := newFake(t, "a")
	_, held := hang(t, fake, func(r kmsg.Request) bool { _, is := r.(*kmsg.OffsetCommitRequest); return is })
	n := newNode(t, c, definition("orders", "a"))
	produce(t, c, numbered("a", 1, 0, 10)...)
	n.await("a commit that hangs", func() bool { return held.Load() > 0 })
	produce(t, c, numbered("a", 1, 10, 1000)...)
	n.await("further records", func() bool { tasks, most := n.ran(); return tasks == 1010 && most == 1 })
}

// A broker that does not say where the partitions of a topic begin delays no other topic of the source, though it answers
// the requests of one connection in their order.
func TestAnAnswerAboutATopicThatHangsDelaysNoOtherTopic(t *testing.T) {
	t.Parallel()
	others := []string{"a", "b", "c", "x", "y", "z"}
	c, fake := newFake(t, append(others, "hangs")...)
	heal, held := hang(t, fake, asksFor("hangs"))
	n := newNode(t, c, definition("orders", append(others, "hangs")...))
	n.await("a question that hangs", func() bool { return held.Load() > 0 })
	total := 0
	more := func(what string) {
		t.Helper()
		for _, topic := range others {
			produce(t, c, numbered(topic, 1, total, 10)...)
			total += 10
		}
		n.await(what, func() bool { tasks, _ := n.ran(); return tasks == total })
	}
	more("the records of the others")
	for range 2 {
		n.interrupt("orders")
		more("records that are read by further attempts")
	}
	n.await("what is known of the others", func() bool { n.look(); return n.knows(`"z":{"id":"`) && n.status("orders").Lag == 0 })
	heal()
	produce(t, c, numbered("hangs", 1, total, 10)...)
	n.await("the records of the topic", func() bool { tasks, most := n.ran(); return tasks == total+10 && most == 1 })
}

// interrupt has the attempts to read a source end, and others begin.
func (n *node) interrupt(source string) {
	n.t.Helper()
	for _, p := range n.status(source).Partitions {
		row, err := n.Get(n.t.Context(), p.Task)
		if err != nil {
			n.t.Fatal(err)
		}
		if _, err := n.Edit(n.t.Context(), row.Ref(), engine.Edit{Interrupts: true, At: new(n.Now())}); err != nil && !errors.Is(err, engine.ErrStale) {
			n.t.Fatal(err)
		}
	}
}

// One of three brokers gives no answer to anything. The records of the others are read, by attempts that begin then as well, and
// so is a topic that is new. Once the broker is known to be silent, it is not asked about its topics, however many they are.
func TestABrokerThatHangsDelaysNoTopicOfTheOthers(t *testing.T) {
	t.Parallel()
	silent := []string{"a", "a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8", "a9"}
	fake, err := kfake.NewCluster(kfake.NumBrokers(3), kfake.SeedTopics(1, append([]string{"b", "c"}, silent...)...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	err = errors.Join(fake.MoveTopicPartition("b", 0, 1), fake.MoveTopicPartition("c", 0, 2))
	for _, topic := range silent {
		err = errors.Join(err, fake.MoveTopicPartition(topic, 0, 0))
	}
	if err != nil {
		t.Fatal(err)
	}
	client, err := kafkatest.Client(fake.ListenAddrs(), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.RequestTimeoutOverhead(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	d := definition("orders")
	d.Topics, d.Pattern = nil, "[a-z][0-9]?"
	n := newNode(t, fakeBrokers{fake}, d)
	total := 0
	more := func(what string, topics ...string) {
		t.Helper()
		for _, topic := range topics {
			if err := client.ProduceSync(t.Context(), numbered(topic, 1, total, 10)...).FirstErr(); err != nil {
				t.Fatal(err)
			}
			total += 10
		}
		n.await(what, func() bool { n.look(); tasks, _ := n.ran(); return tasks == total })
	}
	more("the first records", append([]string{"b", "c"}, silent...)...)
	var asked atomic.Int64 // questions to the broker about its topics
	heal, _ := hang(t, fake, func(r kmsg.Request) bool {
		if fake.CurrentNode() != 0 {
			return false
		}
		switch r.(type) {
		case *kmsg.ListOffsetsRequest, *kmsg.OffsetForLeaderEpochRequest:
			asked.Add(1)
		}
		return true
	})
	more("the records of the others", "b", "c")
	n.interrupt("orders")
	more("records that are read by further attempts", "b", "c")
	if err := errors.Join(fake.CreateTopic("n", 1, nil), fake.MoveTopicPartition("n", 0, 1)); err != nil {
		t.Fatal(err)
	}
	more("a new topic", "n")
	says := func() (partitions int) {
		for _, p := range n.status("orders").Partitions {
			if strings.Contains(p.Message, "kafka.main: topic "+p.Topic+": broker 0, which leads one of its partitions, gives no answer; look at 127.0.0.1:") {
				partitions++
			}
		}
		return partitions
	}
	n.await("what each of its topics waits for", func() bool { return says() == len(silent) })
	before := asked.Load()
	n.interrupt("orders")
	more("records that are read by more attempts", "b", "c", "n")
	n.await("what each of its topics waits for, again", func() bool { return says() == len(silent) })
	if now := asked.Load(); now != before {
		t.Errorf("a broker that is known to be silent was asked %d times about its topics", now-before)
	}
	heal()
	more("the records of the broker", silent...)
	if _, most := n.ran(); most != 1 {
		t.Errorf("a task has run %d times", most)
	}
}

// A broker that gives no answer about the epochs of a topic, which a reader asks for as it begins, delays no other topic.
func TestAnAnswerAboutEpochsThatHangsDelaysNoOtherTopic(t *testing.T) {
	t.Parallel()
	others := []string{"a", "b", "y", "z"}
	c, fake := newFake(t, append(others, "hangs")...)
	n := newNode(t, c, definition("orders", append(others, "hangs")...))
	total := 0
	more := func(what string, topics ...string) {
		t.Helper()
		for _, topic := range topics {
			produce(t, c, numbered(topic, 1, total, 10)...)
			total += 10
		}
		n.await(what, func() bool { tasks, _ := n.ran(); return tasks == total })
	}
	more("the first records", append(others, "hangs")...)
	heal, held := hang(t, fake, func(r kmsg.Request) bool {
		asked, ok := r.(*kmsg.OffsetForLeaderEpochRequest)
		return ok && slices.ContainsFunc(asked.Topics, func(one kmsg.OffsetForLeaderEpochRequestTopic) bool { return one.Topic == "hangs" })
	})
	for range 2 {
		n.interrupt("orders")
		more("records that are read by further attempts", others...)
	}
	n.await("a question that hangs", func() bool { return held.Load() > 0 })
	heal()
	more("the records of the topic", "hangs")
	if _, most := n.ran(); most != 1 {
		t.Errorf("a task has run %d times", most)
	}
}

// A broker that answers each request for records later than the client waits at first is read: the client waits longer then.
func TestABrokerThatIsSlowEachTimeIsRead(t *testing.T) {
	t.Parallel()
	c, fake := newFake(t, "a")
	produce(t, c, numbered("a", 1, 0, 10)...)
	fake.ControlKey(int16(kmsg.Fetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		if len(r.(*kmsg.FetchRequest).Topics) > 0 {
			fake.SleepControl(func() { time.Sleep(7 * time.Second) }) // a disk that stands still
		}
		return nil, nil, false
	})
	n := newNode(t, c, definition("orders", "a"))
	n.await("the records", func() bool { tasks, most := n.ran(); return tasks == 10 && most == 1 })
}
