package cluster

import (
	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/task"
)

// Location says which node has a task.
type Location uint8

// The locations of a task.
const (
	Here        Location = iota // this node is to start it, or no node that is known
	RunsThere                   // it runs on another node
	RunnerGone                  // it ran on a node that is gone
	StartsThere                 // another node is to start it
)

// ownedAs returns the name of the tasks of a queue in an ownership.
func (k *Cluster) ownedAs(q task.Queue) string {
	return core.OwnedAs(q.Type, k.engine.Placement(q).Nodes)
}

// StartableIn returns the shards where this node starts the tasks of a queue; nil is all.
func (k *Cluster) StartableIn(q task.Queue) *task.Shards {
	if k.engine.Placement(q).Elsewhere {
		return new(task.Shards)
	}
	owned := k.Owned()
	return owned.Of(k.ownedAs(q))
}

// Locate returns where a task is that this node does not hold. It returns the other node with RunsThere and StartsThere.
func (k *Cluster) Locate(t *task.Task) (at Location, node coord.Member) {
	v := k.view.Load()
	switch {
	case len(v.members) == 0:
		return Here, node
	case t.State == task.Processing:
		if m := v.member(t.Owner); m != nil {
			return RunsThere, *m
		}
		return RunnerGone, node
	case v.owned.Has(k.ownedAs(t.Queue()), t.Shard):
		return Here, node
	}
	for _, m := range v.members {
		if theirs := assign(m.Incarnation, v.members, k.config.Places); theirs.Has(k.ownedAs(t.Queue()), t.Shard) {
			return StartsThere, m
		}
	}
	return Here, node
}
