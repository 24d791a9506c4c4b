package consume_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taskengine/taskengine/kafka/source"
)

// Records become tasks once: those that are there, those that follow, and those of partitions that are added later.
func TestEachRecordBecomesATask(t *testing.T) {
	onEach(t, testEachRecordBecomesATask)
}

func testEachRecordBecomesATask(t *testing.T, brokers cluster) {
	topic := newTopic(t, brokers, 3, nil)
	produce(t, brokers, numbered(topic, 3, 0, 2500)...)
	n := newNode(t, brokers, definition("orders", topic))
	n.await("the records that were there", func() bool { tasks, _ := n.ran(); return tasks == 2500 })
	produce(t, brokers, numbered(topic, 3, 2500, 500)...)
	n.await("the records that followed", func() bool { tasks, _ := n.ran(); return tasks == 3000 })
	n.await("the positions", func() bool { return n.status("orders").Lag == 0 })
	got := n.status("orders")
	var records, tasks uint64
	for _, p := range got.Partitions {
		records, tasks = records+p.Records, tasks+p.Tasks
		if p.Position != 1000 || p.End != 1000 || p.Owner != n.Name() {
			t.Errorf("%+v", p)
		}
	}
	if len(got.Partitions) != 3 || records != 3000 || tasks != 3000 || got.Problem != "" || got.Here.Tasks != 3000 {
		t.Errorf("%+v", got)
	}
	if _, most := n.ran(); most != 1 {
		t.Errorf("a task has run %d times", most)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	one := n.last["2998"]
	if want := fmt.Sprint(2998 % 7); one.OrderingKey != want {
		t.Errorf("the ordering key is %q, want %q", one.OrderingKey, want)
	}
	want := map[string]string{source.HeaderTopic: topic, source.HeaderPartition: "1", source.HeaderOffset: "999"}
	headers := one.Headers
	delete(headers, source.HeaderTimestamp)
	if diff := cmp.Diff(want, headers); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
	if !slices.Equal(n.sources.Names(), []string{"orders"}) {
		t.Errorf("the sources are %q", n.sources.Names())
	}
}
