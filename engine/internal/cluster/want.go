package cluster

import (
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/task"
)

// want names the shards of the hints that this node needs to a selective bus: the shards that it owns or has owned until now, and the
// shards of its attempts, which a hint may cancel. The next poll leaves out shards of before without attempts.
func (k *Cluster) want(before core.Ownership) {
	selective, ok := k.bus.(coord.Selective)
	if !ok {
		return
	}
	k.wanting.Lock()
	defer k.wanting.Unlock()
	var running task.Shards
	k.engine.Decide(func(*core.Core, time.Time) { running = k.engine.RunningIn() })
	owned := k.Owned()
	own, past := owned.Any(), before.Any()
	if own == nil || past == nil {
		selective.Want(nil)
		return
	}
	all := own.With(past)
	all = all.With(&running)
	selective.Want(&all)
}

// BusStatus returns the state of the connection to the bus. It reports false if the node has none that can fail.
func (k *Cluster) BusStatus() (coord.BusStatus, bool) {
	if r, ok := k.bus.(coord.Reporter); ok && k.shared != nil {
		return r.BusStatus(), true
	}
	return coord.BusStatus{}, false
}
