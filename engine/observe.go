package engine

import (
	"time"

	"github.com/taskengine/taskengine/engine/task"
)

// Observer has functions that the engine calls when something happens to one of its tasks.
// Every field may be nil. The engine calls them from its own goroutines, some of them with its
// mutex locked: they must be quick, must not call the engine, and must not change or retain
// the task.
type Observer struct {
	Inserted func(at time.Time, t *task.Task)               // a task became durable: submitted, waiting, or grabbed at once
	Started  func(at time.Time, t *task.Task)               // the handler of a task is called now
	Saved    func(at time.Time, was task.Ref, t *task.Task) // a change became durable; t is nil if the change came too late
}
