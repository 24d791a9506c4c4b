package consume_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taskengine/taskengine/kafka/source"
)

// Records become tasks once: the present ones, the following ones, and the records of partitions that are added later.
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

// A source begins at the first record, behind the last one, or at the first record of a time, which may be later than all.
func TestASourceBeginsWhereItsStartSays(t *testing.T) {
	onEach(t, func(t *testing.T, brokers cluster) {
		middle := time.Now().Truncate(time.Millisecond)
		topic := newTopic(t, brokers, 3, nil) // the last one stays empty
		records := numbered(topic, 2, 0, 100)
		for i, r := range records {
			r.Timestamp = middle.Add(time.Duration(i-50) * time.Second)
		}
		produce(t, brokers, records...)
		want := map[string]int{"earliest": 110, "latest": 10, "time": 60, "future": 10}
		nodes := make(map[string]*node)
		for name, start := range map[string]source.Start{
			"earliest": {}, "latest": source.Latest(), "time": source.StartAt(middle), "future": source.StartAt(middle.Add(24 * time.Hour)),
		} {
			d := definition(name, topic)
			d.Start = start
			nodes[name] = newNode(t, brokers, d)
		}
		for name, n := range nodes {
			n.await("the start of "+name, func() bool { s := n.status(name); return len(s.Partitions) == 3 && s.Lag == 0 })
		}
		produce(t, brokers, numbered(topic, 2, 100, 10)...)
		for name, n := range nodes {
			n.await("the records of "+name, func() bool { tasks, _ := n.ran(); return tasks == want[name] && n.status(name).Lag == 0 })
			n.mu.Lock()
			for i := range 110 {
				times := 0
				if i >= 110-want[name] {
					times = 1
				}
				if got := n.runs[fmt.Sprint(i)]; got != times {
					t.Errorf("%s: record %d has become %d tasks, want %d", name, i, got, times)
				}
			}
			n.mu.Unlock()
		}
	})
}
