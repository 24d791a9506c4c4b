package coord

import "github.com/taskengine/taskengine/task"

// Wake returns the hint that tasks may be ready in the shard. A node that receives it reads the shard from the store.
func Wake(shard uint16) task.Hint {
	return task.Hint{About: task.AboutShard, Trigger: task.Trigger{Shard: shard}}
}

// WakeAll returns the hint that tasks may be ready in any shard, for example because hints were lost.
func WakeAll() task.Hint { return task.Hint{About: task.AboutAll} }

// Changed returns the hint that a setting has changed, for example which types are paused.
func Changed() task.Hint { return task.Hint{About: task.AboutSettings} }

// AboutShard returns the shard that a hint is about, and false if the hint is about all of them.
func AboutShard(h *task.Hint) (shard uint16, ok bool) {
	return h.Shard, h.About != task.AboutAll && h.About != task.AboutSettings
}
