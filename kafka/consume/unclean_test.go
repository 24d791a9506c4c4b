package consume_test

import (
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/taskengine/taskengine/internal/kafkatest"
)

// The leader that has acknowledged records alone is lost, and a broker without them becomes the leader. The source reports
// them, and reads all that the new leader gets, though that is more than was lost. Nothing is added twice.
func TestRecordsThatAreLostByAnUncleanElectionAreReportedAndThoseInTheirPlaceAreRead(t *testing.T) {
	t.Parallel()
	c := kafkatest.New(t, 3, kafkatest.WithLines("unclean.leader.election.interval.ms=500"))
	const topic = "unclean"
	client, err := kafkatest.Client(c.Brokers(), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.RequestTimeoutOverhead(2*time.Second)) // of a broker that hangs
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	kadmin := kadm.NewClient(client)
	kafkatest.CreateTopic(t, kadmin, 1, 1, map[string]*string{"unclean.leader.election.enable": new("true"), "min.insync.replicas": new("1")}, topic)
	n := newNode(t, c, definition("orders", topic))
	leads := func(leader int32, inSync ...int32) func() bool {
		return func() bool {
			all, err := kadmin.ListTopics(t.Context(), topic)
			if err != nil {
				return false
			}
			p := all[topic].Partitions[0]
			return p.Leader == leader && len(p.Replicas) == 2 && slices.Equal(slices.Sorted(slices.Values(p.ISR)), inSync)
		}
	}
	var moves kadm.AlterPartitionAssignmentsReq
	moves.Assign(topic, 0, []int32{1, 2})
	if moved, err := kadmin.AlterPartitionAssignments(t.Context(), moves); err != nil || moved.Error() != nil {
		t.Fatal(err, moved.Error())
	}
	n.await("two replicas", func() bool {
		_, _ = kadmin.ElectLeaders(t.Context(), kadm.ElectPreferredReplica, kadm.TopicsSet{topic: {0: {}}}) // it leads already, perhaps
		return leads(1, 1, 2)()
	})
	total := 0
	send := func(records int) {
		t.Helper()
		if err := client.ProduceSync(t.Context(), numbered(topic, 1, total, records)...).FirstErr(); err != nil {
			t.Fatal(err)
		}
		total += records
		n.await("the records", func() bool { tasks, most := n.ran(); return tasks == total && most == 1 })
	}
	send(10)
	if err := c.Pause(1); err != nil {
		t.Fatal(err)
	}
	n.await("a leader without a replica in sync", leads(1, 1))
	send(15) // which only the leader has
	if err := c.Kill(0); err != nil {
		t.Fatal(err)
	}
	if err := c.Resume(1); err != nil {
		t.Fatal(err)
	}
	n.await("a leader without the last records", leads(2, 2))
	send(30) // at the offsets from 10 on
	n.await("what was lost", func() bool { return slices.Equal(n.losses("orders"), []lossOf{{0, 10, 25, false}}) })
	n.await("the end", func() bool { return n.status("orders").Lag == 0 })
	if s := n.status("orders"); s.Here.Lost != 15 || s.Partitions[0].Position != 40 || n.inserted() != total {
		t.Errorf("%d rows were added: %+v", n.inserted(), s)
	}
}
