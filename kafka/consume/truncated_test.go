package consume_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/taskengine/taskengine/internal/kafkatest"
)

// A log that has lost its records, and has got more records since than were read, is read from its beginning: the offsets
// are the same, and the leader's epoch tells them apart. The topic keeps its id, and so its tasks.
func TestALogThatWasTruncatedIsReadFromWhereItWasCut(t *testing.T) {
	t.Parallel()
	c := kafkatest.New(t, 1)
	topic := newTopic(t, c, 1, nil)
	n := newNode(t, c, definition("orders", topic))
	produce(t, c, numbered(topic, 1, 0, 10)...)
	n.await("the first records", func() bool { tasks, _ := n.ran(); return tasks == 10 })
	before := n.status("orders").Partitions[0].Task
	n.pauseAt("orders")
	if err := c.Kill(0); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(c.Data(0), topic+"-0", "0*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		if err := os.Remove(f); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Restart(0); err != nil {
		t.Fatal(err)
	}
	produce(t, c, numbered(topic, 1, 100, 15)...)
	if err := n.sources.Resume(t.Context(), n.Engine, "orders"); err != nil {
		t.Fatal(err)
	}
	n.await("the records that followed", func() bool { tasks, most := n.ran(); return tasks == 25 && most == 1 })
	n.await("what was lost", func() bool { return slices.Equal(n.losses("orders"), []lossOf{{0, 0, 10, false}}) })
	if s := n.status("orders"); s.Here.Lost != 10 || s.Partitions[0].Task != before || len(s.Partitions) != 1 {
		t.Errorf("%+v", s)
	}
}
