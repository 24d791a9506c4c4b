//go:build unix

package kafka_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/kafka"
	"github.com/taskengine/taskengine/task"
)

func TestARecordThatCannotBeDecodedIsCountedLoggedAndPassedOver(t *testing.T) {
	t.Parallel()
	topic := newName()
	n := connect(t, brokers, topic, nil).isUp(t)
	heard := n.hear(t)
	n.reaches(t, hint(1, 3), heard)
	client, manage := admin(t, brokers)
	before, err := manage.ListEndOffsets(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	offset, _ := before.Lookup(topic, 3)
	values := [][]byte{nil, {}, []byte("poison"), make([]byte, 18), append([]byte{2, 'h'}, make([]byte, 40)...), make([]byte, 100_000)}
	for _, v := range values {
		if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Partition: 3, Key: []byte("k"), Value: v}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	n.reaches(t, hint(2, 3), heard)
	if got := n.BusStatus().Undecodable; got != uint64(len(values)) {
		t.Errorf("%d records were counted, want %d", got, len(values))
	}
	for _, text := range []string{"passes over a record that it cannot decode", "topic=" + topic, "partition=3", "offset="} {
		if !n.logs.has(text) {
			t.Errorf("the log does not have %q", text)
		}
	}
	if offset.Offset == 0 {
		t.Error("the hint from before is not in the partition")
	}
}

func TestClustersThatShareATopicAreApart(t *testing.T) {
	t.Parallel()
	topic := newName()
	a := connect(t, brokers, topic, nil).isUp(t)
	other := connect(t, brokers, topic, func(o *kafka.Options) { o.Cluster = "another" }).isUp(t)
	heard, otherHeard := a.hear(t), other.hear(t)
	a.reaches(t, hint(1, 1), heard)
	other.reaches(t, hint(2, 1), otherHeard)
	a.reaches(t, hint(3, 1), heard)
	if heard.count(hint(2, 1)) > 0 || otherHeard.count(hint(1, 1)) > 0 {
		t.Error("a cluster hears the hints of another")
	}
	if s := a.BusStatus(); s.Undecodable > 0 {
		t.Errorf("%d records cannot be decoded", s.Undecodable)
	}
}

// Tasks that were published before, or while a node was away, are in the store: their hints are not read again.
func TestANodeReadsFromNowOnAndCommitsNothing(t *testing.T) {
	t.Parallel()
	topic := newName()
	a := connect(t, brokers, topic, nil).isUp(t)
	own := a.hear(t)
	published := 0
	more := func(first int) { // returns when the topic has all that was published
		for n := range 100 {
			published += a.reaches(t, hint(first+n, uint16(n)), own)
		}
		eventually(t, "all hints to be sent", func() bool { s := a.BusStatus(); return s.Sent+s.Dropped >= uint64(published) })
	}
	more(0)
	late := connect(t, brokers, topic, nil)
	heard := late.hear(t)
	late.isUp(t)
	published += a.reaches(t, hint(1000, 1), heard)
	late.wire.Cut()
	late.isDown(t, "kafka.main: ")
	more(2000)
	late.wire.Heal()
	late.isUp(t)
	for shard := range uint16(8) {
		a.reaches(t, hint(1001+int(shard), shard), heard)
	}
	for n := range 100 {
		if heard.count(hint(n, uint16(n))) > 0 || heard.count(hint(2000+n, uint16(n))) > 0 {
			t.Fatalf("hint %d is from before", n)
		}
	}
	_, manage := admin(t, brokers)
	groups, err := manage.ListGroups(t.Context())
	if err != nil || len(groups) > 0 {
		t.Errorf("there are groups: %v, %v", groups, err)
	}
}

func TestANodeReadsThePartitionsOfTheShardsThatItNeeds(t *testing.T) {
	t.Parallel()
	topic := newName()
	a, b := connect(t, brokers, topic, nil).isUp(t), connect(t, brokers, topic, nil).isUp(t)
	heard := b.hear(t)
	var shards task.Shards
	shards.Add(1)
	b.Want(&shards)
	a.reaches(t, hint(1, 1), heard)
	eventually(t, "hints of other shards not to come", func() bool { // the node may not have learned yet which it needs
		before := b.BusStatus().Received
		for shard := range uint16(100) {
			if err := a.Publish(t.Context(), hint(5, 4*shard+2), hint(6, 4*shard+3)); err != nil {
				t.Fatal(err)
			}
		}
		after := heard.count(coord.Wake(1))
		if err := a.Publish(t.Context(), coord.Wake(1)); err != nil {
			t.Fatal(err)
		}
		eventually(t, "a hint that is needed", func() bool { return heard.count(coord.Wake(1)) > after })
		return b.BusStatus().Received == before+1
	})
	shards.Add(2)
	before := heard.count(coord.Wake(2))
	b.Want(&shards)
	eventually(t, "a wake of a shard whose hints were missed", func() bool { return heard.count(coord.Wake(2)) > before })
	a.reaches(t, hint(7, 2), heard)
}
