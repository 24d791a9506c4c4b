package consume_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/taskengine/taskengine/kafka/consume"
)

// newGrouped returns a node on kfake with sources that commit to their group every few milliseconds, and renew its positions.
func newGrouped(t *testing.T, renewal time.Duration, topics ...string) (*node, *kfake.Cluster) {
	t.Helper()
	c, fake := newFake(t, topics...)
	n := &node{t: t, cluster: c, store: newStore(), pace: consume.Pace{Save: 20 * time.Millisecond, Renewal: renewal}}
	return n, fake
}

// awaitGroup waits until the group of the source orders is at a position.
func (n *node) awaitGroup(at *kadm.Client, topic string, position int64) {
	n.t.Helper()
	n.await("the position of the group", func() bool {
		offsets, err := at.FetchOffsets(n.t.Context(), "group-orders")
		got, ok := offsets.Offsets().Lookup(topic, 0)
		return err == nil && ok && got.At == position
	})
}

// A position that does not change is committed to the group once, while another partition of the source commits again and
// again.
func TestAPositionAtRestIsCommittedToTheGroupOnce(t *testing.T) {
	t.Parallel()
	n, fake := newGrouped(t, time.Hour, "busy", "rests")
	var commits atomic.Int64 // of the topic at rest
	fake.ControlKey(int16(kmsg.OffsetCommit), func(r kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		for _, one := range r.(*kmsg.OffsetCommitRequest).Topics {
			if one.Topic == "rests" {
				commits.Add(1)
			}
		}
		return nil, nil, false
	})
	produce(t, n.cluster, numbered("rests", 1, 0, 10)...)
	n.open(definition("orders", "busy", "rests"))
	t.Cleanup(n.close)
	at := admin(t, n.cluster)
	n.awaitGroup(at, "rests", 10)
	before := commits.Load()
	for i := range 10 {
		produce(t, n.cluster, numbered("busy", 1, 10+i, 1)...)
		n.awaitGroup(at, "busy", int64(i+1))
	}
	if got := commits.Load(); got != before {
		t.Errorf("a position was committed %d times at rest, after %d times", got-before, before)
	}
	produce(t, n.cluster, numbered("rests", 1, 20, 1)...)
	n.awaitGroup(at, "rests", 11)
}

// A commit that is refused is repeated, though the position does not change.
func TestACommitToTheGroupThatIsRefusedIsRepeated(t *testing.T) {
	t.Parallel()
	n, fake := newGrouped(t, time.Hour, "a")
	refused := fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.GroupAuthorizationFailed, Count: 3})
	produce(t, n.cluster, numbered("a", 1, 0, 10)...)
	n.open(definition("orders", "a"))
	t.Cleanup(n.close)
	n.awaitGroup(admin(t, n.cluster), "a", 10)
	refused.Remove()
}

// A group that is deleted, or that the brokers forget, has the positions again, though they do not change.
func TestAGroupThatIsDeletedHasThePositionsAgain(t *testing.T) {
	t.Parallel()
	n, _ := newGrouped(t, 200*time.Millisecond, "a")
	produce(t, n.cluster, numbered("a", 1, 0, 10)...)
	n.open(definition("orders", "a"))
	t.Cleanup(n.close)
	at := admin(t, n.cluster)
	n.awaitGroup(at, "a", 10)
	if gone, err := at.DeleteGroups(t.Context(), "group-orders"); err != nil || gone["group-orders"].Err != nil {
		t.Fatal(err, gone)
	}
	n.awaitGroup(at, "a", 10)
}
