package task

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"
)

// ErrNotFound says that no task has the id asked for.
var ErrNotFound = errors.New("task not found")

// Priorities: a lower number runs sooner.
const (
	HighestPriority uint8 = 0
	DefaultPriority uint8 = 5
	LowestPriority  uint8 = 9
)

// MaxHistory is how many past attempts a row remembers, the newest ones.
const MaxHistory = 20

// MaxErrorText is how many bytes of an error a row keeps; longer ones are cut.
const MaxErrorText = 2048

// Task is one row: everything the engine knows about a piece of work. A *Task handed
// out by a store or the engine belongs to the receiver.
type Task struct {
	ID      ID
	Version uint64 // 1 when inserted, one more with every change
	State   State

	Type        string // which handler and which policies: see the configuration of types
	Shard       uint16 // hash of OrderingKey or ID, modulo the number of shards
	Priority    uint8  // HighestPriority..LowestPriority
	Group       string // values of the keyed limits of the type, see GroupOf; "" if it has none
	Key         string // unique per type while the row exists; "" if none
	OrderingKey string // tasks that share it run one at a time; "" if none
	Seq         uint64 // order of insertion, assigned by the store

	Attempt uint32 // how many times it was grabbed since the count was last reset
	Crashes uint32 // how many attempts in a row took their process, or their node, with them

	CreatedAt   time.Time // when it was submitted
	ReadyAt     time.Time // when it could first run; retries never move it
	NextEventAt time.Time // when somebody must look at it again; zero is never. Written by Change.Apply only
	ExpiresAt   time.Time // when it is too late to run it; zero is never
	StartedAt   time.Time // when its newest attempt was grabbed; zero before the first
	UpdatedAt   time.Time // when it last changed

	Owner     ID                // incarnation of the node that runs it; zero unless Processing
	Headers   map[string]string // carried along untouched, such as a trace context
	Payload   []byte            // the handler's input; a store may leave it out, see storage.Tasks
	Result    []byte            // what the handler returned when it finished
	LastError string            // why it is not done; at most MaxErrorText bytes
	History   []Attempt         // attempts that ended without finishing the task, oldest first
	Notes     *Notes            // what attempts said before they ended; nil is nothing
}

// Attempt is one past run of a task that did not finish it.
type Attempt struct {
	Number    uint32    // 1 for the first
	StartedAt time.Time // when it was grabbed
	EndedAt   time.Time // when it was given up
	Owner     ID        // the incarnation that ran it
	Outcome   Outcome   // how it ended
	Error     string    // what was said about it
}

// Ref names one version of one task: the only currency of consistency.
type Ref struct {
	ID      ID
	Version uint64
}

// Rank is the place of a ready task among the others: by priority, then by the time
// it became ready, then by the order of insertion.
type Rank struct {
	Priority uint8
	ReadyAt  int64 // Unix microseconds
	Seq      uint64
}

// Compare returns -1, 0 or 1 as r comes before, with or after other.
func (r Rank) Compare(other Rank) int {
	if r.Priority != other.Priority {
		return cmp.Compare(r.Priority, other.Priority)
	}
	if r.ReadyAt != other.ReadyAt {
		return cmp.Compare(r.ReadyAt, other.ReadyAt)
	}
	return cmp.Compare(r.Seq, other.Seq)
}

// Queue names the queue a task waits in: its type, and within the type its group.
type Queue struct {
	Type  string
	Group string
}

// Trigger says that this version of a task is ready. It is a hint: it may be lost,
// doubled or out of date.
type Trigger struct {
	Ref
	Queue
	Rank
	Shard uint16
}

// Ref returns the name of this version of the task.
func (t *Task) Ref() Ref { return Ref{t.ID, t.Version} }

// Queue returns the queue the task waits in.
func (t *Task) Queue() Queue { return Queue{t.Type, t.Group} }

// Rank returns the place of the task within its queue.
func (t *Task) Rank() Rank { return Rank{t.Priority, t.ReadyAt.UnixMicro(), t.Seq} }

// Trigger returns the hint that this version of the task is ready.
func (t *Task) Trigger() Trigger { return Trigger{t.Ref(), t.Queue(), t.Rank(), t.Shard} }

// Clone returns a deep copy.
func (t *Task) Clone() *Task {
	c := *t
	c.Headers = maps.Clone(t.Headers)
	c.Payload = slices.Clone(t.Payload)
	c.Result = slices.Clone(t.Result)
	c.Notes = NewNotes(t.Progress(), slices.Clone(t.Checkpoint()))
	c.History = slices.Clone(t.History)
	return &c
}

// Stamp returns t as rows keep it: in UTC, cut to the microsecond. The zero time
// stays zero.
func Stamp(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return time.UnixMicro(t.UnixMicro()).UTC()
}
