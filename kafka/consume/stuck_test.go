package consume_test

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

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
	client, err := kgo.NewClient(kgo.SeedBrokers(c.Brokers()...))
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
