package kafka

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/task"
)

func TestRecordsAreEncodedAndDecoded(t *testing.T) {
	own, other := markOf("own"), markOf("other")
	rapid.Check(t, func(t *rapid.T) {
		var hs, got []task.Hint
		for range rapid.IntRange(0, 500).Draw(t, "hints") {
			hs = append(hs, task.Hint{Trigger: task.Trigger{
				Ref: task.Ref{ID: task.ID{1}, Version: 1}, Queue: task.Queue{Group: strings.Repeat("g", rapid.IntRange(0, 300).Draw(t, "length"))},
			}})
		}
		for _, value := range own.hintValues(hs) {
			if len(value) > maxPiece+100 {
				t.Fatalf("a value of %d bytes", len(value))
			}
			r, err := own.decode(value)
			if err != nil || r.message != nil {
				t.Fatal(r, err)
			}
			got = append(got, r.hints...)
			if r, err = other.decode(value); err != nil || r.hints != nil {
				t.Fatalf("another cluster decodes %v, %v", r, err)
			}
		}
		if !slices.Equal(got, hs) {
			t.Fatalf("encoded %v, decoded %v", hs, got)
		}
		topic, message := rapid.String().Draw(t, "topic"), rapid.SliceOf(rapid.Byte()).Draw(t, "message")
		if r, err := own.decode(own.messageValue(topic, message)); err != nil || r.topic != topic || r.message == nil || !slices.Equal(r.message, message) {
			t.Fatalf("decoded %+v, %v", r, err)
		}
	})
}

func TestAMessageThatIsTooLargeIsNotDecoded(t *testing.T) {
	m := markOf("own")
	if _, err := m.decode(m.messageValue("t", make([]byte, coord.MaxMessage))); err == nil {
		t.Error("it was decoded")
	}
}

func FuzzDecode(f *testing.F) {
	m := markOf("own")
	f.Add([]byte(nil))
	f.Add(m.head(kindHello, 0))
	f.Add(m.head('?', 0))
	f.Add(m.messageValue("topic", []byte("message")))
	f.Add(append(m.head(kindMessage, 0), 255, 255, 255, 255, 255, 255, 255, 255, 255, 1))
	f.Add(m.hintValues([]task.Hint{coord.WakeAll(), coord.Wake(3)})[0])
	f.Fuzz(func(t *testing.T, value []byte) {
		r, err := m.decode(value)
		if err == nil && len(value) >= 2 && value[0] != version {
			t.Error("another version was decoded")
		}
		if errors.Is(err, errNoRecord) && r.hints != nil {
			t.Error("what is no record has hints")
		}
	})
}

func TestANodeReadsThePartitionsOfItsShardsAndTheFirst(t *testing.T) {
	for _, partitions := range []int32{1, 3, 16, 256, 1000} {
		for shard := range uint16(2 * task.ShardCount) {
			var shards task.Shards
			shards.Add(shard)
			all := needed(&shards, partitions)
			h := task.Hint{Trigger: task.Trigger{Ref: task.Ref{ID: task.ID{1}}, Shard: shard}}
			wake := coord.Wake(shard)
			if p := partitionOf(&h, partitions); !all[0] || !all[p] || len(all) > 2 || p != partitionOf(&wake, partitions) {
				t.Fatalf("of %d partitions shard %d has %d, and its node reads %v", partitions, shard, p, all)
			}
		}
		every, changed := coord.WakeAll(), coord.Changed()
		if partitionOf(&every, partitions) != 0 || partitionOf(&changed, partitions) != 0 {
			t.Error("what all nodes are to know is not in the first partition")
		}
		if got, want := len(needed(nil, partitions)), min(int(partitions), task.ShardCount); got != want {
			t.Errorf("a node that needs all hints reads %d of %d partitions", got, partitions)
		}
	}
}
