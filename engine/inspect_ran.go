package engine

import "github.com/taskengine/taskengine/task"

// RanElsewhere says on which other node an attempt of a task ran, or runs.
type RanElsewhere struct {
	Attempt uint32
	Node    string // its name
	IsAlive bool   // another node that is alive has this name
	IsHere  bool   // this node has it as well, so that the attempt may have run here
}

// Elsewhere returns which attempts of a task ran on other nodes that share the store, the oldest first: of those in its
// history, of the one that runs, and of the one that has finished the task. It returns nil if no others share the store. The
// task is not read again.
func (e *Engine) Elsewhere(t *task.Task) (all []RanElsewhere) {
	if !e.cluster.IsShared() {
		return nil
	}
	add := func(attempt uint32, node string) {
		isHere, isAlive := e.cluster.Named(node)
		if node != "" && (!isHere || isAlive) {
			all = append(all, RanElsewhere{attempt, node, isAlive, isHere})
		}
	}
	for _, a := range t.History {
		add(a.Number, a.Node)
	}
	if t.State == task.Processing || t.State == task.Done { // else its newest attempt is in the history, or was handed back
		add(t.Attempt, t.Node)
	}
	return all
}
