package coord

import "github.com/taskengine/taskengine/engine/task"

// What a hint without a task is about, as its version.
const (
	oneShard = 1
	changed  = 2
)

// Wake returns the hint that something may be ready in the shard: its ID is zero and its
// Version 1. Who is told it looks into the store.
func Wake(shard uint16) task.Hint {
	return task.Hint{Trigger: task.Trigger{Ref: task.Ref{Version: oneShard}, Shard: shard}}
}

// WakeAll returns the hint that something may be ready anywhere, as after hints were
// lost: the zero Hint.
func WakeAll() task.Hint { return task.Hint{} }

// Changed returns the hint that what people have set has changed, such as which types are
// paused. For programs that do not know it, it is about all shards.
func Changed() task.Hint {
	return task.Hint{Trigger: task.Trigger{Ref: task.Ref{Version: changed}}}
}

// Woken reports whether a hint names no task, and then which shard it is about, or that
// it is about all of them. One of a kind that is not known yet is about all.
func Woken(h task.Hint) (shard uint16, all, ok bool) {
	if !h.ID.IsZero() {
		return 0, false, false
	}
	return h.Shard, h.Version != oneShard, true
}
