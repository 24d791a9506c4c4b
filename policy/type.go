package policy

import (
	"time"

	"github.com/taskengine/taskengine/task"
)

// Type says how the engine treats the tasks of one type. [DefaultType] has the defaults.
type Type struct {
	Priority    uint8    // of tasks that are submitted without one
	Delivery    Delivery // the fate of a task after its node or handler process died
	Relaxed     bool     // start a task before its grab is durable; only with AtLeastOnce
	Concurrency int      // how many tasks may run at once on a node; 0 is no limit
	Weight      int      // how many slots of each limit one task takes, at least 1
	Slotless    bool     // its tasks take no slots of a node; only without Limits
	Limits      []string // names of limits; the first one is the parent of the type in the tree of limits, the others cut across the tree
	Nodes       Nodes    // which nodes may run the tasks; empty is all
	Paused      bool     // the type is paused at the start: tasks are accepted and wait
	MaxBacklog  Backlog  // how many tasks may be waiting or submitted
	MaxPayload  int      // in bytes; larger payloads are refused
	MaxResult   int      // in bytes, at most [LargestResult]; 0 is [DefaultMaxResult]; larger results are errors
	MaxCrashes  uint32   // after this many crashed attempts in a row the task becomes an error; 0 is never
	Timeout     Timeout
	Retry       Retry
	Retention   Retention
	Ordering    Ordering
	Unique      Unique
	Search      []string // places whose values an index finds: payload.NAME or headers.NAME

	// MaxLateness is how far in the past the time of a request may lie. A request with an earlier time adds no
	// task. 0 is no limit: such a task runs at once.
	MaxLateness time.Duration

	// Ageing is the time that a level of priority is worth: of two tasks with ageing that wait for the same, a task
	// of a level lower starts first if it became ready earlier by more than this. Such a task has its place
	// among tasks without ageing as if it had the default priority, and had become ready earlier by Ageing
	// for each level above, or later for each level below. 0 is no ageing: a better priority starts first,
	// however long others wait.
	Ageing time.Duration
}

// Bounds of [Type.Ageing] that is not 0.
const (
	ShortestAgeing = time.Millisecond
	LongestAgeing  = 365 * 24 * time.Hour
)

// MaxSearch is how many places [Type.Search] has at most.
const MaxSearch = 8

// Bounds of [Type.MaxPayload], in bytes. The library allows larger ones.
const (
	DefaultMaxPayload = 1 << 20
	LargestPayload    = 1 << 30
)

// Bounds of [Type.MaxResult], in bytes.
const (
	DefaultMaxResult = 1 << 20
	LargestResult    = 64 << 20
)

// ResultLimit returns the maximum size of a result in bytes.
func (t Type) ResultLimit() int {
	if t.MaxResult == 0 {
		return DefaultMaxResult
	}
	return t.MaxResult
}

// Rules returns the rules by which t decides about its tasks.
func (t Type) Rules() *task.Rules {
	return &task.Rules{
		QueueTimeout: t.Timeout.Queue, TotalTimeout: t.Timeout.Total,
		OnConflict: t.Unique.OnConflict, Window: t.Unique.Window, MaxLateness: t.MaxLateness,
		AtMostOnce: t.Delivery == AtMostOnce, MaxCrashes: t.MaxCrashes, Retry: t.Retry, Fails: t.Retry.Fails,
		Continues: t.Ordering.OnExhausted == Continue, Yields: t.Ordering.OnRetry == Yield,
		KeepDone: t.Retention.Done, KeepFailed: t.Retention.Failed, KeepCancelled: t.Retention.Cancelled,
		Remember: t.Unique.Remembers(),
	}
}

// Backlog bounds the backlog of a type: its tasks that are waiting or submitted. These tasks
// have not started, or will run again.
type Backlog struct {
	Max      int      // 0 is no bound
	WhenFull WhenFull // the fate of tasks that would exceed Max
}

// WhenFull is the fate of new tasks of a type with a full backlog.
type WhenFull uint8

// The values of WhenFull.
const (
	Reject      WhenFull = iota // the new tasks are refused
	DropOldest                  // the oldest tasks that have never started are cancelled for them
	PauseSource                 // the source of the new tasks waits for room
)

// String returns the name of the answer.
func (w WhenFull) String() string {
	switch w {
	case DropOldest:
		return "drop_oldest"
	case PauseSource:
		return "pause_source"
	}
	return "reject"
}

// Ordering defines the effects of the tasks of a type on the tasks behind them, with the same ordering key.
type Ordering struct {
	OnExhausted OnExhausted // when a task becomes an error
	OnRetry     OnRetry     // when a task waits for its next attempt
	Inherit     bool        // a task runs with the highest priority of the tasks behind it, see [task.Task.Inherit]
}

// OnExhausted is the effect of an error on the tasks behind it.
type OnExhausted uint8

// The values of OnExhausted.
const (
	Halt     OnExhausted = iota // they wait until a person has resumed, failed or cancelled the task
	Continue                    // they run
)

// String returns the name of the value.
func (o OnExhausted) String() string {
	if o == Continue {
		return "continue"
	}
	return "halt"
}

// OnRetry is the effect of a task that waits for its next attempt on the tasks behind it.
type OnRetry uint8

// The values of OnRetry.
const (
	Block OnRetry = iota // they wait
	Yield                // they run; the task takes the seat of the time of its next attempt
)

// String returns the name of the value.
func (o OnRetry) String() string {
	if o == Yield {
		return "yield"
	}
	return "block"
}

// Delivery is the fate of a task after an attempt that ended without an answer.
type Delivery uint8

// The values of Delivery.
const (
	// AtLeastOnce runs the task again. The handler may have done the work twice and must
	// allow for that.
	AtLeastOnce Delivery = iota
	// AtMostOnce makes the task an error, and a person decides about it. The engine never runs
	// such a task twice on its own, and retries it only if its handler has answered.
	AtMostOnce
)

// String returns the name of the delivery.
func (d Delivery) String() string {
	if d == AtMostOnce {
		return "at_most_once"
	}
	return "at_least_once"
}

// Timeout has the time limits of a task. Zero is no limit.
type Timeout struct {
	Run   time.Duration // for one attempt, from its start; then it is cancelled
	Grace time.Duration // at least this long from the cancellation until the attempt is given up
	Queue time.Duration // from becoming submitted to being grabbed; then the task is an error
	Total time.Duration // from the submit to the end; then the task is an error
}

// Retention says how long the row of a finished task is kept after its end. [Forever] keeps it
// without a time limit, and zero removes it at its end. Tasks in the state error are kept until they
// are resumed, failed or cancelled.
type Retention struct {
	Done, Failed, Cancelled time.Duration
}

// Forever is the retention of rows that are never removed, and the [Retry.Max] of tasks that are tried
// again without end.
const Forever = -1

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

// DefaultType returns the defaults of a type.
func DefaultType() Type {
	const day = 24 * time.Hour
	return Type{
		Priority:   task.DefaultPriority,
		Weight:     1,
		MaxPayload: DefaultMaxPayload,
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
