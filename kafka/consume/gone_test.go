package consume_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/taskengine/taskengine/internal/kafkatest"
	"github.com/taskengine/taskengine/kafka/consume"
)

// lossOf is a range of a partition that was lost.
type lossOf struct {
	partition int32
	from, to  int64
	ended     bool
}

// losses returns what a source has lost, by partition.
func (n *node) losses(name string) (all []lossOf) {
	for _, p := range n.status(name).Partitions {
		for _, l := range p.Lost {
			all = append(all, lossOf{p.Partition, l.From, l.To, p.Ended})
		}
	}
	return all
}

// look has a source look for its topics, as it does every half a minute.
func (n *node) look() {
	n.t.Helper()
	if err := n.sources.Apply(n.t.Context(), n.Engine); err != nil {
		n.t.Fatal(err)
	}
}

// knows has the source orders look for its topics, and reports whether its state has a text.
func (n *node) knows(text string) bool {
	n.look()
	t, err := n.Get(n.t.Context(), n.status("orders").Task)
	if err != nil {
		n.t.Fatal(err)
	}
	return strings.Contains(string(t.Checkpoint()), text)
}

// pauseAt pauses a source, and waits until it reads nothing.
func (n *node) pauseAt(name string) {
	n.t.Helper()
	if err := n.sources.Pause(n.t.Context(), n.Engine, name, ""); err != nil {
		n.t.Fatal(err)
	}
	n.await("the pause", func() bool {
		s := n.status(name)
		return s.Pending == 0 && s.Paused != nil && !slices.ContainsFunc(s.Partitions, func(p consume.Partition) bool { return p.Owner != "" })
	})
}

// recreate deletes a topic and creates it with other partitions.
func recreate(t *testing.T, n *node, at *kadm.Client, topic string, partitions int32) {
	t.Helper()
	kafkatest.DeleteTopics(t, n.cluster.Brokers(), topic)
	n.await("a topic with the same name", func() bool {
		made, err := at.CreateTopic(t.Context(), partitions, 1, nil, topic)
		return err == nil && made.Err == nil
	})
	n.await("the partitions of the new topic", func() bool {
		ends, err := at.ListEndOffsets(t.Context(), topic)
		return err == nil && ends.Error() == nil && len(ends[topic]) == int(partitions)
	})
}

// The loss with a deleted topic is shown, though another topic has its name and fewer partitions. Records that came
// while the source was paused count.
func TestWhatIsLostWithATopicThatIsCreatedAgainIsShown(t *testing.T) {
	onEach(t, testWhatIsLostWithATopicThatIsCreatedAgainIsShown)
}

func testWhatIsLostWithATopicThatIsCreatedAgainIsShown(t *testing.T, brokers cluster) {
	topic := newTopic(t, brokers, 3, nil)
	produce(t, brokers, numbered(topic, 3, 0, 30)...)
	n := newNode(t, brokers, definition("orders", topic))
	n.await("the first records", func() bool { tasks, _ := n.ran(); return tasks == 30 })
	n.pauseAt("orders")
	produce(t, brokers, numbered(topic, 3, 30, 30)...)
	n.await("the ends", func() bool { return n.knows(`"ends":[20,20,20]`) })
	recreate(t, n, admin(t, brokers), topic, 1)
	produce(t, brokers, numbered(topic, 1, 60, 5)...)
	want := []lossOf{{0, 10, 20, false}, {1, 10, 20, true}, {2, 10, 20, true}}
	n.await("what was lost", func() bool { n.look(); return slices.Equal(n.losses("orders"), want) }) // also while it is paused
	if s := n.status("orders"); s.Here.Lost != 30 || s.Lag != 5 || s.Problem != "" {
		t.Errorf("%+v", s)
	}
	if err := n.sources.Resume(t.Context(), n.Engine, "orders"); err != nil {
		t.Fatal(err)
	}
	n.await("the records of the new topic", func() bool { tasks, _ := n.ran(); return tasks == 35 && n.status("orders").Lag == 0 })
	n.close()
	n.open(definition("orders", topic))
	n.await("the state after a restart", func() bool { return slices.Equal(n.losses("orders"), want) })
}

// A topic that is not created again is missing for a moment first, and then its unread records are lost. The source is
// not behind because of it, and a pattern that selects others does not fail.
func TestWhatIsLostWithADeletedTopicIsShown(t *testing.T) {
	onEach(t, testWhatIsLostWithADeletedTopicIsShown)
}

func testWhatIsLostWithADeletedTopicIsShown(t *testing.T, brokers cluster) {
	topic := newTopic(t, brokers, 1, nil)
	create(t, brokers, topic+"-other", 1, nil)
	d := definition("orders")
	d.Topics, d.Pattern = nil, topic+".*"
	produce(t, brokers, numbered(topic, 1, 0, 10)...)
	n := &node{t: t, cluster: brokers, store: newStore(), pace: consume.Pace{Suspicion: time.Second}}
	n.open(d)
	t.Cleanup(n.close)
	n.await("the first records", func() bool { tasks, _ := n.ran(); return tasks == 10 })
	n.pauseAt("orders")
	produce(t, brokers, numbered(topic, 1, 10, 7)...)
	n.await("the ends", func() bool { return n.knows(`"ends":[17]`) })
	kafkatest.DeleteTopics(t, brokers.Brokers(), topic)
	if err := n.sources.Resume(t.Context(), n.Engine, "orders"); err != nil {
		t.Fatal(err)
	}
	n.await("what was lost", func() bool { n.look(); return slices.Equal(n.losses("orders"), []lossOf{{0, 10, 17, true}}) })
	if s := n.status("orders"); s.Here.Lost != 7 || s.Lag != 0 || s.Problem != "" || s.Here.Lag != 0 || s.Here.Reading > 1 || s.Partitions[0].Message != "the topic was deleted" {
		t.Errorf("%+v", s)
	}
	create(t, brokers, topic, 1, nil)
	produce(t, brokers, append(numbered(topic, 1, 20, 3), numbered(topic+"-other", 1, 23, 3)...)...)
	n.await("the records of the new topic", func() bool { n.look(); tasks, _ := n.ran(); return tasks == 16 })
	n.await("the loss, once", func() bool { n.look(); return slices.Equal(n.losses("orders"), []lossOf{{0, 10, 17, false}}) })
	if s := n.status("orders"); s.Here.Lost != 7 {
		t.Errorf("%+v", s)
	}
}
