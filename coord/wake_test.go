package coord_test

import (
	"testing"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/task"
)

func TestAHintWithoutATaskSaysWhereToLook(t *testing.T) {
	for _, c := range []struct {
		name    string
		hint    task.Hint
		shard   uint16
		all, ok bool
	}{
		{"one shard", coord.Wake(7), 7, false, true},
		{"the first shard", coord.Wake(0), 0, false, true},
		{"all shards", coord.WakeAll(), 0, true, true},
		{"that something has changed", coord.Changed(), 0, true, true},
		{"a kind from the future", task.Hint{Trigger: task.Trigger{Ref: task.Ref{Version: 9}, Shard: 7}}, 7, true, true},
		{"a task", task.Hint{Trigger: task.Trigger{Ref: task.Ref{ID: task.ID{1}, Version: 1}, Shard: 7}}, 0, false, false},
	} {
		if shard, all, ok := coord.Woken(c.hint); shard != c.shard || all != c.all || ok != c.ok {
			t.Errorf("%s: got %d, %v, %v, want %d, %v, %v", c.name, shard, all, ok, c.shard, c.all, c.ok)
		}
	}
}
