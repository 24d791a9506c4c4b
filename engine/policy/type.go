package policy

import (
	"time"

	"github.com/taskengine/taskengine/engine/task"
)

// Type is how the tasks of one type are treated. Start from [DefaultType].
type Type struct {
	Priority    uint8    // of tasks submitted without one
	Delivery    Delivery // what happens to a task whose node or handler process died
	Relaxed     bool     // grab before the grab is durable; only with AtLeastOnce
	Concurrency int      // how many may run at once on a node; 0 is without limit
	Weight      int      // how many slots of each limit one task takes, at least 1
	Limits      []string // names of limits: the first is its place in the tree, the others cut across
	Paused      bool     // starts paused: tasks are accepted and wait
	MaxPayload  int      // bytes; larger payloads are refused
	MaxResult   int      // bytes of the largest result, at most [LargestResult]; 0 is [DefaultMaxResult]
	MaxCrashes  uint32   // after so many crashed attempts in a row the task becomes an error; 0 is never
	Timeout     Timeout
	Retry       Retry
	Retention   Retention
}

// Bounds of [Type.MaxResult], in bytes.
const (
	DefaultMaxResult = 1 << 20
	LargestResult    = 64 << 20
)

// ResultLimit returns how many bytes the result of a task of the type may have.
func (t Type) ResultLimit() int {
	if t.MaxResult == 0 {
		return DefaultMaxResult
	}
	return t.MaxResult
}

// Delivery says what happens to a task whose attempt ended without an answer.
type Delivery uint8

// The deliveries.
const (
	// AtLeastOnce runs the task again: it may have run twice, and its handler copes.
	AtLeastOnce Delivery = iota
	// AtMostOnce makes the task an error that a person decides about: it never runs
	// twice by itself. It is not retried either, unless its handler answered.
	AtMostOnce
)

// String returns the delivery's name.
func (d Delivery) String() string {
	if d == AtMostOnce {
		return "at_most_once"
	}
	return "at_least_once"
}

// Timeout says how long is too long. Zero is no limit.
type Timeout struct {
	Run   time.Duration // one attempt, from its grab: then it is cancelled
	Grace time.Duration // from the cancel until the attempt is given up, at least
	Queue time.Duration // from being ready to being grabbed: then the task is an error
	Total time.Duration // from the submit to the end: then the task is an error
}

// Retention says how long a finished task is kept after its end. [Forever] keeps it,
// and zero removes it with its end. Tasks in the state error are kept until somebody
// deals with them.
type Retention struct {
	Done, Failed, Cancelled time.Duration
}

// Forever is the retention that removes nothing.
const Forever time.Duration = -1

// Of returns how long a task that ended in state s is kept.
func (r Retention) Of(s task.State) time.Duration {
	switch s {
	case task.Done:
		return r.Done
	case task.Failed:
		return r.Failed
	case task.Cancelled:
		return r.Cancelled
	}
	return Forever
}

// DefaultType returns the treatment of a type about which nothing else is said.
func DefaultType() Type {
	const day = 24 * time.Hour
	return Type{
		Priority:   task.DefaultPriority,
		Weight:     1,
		MaxPayload: 1 << 20,
		MaxResult:  DefaultMaxResult,
		MaxCrashes: 5,
		Timeout:    Timeout{Run: time.Hour, Grace: 10 * time.Second},
		Retry: Retry{
			Max:     10,
			Backoff: Backoff{Kind: Exponential, Initial: time.Second, Factor: 2, Max: time.Hour, Jitter: 0.2},
		},
		Retention: Retention{Done: 7 * day, Failed: 30 * day, Cancelled: 7 * day},
	}
}
