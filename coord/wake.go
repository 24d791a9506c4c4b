package coord

import "github.com/taskengine/taskengine/task"

// The kinds of hints without a task, as their version.
const (
	oneShard = 1
	changed  = 2
)

// Wake returns the hint that tasks may be ready in the shard: its ID is zero and its Version 1.
// A node that receives it reads the shard from the store.
func Wake(shard uint16) task.Hint {
	return task.Hint{Trigger: task.Trigger{Ref: task.Ref{Version: oneShard}, Shard: shard}}
}

// WakeAll returns the hint that tasks may be ready in any shard, for example because hints were
// lost: the zero Hint.
func WakeAll() task.Hint { return task.Hint{} }

// Changed returns the hint that a setting has changed, for example which types are paused.
// Programs that do not know this kind treat it like WakeAll.
func Changed() task.Hint {
	return task.Hint{Trigger: task.Trigger{Ref: task.Ref{Version: changed}}}
}

// Woken reports whether a hint names no task. If so, it returns the shard that the hint is about,
// or that it is about all shards. A hint of an unknown kind is about all shards.
func Woken(h task.Hint) (shard uint16, all, ok bool) {
	if !h.ID.IsZero() {
		return 0, false, false
	}
	return h.Shard, h.Version != oneShard, true
}
