package client

import (
	"encoding/json"
	"fmt"
	"time"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/task"
)

// State is the state of a task. A node of a newer version may have states without a constant here: a State is their name then.
type State string

// The states of a task.
const (
	StateWaiting    State = "waiting"    // its time has not come: it is delayed, or waits for its next attempt
	StateSubmitted  State = "submitted"  // it is ready to run, and waits for a slot
	StateProcessing State = "processing" // its handler runs
	StateDone       State = "done"       // its handler finished
	StateError      State = "error"      // it is out of attempts or out of time, and a person has to decide
	StateFailed     State = "failed"     // an error that was acknowledged
	StateCancelled  State = "cancelled"  // a user cancelled it
)

// Turn is the place of a task among the tasks with its ordering key. A node of a newer version may have
// others.
type Turn string

// The turns of a task. The empty Turn is that of a task that takes no part in the order: it has no ordering key, has ended, or
// is an error that others do not wait for.
const (
	TurnHead   Turn = "head"   // it is the task of the key that runs, or is to run next
	TurnBehind Turn = "behind" // it waits for others of its key
)

// Task is a task with its state and history, as a node has returned it. It does not change. Times are in UTC; a time that a task
// does not have is the zero time.
type Task struct {
	ID      task.ID
	Type    string
	State   State
	Version uint64 // grows by one with every change; see [AtVersion]

	Attempt  uint32 // how many times it was started since the count was last reset
	Crashes  uint32 // how many attempts in a row ended with a crash of their process or node
	Priority uint8  // 0 (sooner) to 9 (later)

	Key         string            // unique among the tasks of its type; empty if it has none
	OrderingKey string            // tasks that share it run one at a time; empty if it has none
	Headers     map[string]string // nil if it has none

	CreatedAt   time.Time // when it was added
	ReadyAt     time.Time // when it could first run; retries do not change it
	NextEventAt time.Time // when the engine acts on it next: its start, its next attempt or its removal
	ExpiresAt   time.Time // when it becomes an error if it has not begun
	StartedAt   time.Time // when its newest attempt began
	Node        string    // the name of the node that runs it, or that ran its newest attempt; empty before the first
	UpdatedAt   time.Time // when it changed last

	Payload    []byte    // the input of its handler; not in lists, see [Task.DecodePayload]
	Result     []byte    // the answer of its handler; not in lists, see [Task.DecodeResult]
	Error      string    // why it is not done; empty if nothing has failed
	History    []Attempt // the attempts that ended without finishing it, the oldest first, at most 20
	Progress   *Progress // the newest that its newest attempt has reported; nil if there is none
	Checkpoint []byte    // data that an attempt has stored for the next one; not in lists

	Awaits      []string         // the names of the signals that it waits for, until NextEventAt; [task.AwaitsChildren] if for children, [task.AfterSet] if for the tasks of After; nil if for nothing
	WokenBy     WokenBy          // what ended its newest wait
	WokenSignal *ReceivedSignal  // the signal that ended it; nil if none did; not in lists
	KeptSignals []ReceivedSignal // that came before it waited for them, the oldest first; not in lists

	Parent   *task.Parent // the task that learns of its end; nil if none does
	Children []ChildSet   // that it has added; not in lists

	After     *AfterTasks // the tasks after which it runs; nil if it runs after none; not in lists
	Followers []task.ID   // the tasks that run after it; not in lists

	Turn              Turn   // its place among the tasks with its ordering key
	InheritedPriority *uint8 // the priority it runs with, of a task behind it; nil if it runs with its own

	// Tombstone says that the task is done, and that its payload, result, headers, checkpoint, progress and history were
	// removed: only its key is remembered. A task that is done and is no tombstone has the result of its handler, which may
	// be empty.
	Tombstone bool
}

// ChildSet are the children of a task that have one name.
type ChildSet struct {
	Name  string
	Added uint32 // they have the indexes from 0 on; [task.Parent.Child] makes the id

	// How many of them have ended so. One in [StateError] has not ended.
	Done, Failed, Cancelled uint32

	Awaits   uint32 // the task waits until so many have ended; 0 if it does not wait for them
	OrFailed bool   // likewise, or until one has failed or was cancelled
	Open     bool   // the task waits until the last children are added
}

// AfterTasks are the tasks after which a task runs.
type AfterTasks struct {
	Tasks []task.ID

	// How many of them have ended so. One in [StateError] has not ended.
	Done, Failed, Cancelled uint32

	Any bool // the task runs when they have ended, however; only while it waits for them
}

// WokenBy is what ended a wait of a task for a signal, or for children. A node of a newer version may have others.
type WokenBy string

// The values of WokenBy.
const (
	NotWoken        WokenBy = ""         // it has not waited, or has done its work since
	WokenBySignal   WokenBy = "signal"   // a signal has come
	WokenByTimeout  WokenBy = "timeout"  // the time has come until which it waited
	WokenByUser     WokenBy = "user"     // a user has resumed it
	WokenByChildren WokenBy = "children" // the children have ended that it waited for
)

// ReceivedSignal is a signal that a task has got.
type ReceivedSignal struct {
	Name string
	At   time.Time
	Data []byte
}

// Progress is how far an attempt has reported to be.
type Progress struct {
	Done    uint64 // in a unit that the handler chooses
	Total   uint64 // 0 if it is not known
	Message string // to be read, not parsed
	At      time.Time
}

// AttemptOutcome says how an attempt ended. A node of a newer version may have others.
type AttemptOutcome string

// The outcomes of an attempt.
const (
	AttemptCompleted   AttemptOutcome = "completed"   // the handler returned a result
	AttemptErrored     AttemptOutcome = "errored"     // the handler returned an error
	AttemptCrashed     AttemptOutcome = "crashed"     // the process of the handler, or the node, died
	AttemptTimedOut    AttemptOutcome = "timed_out"   // it took longer than its type allows
	AttemptSnoozed     AttemptOutcome = "snoozed"     // the handler asked to be called again later
	AttemptHandedBack  AttemptOutcome = "handed_back" // the handler could not take the task
	AttemptOverruled   AttemptOutcome = "overruled"   // a user cancelled or changed the task during the attempt
	AttemptEdited      AttemptOutcome = "edited"      // no attempt: a person has changed the task, and the error says what it had before
	AttemptErased      AttemptOutcome = "erased"      // no attempt: the content of the task was removed after its end, from StartedAt until EndedAt
	AttemptInterrupted AttemptOutcome = "interrupted" // the node stopped before the handler returned
)

// Attempt is an attempt that ended without finishing its task.
type Attempt struct {
	Number    uint32 // 1 for the first
	StartedAt time.Time
	EndedAt   time.Time
	Outcome   AttemptOutcome
	Error     string // why it did not finish the task; empty if there was no error
	Node      string // the name of the node that ran it
	By        string // who has edited or erased the task, if that is known
	Job       string // the bulk job that has done so
}

// HasEnded reports whether the task is done, error, failed or cancelled. It is false for a state without a constant here.
func (t *Task) HasEnded() bool {
	switch t.State {
	case StateDone, StateError, StateFailed, StateCancelled:
		return true
	}
	return false
}

// DecodePayload decodes the payload into v, which json.Unmarshal takes, or is a *[]byte or *[Raw] for the payload as it is, which
// shares its memory with t. The payload of a task in a list, and that of a tombstone, is empty.
func (t *Task) DecodePayload(v any) error { return t.decode("payload", t.Payload, v) }

// DecodeResult decodes the result into v, as [Task.DecodePayload] does. It returns a [*ResultRemovedError] if t is a tombstone. The
// result of a task in a list is empty.
func (t *Task) DecodeResult(v any) error {
	if t.Tombstone {
		return &ResultRemovedError{t.ID}
	}
	return t.decode("result", t.Result, v)
}

func (t *Task) decode(part string, data []byte, v any) error {
	switch v := v.(type) {
	case *Raw:
		*v = data
	case *[]byte:
		*v = data
	default:
		if err := json.Unmarshal(data, v); err != nil {
			return fmt.Errorf("taskengine: the %s of task %s: %w", part, t.ID, err)
		}
	}
	return nil
}

// StateCount is how many tasks of a type are in a state.
type StateCount struct {
	State State
	Type  string
	Count int64
}

// ReasonCode is the kind of a [Reason]. A node of a newer version may have others; [Reason.Text] explains each.
type ReasonCode string

// The codes of reasons.
const (
	ReasonEnded     ReasonCode = "ended"      // the task is done, error, failed or cancelled
	ReasonRunning   ReasonCode = "running"    // its handler runs
	ReasonStarting  ReasonCode = "starting"   // its start is being written
	ReasonStuck     ReasonCode = "stuck"      // the handler of its last attempt ran out of time and has not returned
	ReasonScheduled ReasonCode = "scheduled"  // it waits for its time
	ReasonSignal    ReasonCode = "signal"     // it waits for a signal
	ReasonChildren  ReasonCode = "children"   // it waits for children
	ReasonAfter     ReasonCode = "after"      // it waits for tasks after which it runs
	ReasonRetry     ReasonCode = "retry"      // it waits for its next attempt
	ReasonPaused    ReasonCode = "paused"     // its type, or a limit, is paused
	ReasonNoHandler ReasonCode = "no_handler" // no handler of its type is configured
	ReasonNoNode    ReasonCode = "no_node"    // no live node may run it
	ReasonLimit     ReasonCode = "limit"      // a limit has no free slot
	ReasonRate      ReasonCode = "rate"       // a rate is used up for the moment
	ReasonQueue     ReasonCode = "queue"      // other tasks are before it
	ReasonBehind    ReasonCode = "behind"     // a task with the same ordering key is before it
	ReasonDraining  ReasonCode = "draining"   // the node is stopping
	ReasonElsewhere ReasonCode = "elsewhere"  // another node is to start it
	ReasonNodeGone  ReasonCode = "node_gone"  // the node that ran it is gone
	ReasonNoProof   ReasonCode = "no_proof"   // the node cannot prove that it is alive, so it starts nothing
	ReasonHandler   ReasonCode = "handler"    // its handler is down
	ReasonDatabase  ReasonCode = "database"   // its database, one of several, does not answer
	ReasonKey       ReasonCode = "key"        // the node lacks the key to decode its payload
	ReasonUnknown   ReasonCode = "unknown"    // of a time that has passed: the node has no notes of it, see [Client.WaitHistory]
	ReasonUnwritten ReasonCode = "unwritten"  // a change of it is not in the store yet
	ReasonBus       ReasonCode = "bus"        // hints do not reach the node that is to start it, which finds it in the store within about a second
)

// Reason is one reason why a task does not run, or its present state.
type Reason struct {
	Code ReasonCode
	Text string // to be read, not parsed

	Limit string // of a limit, a rate or a pause: the name of the limit; empty for the slots of the node, and for a paused type
	Value string // the value that the limit is per
	Used  int64  // of the limit, by tasks of the node; for [ReasonQueue]: how many tasks are before it; for [ReasonChildren]: how many have ended
	Max   int64  // of the limit; for [ReasonChildren]: how many it waits for

	Until   time.Time // when it ends; zero if that is not known
	Holders []task.ID // some of the tasks of the node that hold the limit; for [ReasonChildren]: some that have not ended, those in error first

	Cluster bool  // the limit counts the tasks of all nodes; Max is the slots that all nodes have together then
	Held    int64 // permits of the node
	Waiting int64 // permits that other nodes wait for

	Head      task.ID // for [ReasonBehind]: the task that is before it; zero if there is none
	HeadState State   // the state of that task; empty if there is none
}

// WaitHistory says how long a task has waited for what. The node that answers knows what it has kept waiting itself since
// NotedSince, in seconds: other times have the code [ReasonUnknown].
type WaitHistory struct {
	Waits      []Wait // in the order in which the task began to wait for each
	NotedSince time.Time
	Node       string       // the name of the node that answers
	Silent     []SilentNode // the node that knows more, if it did not answer
}

// Wait is the time that a task has waited for one thing, or, with [ReasonRunning], has run.
type Wait struct {
	Code         ReasonCode
	Text         string // to be read, not parsed
	Limit, Value string // as in [Reason]
	Total        time.Duration
	From, Until  time.Time // of the first and of the last time
}

func (d *decoder) task(m *taskenginev1.Task) *Task {
	t := &Task{
		ID: d.id(m.GetId()), Type: m.GetType(), State: State(m.GetState()), Version: m.GetVersion(),
		Attempt: m.GetAttempt(), Crashes: m.GetCrashes(), Priority: priorityOf(m.GetPriority()),
		Key: m.GetKey(), OrderingKey: m.GetOrderingKey(), Headers: m.GetHeaders(),
		CreatedAt: timeOf(m.GetCreatedAt()), ReadyAt: timeOf(m.GetReadyAt()), NextEventAt: timeOf(m.GetNextEventAt()),
		ExpiresAt: timeOf(m.GetExpiresAt()), StartedAt: timeOf(m.GetStartedAt()), UpdatedAt: timeOf(m.GetUpdatedAt()),
		Payload: m.GetPayload(), Result: m.GetResult(), Error: m.GetError(), History: all(m.GetHistory(), attemptOf),
		Checkpoint: m.GetCheckpoint(), Turn: Turn(m.GetTurn()), Tombstone: m.GetTombstone(), Node: m.GetNode(),
		Awaits: m.GetAwaits(), WokenBy: WokenBy(m.GetWokenBy()), KeptSignals: all(m.GetKeptSignals(), receivedOf),
		Children: all(m.GetChildren(), childSetOf), Followers: all(m.GetFollowers(), d.id),
	}
	if a := m.GetAfter(); a != nil {
		t.After = &AfterTasks{Tasks: all(a.GetTasks(), d.id), Done: a.GetDone(), Failed: a.GetFailed(), Cancelled: a.GetCancelled(), Any: a.GetAny()}
	}
	if p := m.GetParent(); p != nil {
		t.Parent = &task.Parent{ID: d.id(p.GetId()), Name: p.GetName(), Index: p.GetIndex()}
	}
	if s := m.GetWokenSignal(); s != nil {
		t.WokenSignal = new(receivedOf(s))
	}
	if p := m.GetProgress(); p != nil {
		t.Progress = &Progress{Done: p.GetDone(), Total: p.GetTotal(), Message: p.GetMessage(), At: timeOf(p.GetAt())}
	}
	if m != nil && m.InheritedPriority != nil {
		t.InheritedPriority = new(priorityOf(m.GetInheritedPriority()))
	}
	return t
}

func receivedOf(m *taskenginev1.ReceivedSignal) ReceivedSignal {
	return ReceivedSignal{Name: m.GetName(), At: timeOf(m.GetAt()), Data: m.GetData()}
}

func childSetOf(m *taskenginev1.ChildSet) ChildSet {
	return ChildSet{
		Name: m.GetName(), Added: m.GetAdded(), Done: m.GetDone(), Failed: m.GetFailed(), Cancelled: m.GetCancelled(),
		Awaits: m.GetAwaits(), OrFailed: m.GetOrFailed(), Open: m.GetOpen(),
	}
}

func attemptOf(m *taskenginev1.Attempt) Attempt {
	return Attempt{
		Number: m.GetNumber(), StartedAt: timeOf(m.GetStartedAt()), EndedAt: timeOf(m.GetEndedAt()),
		Outcome: AttemptOutcome(m.GetOutcome()), Error: m.GetError(), Node: m.GetNode(), By: m.GetBy(), Job: m.GetJob(),
	}
}

func stateCountOf(m *taskenginev1.StateCount) StateCount {
	return StateCount{State: State(m.GetState()), Type: m.GetType(), Count: m.GetCount()}
}

func (d *decoder) reason(m *taskenginev1.Reason) Reason {
	return Reason{
		Code: ReasonCode(m.GetCode()), Text: m.GetText(), Limit: m.GetLimit(), Value: m.GetValue(), Used: m.GetUsed(), Max: m.GetMax(),
		Until: timeOf(m.GetUntil()), Holders: all(m.GetHolders(), d.id), Cluster: m.GetCluster(), Held: m.GetHeld(), Waiting: m.GetWaiting(),
		Head: d.id(m.GetHead()), HeadState: State(m.GetHeadState()),
	}
}
