//go:build unix

package kafka_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/kafka"
	"github.com/taskengine/taskengine/internal/kafkatest"
	connection "github.com/taskengine/taskengine/kafka"
	"github.com/taskengine/taskengine/task"
)

// load publishes hints until the result is called, which returns how many. Publish must neither wait nor fail.
func (n *node) load(t *testing.T) (stop func() int) {
	ctx, cancel := context.WithCancel(t.Context())
	published := 0
	var running sync.WaitGroup
	running.Go(func() {
		for ; ctx.Err() == nil; time.Sleep(time.Millisecond) {
			if err := n.Publish(ctx, hint(published%50, uint16(published)), hint(60000, 3)); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
			published += 2
		}
	})
	return func() int {
		cancel()
		running.Wait()
		return published
	}
}

// Its subtests end the broker, so they have one of their own.
func TestABrokerThatGoesAway(t *testing.T) {
	t.Parallel()
	c := kafkatest.New(t, 1)
	topic := newName()
	direct := func(o *kafka.Options) { o.Connection = connection.Connection{Name: "main", Brokers: c.Brokers()} }
	a, b := connect(t, c, topic, direct).isUp(t), connect(t, c, topic, direct).isUp(t)
	heard := b.hear(t)
	a.reaches(t, hint(1, 1), heard)

	t.Run("and is killed and started again under load", func(t *testing.T) {
		stop := a.load(t)
		if err := c.Kill(0); err != nil {
			t.Fatal(err)
		}
		a.isDown(t, "kafka.main: no broker of it answers; look whether 127.0.0.1:")
		b.isDown(t, "can be reached from here")
		before := heard.count(coord.WakeAll())
		if err := c.Restart(0); err != nil {
			t.Fatal(err)
		}
		a.isUp(t)
		b.isUp(t)
		a.reaches(t, hint(2, 2), heard)
		eventually(t, "a wake of all shards, as hints were lost", func() bool { return heard.count(coord.WakeAll()) > before })
		published := uint64(stop())
		eventually(t, "all hints to be sent or dropped", func() bool {
			s := a.BusStatus()
			return s.Sent > 0 && s.Dropped > 0 && s.Sent+s.Dropped >= published
		})
		for what, n := range map[string]*node{"the log of a publisher": a, "the log of a subscriber": b} {
			if !n.logs.has("the bus is down") || !n.logs.has("the bus is up again") {
				t.Errorf("%s does not say that the bus was down, and is up again", what)
			}
		}
	})
	t.Run("and hangs", func(t *testing.T) {
		if err := c.Pause(0); err != nil {
			t.Fatal(err)
		}
		many := make([]task.Hint, 1000)
		for i := range many {
			many[i] = hint(i, uint16(i))
		}
		before := a.BusStatus().Dropped
		for range 1000 { // more than there is room for
			if err := a.Publish(t.Context(), many...); err != nil {
				t.Fatal(err)
			}
		}
		if a.BusStatus().Dropped == before {
			t.Error("a million hints wait for a broker that hangs")
		}
		a.isDown(t, "no answer within")
		ended := connect(t, c, topic, direct)
		if err := ended.Close(); err != nil { // it does not wait for the broker
			t.Error(err)
		}
		if err := ended.Publish(t.Context(), hint(1, 1)); !errors.Is(err, coord.ErrClosed) {
			t.Errorf("Publish of a closed bus returns %v", err)
		}
		if err := c.Resume(0); err != nil {
			t.Fatal(err)
		}
		a.isUp(t)
		a.reaches(t, hint(3, 3), heard)
	})
	t.Run("before a node starts", func(t *testing.T) {
		if err := c.Kill(0); err != nil {
			t.Fatal(err)
		}
		late := connect(t, c, topic, direct)
		lateHeard := late.hear(t)
		late.isDown(t, "no broker of it answers")
		if err := late.Publish(t.Context(), hint(1, 1)); err != nil {
			t.Error(err)
		}
		if err := c.Restart(0); err != nil {
			t.Fatal(err)
		}
		late.isUp(t)
		a.reaches(t, hint(4, 4), lateHeard)
		late.reaches(t, hint(5, 5), heard)
	})
}

func TestATopicThatIsMissingIsNamedAndUsedOnceItIsThere(t *testing.T) {
	t.Parallel()
	topic := newName()
	n := connect(t, brokers, topic, func(o *kafka.Options) { o.Create = false })
	heard := n.hear(t)
	n.isDown(t, "kafka.main: there is no topic "+topic+" that the user may see; create it with 4 partitions, or have the nodes create it by bus.create_topics: ")
	_, manage := admin(t, brokers)
	if _, err := manage.CreateTopic(t.Context(), 1, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
	n.isUp(t)
	n.reaches(t, hint(1, 200), heard)
}

func TestATopicThatTheUserMayNotUseIsNamedAndUsedOnceTheUserMay(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]kmsg.Key{"see": kmsg.Metadata, "describe": kmsg.ListOffsets, "read": kmsg.Fetch, "write": kmsg.Produce} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(4, "hints"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(fake.Close)
			fault := fake.Fault(kfake.Fault{Keys: []kmsg.Key{key}, Topic: "hints", Err: kerr.TopicAuthorizationFailed, Count: -1})
			b, err := kafka.New(kafka.Options{
				Connection: connection.Connection{Name: "main", Brokers: fake.ListenAddrs()}, Topic: "hints", Cluster: "cluster", Create: true, Check: 100 * time.Millisecond,
			})
			if err != nil {
				t.Fatal(err)
			}
			n := &node{Bus: b}
			t.Cleanup(func() { _ = n.Close() })
			n.isDown(t, "kafka.main: the user may not read and write topic hints; allow it to, by ACLs for READ and WRITE")
			if err := n.Publish(t.Context(), hint(1, 1)); err != nil {
				t.Error(err)
			}
			fault.Remove()
			n.isUp(t)
			n.reaches(t, hint(2, 1), n.hear(t))
		})
	}
}

func TestATopicThatIsDeletedIsCreatedAgain(t *testing.T) {
	t.Parallel()
	topic := newName()
	a, b := connect(t, brokers, topic, nil).isUp(t), connect(t, brokers, topic, nil).isUp(t)
	heard := b.hear(t)
	a.reaches(t, hint(1, 1), heard)
	_, manage := admin(t, brokers)
	for n := range 3 {
		if _, err := manage.DeleteTopics(t.Context(), topic); err != nil {
			t.Fatal(err)
		}
		a.reaches(t, hint(2+n, 1), heard)
	}
	eventually(t, "the topic with four partitions", func() bool { // the last hint may have come by the one before
		details, err := manage.ListTopics(t.Context(), topic)
		return err == nil && len(details[topic].Partitions) == 4
	})
	settings, err := manage.DescribeTopicConfigs(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range settings[0].Configs {
		if s.Key == "retention.ms" && s.MaybeValue() != "600000" {
			t.Errorf("records are kept for %s ms", s.MaybeValue())
		}
	}
}

func TestATopicMayBeReplacedByOneWithOtherPartitions(t *testing.T) {
	t.Parallel()
	topic := newName()
	a, b := connect(t, brokers, topic, nil).isUp(t), connect(t, brokers, topic, func(o *kafka.Options) { o.Create = false }).isUp(t)
	heard := b.hear(t)
	for shard := range uint16(8) {
		a.reaches(t, hint(int(shard), shard), heard)
	}
	_, manage := admin(t, brokers)
	if _, err := manage.CreatePartitions(t.Context(), 3, topic); err != nil {
		t.Fatal(err)
	}
	for shard := range uint16(8) {
		a.reaches(t, hint(100+int(shard), shard), heard)
	}
	eventually(t, "the new partitions", func() bool { return a.logs.has("partitions=7") && b.logs.has("partitions=7") })
	for shard := range uint16(8) {
		a.reaches(t, hint(200+int(shard), shard), heard)
	}
	if _, err := manage.DeleteTopics(t.Context(), topic); err != nil {
		t.Fatal(err)
	}
	if _, err := manage.CreateTopic(t.Context(), 1, 1, nil, topic); err != nil {
		t.Log(err) // a node was faster
	}
	for shard := range uint16(8) {
		a.reaches(t, hint(300+int(shard), shard), heard)
	}
}

func TestATopicThatTakesNoHintsIsNamed(t *testing.T) {
	t.Parallel()
	topic := newName()
	_, manage := admin(t, brokers)
	policy := "compact"
	if _, err := manage.CreateTopic(t.Context(), 1, 1, map[string]*string{"cleanup.policy": &policy}, topic); err != nil {
		t.Fatal(err)
	}
	n := connect(t, brokers, topic, nil)
	n.isDown(t, "topic "+topic+" does not accept such a record")
	policy = "delete"
	if _, err := manage.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "cleanup.policy", Value: &policy}}, topic); err != nil {
		t.Fatal(err)
	}
	n.isUp(t) // though it has nothing to send
}

func TestAConnectionThatEndsLosesNoHintOfOthersAndSaysThatSomeMayBeLost(t *testing.T) {
	t.Parallel()
	topic := newName()
	a, b := connect(t, brokers, topic, nil).isUp(t), connect(t, brokers, topic, nil).isUp(t)
	heard := b.hear(t)
	a.reaches(t, hint(1, 1), heard)
	before := heard.count(coord.WakeAll())
	b.sever()
	eventually(t, "a wake of all shards", func() bool { return heard.count(coord.WakeAll()) > before })
	a.reaches(t, hint(2, 1), heard)
}

func TestOneOfThreeBrokersMayBeLost(t *testing.T) {
	t.Parallel()
	c := kafkatest.New(t, 3, kafkatest.WithLines("default.replication.factor=3", "min.insync.replicas=2"))
	topic := newName()
	direct := func(o *kafka.Options) {
		o.Connection, o.Partitions = connection.Connection{Name: "main", Brokers: c.Brokers()}, 6
	}
	a, b := connect(t, c, topic, direct).isUp(t), connect(t, c, topic, direct).isUp(t)
	heard := b.hear(t)
	for shard := range uint16(6) {
		a.reaches(t, hint(int(shard), shard), heard)
	}
	for broker := range 2 { // each leads some of the partitions
		if err := c.Kill(broker); err != nil {
			t.Fatal(err)
		}
		for shard := range uint16(6) {
			a.reaches(t, hint(10+100*broker+int(shard), shard), heard)
		}
		if err := c.Restart(broker); err != nil {
			t.Fatal(err)
		}
	}
	a.isUp(t)
	b.isUp(t)
}
