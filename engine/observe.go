package engine

import (
	"time"

	"github.com/taskengine/taskengine/engine/task"
)

// Observer is called when something happens to a task of this engine. Every field may
// be nil. The functions are called from the engine's own goroutines, some of them while
// it holds its lock: they must be quick, must not call the engine, and must not change
// the task or keep it.
type Observer struct {
	Inserted func(at time.Time, t *task.Task)               // a task became durable: submitted, waiting, or grabbed at once
	Started  func(at time.Time, t *task.Task)               // its handler is called now
	Saved    func(at time.Time, was task.Ref, t *task.Task) // a change became durable; t is nil if it came too late
}
