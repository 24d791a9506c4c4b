package engine

import (
	"slices"

	"github.com/taskengine/taskengine/task"
)

// RanElsewhere says where an attempt of a task ran, or runs.
type RanElsewhere struct {
	Attempt uint32
	Nodes   []string // names of live nodes of which one ran it, sorted; none if its node is no longer a member
	IsHere  bool     // it may have run on this node as well
}

// Elsewhere returns which attempts of a task ran on other nodes, or may have, the oldest first: of those in its history,
// of the one that runs, and of the one that has finished the task. A row does not say which node finished it, so that it may have been any that
// runs the type. It returns nil if no other node is alive that shares the store. The task is not read again.
func (e *Engine) Elsewhere(t *task.Task) (all []RanElsewhere) {
	if len(e.cluster.Members()) < 2 {
		return nil
	}
	add := func(attempt uint32, owner task.ID) {
		if e.cluster.IsOurs(owner) {
			return
		}
		ran := RanElsewhere{Attempt: attempt}
		if name, ok := e.cluster.NameOf(owner); ok {
			ran.Nodes = []string{name}
		} else {
			ran.IsHere = true // this node may have had that incarnation before it was started
		}
		all = append(all, ran)
	}
	for _, a := range t.History {
		add(a.Number, a.Owner)
	}
	isRecorded := slices.ContainsFunc(t.History, func(a task.Attempt) bool { return a.Number == t.Attempt })
	switch {
	case t.State == task.Processing:
		add(t.Attempt, t.Owner)
	case t.Attempt > 0 && !isRecorded:
		ran := RanElsewhere{Attempt: t.Attempt, IsHere: true, Nodes: e.cluster.OthersThatRun(t.Type)}
		if len(ran.Nodes) > 0 {
			all = append(all, ran)
		}
	}
	return all
}
