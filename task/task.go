package task

import (
	"cmp"
	"errors"
	"maps"
	"math"
	"slices"
	"time"
)

// ErrNotFound is returned when no task has the requested id.
var ErrNotFound = errors.New("task not found")

// Priorities: a lower number runs sooner.
const (
	HighestPriority uint8 = 0
	DefaultPriority uint8 = 5
	LowestPriority  uint8 = 9
)

// MaxCount is where the numbers of attempts and of crashes of a task stop: every store can keep it.
const MaxCount = math.MaxInt32

// MaxHistory is the maximum number of past attempts in a row. The newest are kept.
const MaxHistory = 20

// MaxNode is the maximum number of bytes of the name of a node in a row, see [NodeName].
const MaxNode = 100

// MaxErrorText is the maximum number of bytes of an error in a row. Longer ones are cut.
const MaxErrorText = 2048

// Task is one row: everything the engine knows about a piece of work. The caller owns a *Task that a
// store or the engine has returned.
type Task struct {
	ID      ID
	Version uint64 // 1 when inserted; every change adds 1

	// The small fields are side by side, because a process has many rows in memory.
	State     State
	Priority  uint8  // HighestPriority..LowestPriority
	Shard     uint16 // see ID.Shard and BoundShard; less than ShardCount
	Turn      Turn   // whether it may run, by its ordering key. Only Change.Apply, Task.Create and stores write it
	Inherits  bool   // as the head of its ordering key it runs with the highest priority among the tasks behind it
	Boost     uint8  // by how much it runs before its Priority, see Task.Inherit. Written by the writers of Turn
	Tombstone bool   // it is done, and its contents were removed: see Change.Remember. Only Change.Apply writes it

	Type        string // selects the handler and the policies, see the configuration of types
	Group       string // values of the keyed limits of the type, see GroupOf; "" if it has none
	Key         string // unique per type, and per ordering key if it has one, while the row exists; "" if none
	OrderingKey string // tasks that share it run one at a time; it decides the shard; "" if none
	Seq         uint64 // order of insertion, assigned by the store

	Attempt uint32 // number of grabs since the count was last reset
	Crashes uint32 // number of attempts in a row during which the handler process or the node died

	CreatedAt   time.Time // when it was submitted
	ReadyAt     time.Time // when it could run for the first time; retries do not change it
	NextEventAt time.Time // when the engine has to act on it next; zero is never. Only Change.Apply and Task.Create write it
	ExpiresAt   time.Time // from when on it is not run any more; zero is never
	StartedAt   time.Time // when its newest attempt was grabbed; zero before the first
	Node        string    // the name of the node that grabbed that attempt; it stays when the attempt ends
	UpdatedAt   time.Time // when it last changed

	Owner     ID                // incarnation of the node that runs it; zero unless Processing
	Headers   map[string]string // stored and returned unchanged, such as a trace context
	Payload   []byte            // the handler's input; a store may leave it out, see package storage
	Result    []byte            // of the handler
	LastError string            // why it is not done, at most MaxErrorText bytes
	History   []Attempt         // attempts that began and did not finish the task, and changes by people, see [Outcome.ByPeople], oldest first
	Notes     *Notes            // what attempts reported before they ended; nil if nothing
	Signals   *Signals          // its waits and signals; nil if it has none. Only Change.Apply and Rules.Create write it
	Parent    *Parent           // the task that learns of its end; nil if none does. It does not change
	Children  *Children         // its children; nil if it has none. Only Change.Apply and Rules.Create write it
	Search    []SearchValue     // the values of its search attributes, ascending, each once; nil if it has none
}

// Attempt is one past run of a task that did not finish it. An attempt that was handed back has not begun, and
// leaves none.
type Attempt struct {
	Number    uint32    // 1 for the first
	StartedAt time.Time // when it was grabbed
	EndedAt   time.Time // when it ended
	Node      string    // the name of the node that ran it; "" if that has none
	Outcome   Outcome   // how it ended
	Error     string    // why it ended, if there was an error
	By        string    // who has made the change, if that is known: of an entry that is [Edited] or [Erased]
	Job       string    // the bulk job that has made it; "" if none did
	Before    string    // a [Before], encoded, of the newest entry if it is a change by a bulk job; otherwise ""
}

// Ref names one version of one task. Every compare-and-swap is on a Ref.
type Ref struct {
	ID      ID
	Version uint64
}

// Rank is the place of a ready task in the order in which ready tasks run: by priority, then by the
// time at which the task became ready, then by the order of insertion.
type Rank struct {
	Priority uint8
	ReadyAt  int64 // Unix microseconds
	Seq      uint64
}

// Compare returns -1 if r comes before other, 1 if it comes after it, and 0 if they are equal.
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

// Trigger says that this version of a task is ready. It is a hint: it may be lost, delivered twice
// or out of date.
type Trigger struct {
	Ref
	Queue
	Rank
	Shard uint16
	Turn  Turn
}

// Ref returns the name of this version of the task.
func (t *Task) Ref() Ref { return Ref{t.ID, t.Version} }

// Queue returns the queue the task waits in.
func (t *Task) Queue() Queue { return Queue{t.Type, t.Group} }

// Rank returns the place of the task within its queue.
func (t *Task) Rank() Rank {
	return Rank{t.Priority - min(t.Priority, t.Boost), t.ReadyAt.UnixMicro(), t.Seq}
}

// Trigger returns the hint that this version of the task is ready.
func (t *Task) Trigger() Trigger { return Trigger{t.Ref(), t.Queue(), t.Rank(), t.Shard, t.Turn} }

// Clone returns a deep copy.
func (t *Task) Clone() *Task {
	c := *t
	c.Headers = maps.Clone(t.Headers)
	c.Payload = slices.Clone(t.Payload)
	c.Result = slices.Clone(t.Result)
	c.Notes = NewNotes(t.Progress(), slices.Clone(t.Checkpoint()))
	c.History = slices.Clone(t.History)
	c.Signals = t.Signals.Clone()
	if t.Parent != nil {
		c.Parent = new(*t.Parent)
	}
	c.Children = t.Children.Clone()
	c.Search = slices.Clone(t.Search)
	return &c
}

// Stamp returns t as rows have it: in UTC, truncated to the microsecond. The zero time stays zero.
func Stamp(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return time.UnixMicro(t.UnixMicro()).UTC()
}
