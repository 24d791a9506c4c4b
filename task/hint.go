package task

import "time"

// Subject is the subject of a [Hint].
type Subject uint8

// The subjects of hints, with the fields of the hint that they use.
const (
	AboutTask     Subject = iota // a row: every field
	AboutKey                     // an ordering key, to which a task that is Behind was added: Type, Shard and OrderingKey
	AboutShard                   // tasks that may be ready in a shard: Shard
	AboutAll                     // tasks that may be ready in any shard: none
	AboutSettings                // a setting, such as which types are paused: none
)

// Hint says that a row has changed, and its new state, or where to look for changes. It is for the node that is to start
// the task or that runs it. Like a [Trigger] it may be lost, delivered twice or out of date.
type Hint struct {
	Trigger
	State       State
	About       Subject
	NextEventAt time.Time // as in the row
	OrderingKey string    // as in the row, if it is Behind: the head of this key is to be looked for
}

// Hint returns the hint of this version of the task.
func (t *Task) Hint() Hint {
	h := Hint{Trigger: t.Trigger(), State: t.State, NextEventAt: t.NextEventAt}
	if t.Turn == Behind {
		h.OrderingKey = t.OrderingKey
	}
	return h
}
