package cluster

import "github.com/taskengine/taskengine/engine/task"

// Place is where a task is.
type Place uint8

// The places of a task.
const (
	Here        Place = iota // this node is to start it, or no node that is known
	RunsThere                // it runs on another node
	RunnerGone               // it ran on a node that is gone
	StartsThere              // another node is to start it
)

// Locate returns where a task is that this node does not hold. It returns the name of the other node
// with RunsThere and StartsThere.
func (k *Cluster) Locate(t *task.Task) (at Place, node string) {
	v := k.view.Load()
	switch {
	case len(v.members) == 0:
		return Here, ""
	case t.State == task.Processing:
		if m := v.member(t.Owner); m != nil {
			return RunsThere, m.Name
		}
		return RunnerGone, ""
	case v.owned.Has(t.Type, t.Shard):
		return Here, ""
	}
	for _, m := range v.members {
		if theirs := assign(m.Incarnation, v.members); theirs.Has(t.Type, t.Shard) {
			return StartsThere, m.Name
		}
	}
	return Here, ""
}
