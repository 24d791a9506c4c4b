package coord_test

import (
	"testing"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/task"
)

func TestAHintIsAboutOneShardOrAll(t *testing.T) {
	for _, c := range []struct {
		name  string
		hint  task.Hint
		shard uint16
		ok    bool
	}{
		{"one shard", coord.Wake(7), 7, true},
		{"the first shard", coord.Wake(0), 0, true},
		{"all shards", coord.WakeAll(), 0, false},
		{"a setting", coord.Changed(), 0, false},
		{"a key", task.Hint{About: task.AboutKey, OrderingKey: "k", Trigger: task.Trigger{Shard: 7}}, 7, true},
		{"a task", task.Hint{Trigger: task.Trigger{Ref: task.Ref{ID: task.ID{1}, Version: 1}, Shard: 7}}, 7, true},
	} {
		if shard, ok := coord.AboutShard(&c.hint); shard != c.shard || ok != c.ok {
			t.Errorf("%s: got %d, %v, want %d, %v", c.name, shard, ok, c.shard, c.ok)
		}
	}
}
