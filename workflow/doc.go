// Package workflow decides what a workflow does next: which of its steps are ready, which tasks they add, and what it waits for. A workflow
// is a graph of steps, as a [Definition]. A step runs tasks of a type, or waits for a signal or for a time. Steps run when
// the steps before them have ended, so those that do not depend on each other run beside each other.
//
// The package decides only: it has no clock, goroutine or I/O. Package runner runs workflows on an engine.
//
// A workflow is itself a task, of the type [Type]. Its payload is its [Spec], which has a copy of the definition, and its checkpoint
// its [State]. The tasks of a step are its children (see [task.WithChildren]): those of each step are a set with the name of the
// step. So a workflow is kept by every store, takes no slot while it waits, and each decision is one change of its row:
// a node that dies after the decision and before the commit has decided nothing, and tasks are not added twice.
package workflow
