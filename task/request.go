package task

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Request describes a task to add. Only Type is required. Package engine has the limits. Reserved types and ids are refused,
// see [IsReservedType] and [IsReservedID].
type Request struct {
	ID          ID                // chosen by the caller to make the request repeatable; zero for a generated one
	Type        string            // at most engine.MaxType bytes
	Payload     []byte            // at most max_payload of the type; stored unchanged
	Priority    *uint8            // HighestPriority..LowestPriority; nil for the priority of the type
	Key         string            // unique among the stored tasks of the type, of those with the same OrderingKey if it has one; at most engine.MaxKey bytes
	OrderingKey string            // tasks that share it run one at a time, in the order of their [Seat]; at most engine.MaxKey bytes
	At          time.Time         // earliest start, by the clock of Engine.Now; zero for now
	ExpiresAt   time.Time         // the task is too late from this time on; zero for never
	Headers     map[string]string // stored with the task; names and values have at most engine.MaxHeaders bytes

	// After are tasks that exist: the task runs when all of them are done. If one of them fails or is cancelled, the task is cancelled.
	// With AfterAny it runs when all of them have ended, however. A task that has ended already counts at once; one in [Error] has not
	// ended. They are at most [MaxAfter], each once. A request with After has no At and no Children, and is not that of a child.
	After    []ID `json:",omitempty"`
	AfterAny bool `json:",omitempty"`

	// MayFollow says of which types the tasks in After may be: one of another type is refused as one that is not in the store, also if the
	// request was made before. So a program that may know only of some types learns nothing of others. It is for tasks that are added with
	// the end of an attempt. Nil allows all types.
	MayFollow func(typ string) bool `json:"-"`

	// Children are added with the task, which begins by waiting for them. Nil adds none. See [NewChildren].
	Children *NewChildren `json:",omitempty"`
}

// CheckAfter returns an error if the task cannot run after others as the request says. It does not look for them.
func (r *Request) CheckAfter() error {
	switch {
	case len(r.After) > MaxAfter:
		return fmt.Errorf("after has %d tasks, of %d allowed: have the task run after one that runs after some of them", len(r.After), MaxAfter)
	case len(r.After) == 0 && r.AfterAny:
		return errors.New("it has after_any, and after names no task")
	case len(r.After) == 0:
		return nil
	case !r.At.IsZero():
		return errors.New("it has a time, and after: it runs when the tasks of after have ended")
	case r.Children != nil:
		return errors.New("it has children, and after: give the children to a task that runs after the others and adds them, or submit a workflow")
	}
	for i, id := range r.After {
		switch {
		case id.IsZero():
			return errors.New("after has an id that is zero")
		case id == r.ID:
			return fmt.Errorf("after has the id of the task itself, %v", id)
		case IsReservedID(id):
			return fmt.Errorf("after has the id %v, which belongs to the engine: no task runs after such a task", id)
		case slices.Contains(r.After[:i], id):
			return fmt.Errorf("after has the task %v twice", id)
		}
	}
	return nil
}

// NewChildren are children that are added in one transaction with their parent, see [Request]. The parent is Waiting, and runs when
// the wait for its children is over: its first attempt finds in [Task.Woken] that it is, and in [Task.Children] how they have ended.
// A parent with no children to wait for runs at once.
//
// All of them are added, or none: no child is if the parent is not, because its ID or its key is taken. Such a request changes
// no other task, whatever the rules of its type say of taken keys. The rules for late requests do not apply to the children. For
// each child the rules of [WithChildren] hold, and it has no Children of its own. The parent has no At.
type NewChildren struct {
	Sets []ChildRequests // at least one; it may have no requests

	// Waits say for which children the parent waits: until one of these waits is over. Nil is a wait for all children, if they have
	// one name. A Count is at most the number of children that are given.
	Waits []ChildrenWait

	Until time.Time // when the parent runs although the wait is not over; zero is never

	// Open says that more children follow, by Engine.AddChildren: for more than one call or transaction should have. The parent does not
	// run before the last ones are added, except at Until, or if a person has it run, and then takes no more. The children have one
	// name, and there are no Waits. The children that are there run.
	Open bool
}

// SignalRequest describes a signal to send to one task. It is addressed by To or, if that is zero, by Type and Key.
type SignalRequest struct {
	// To is the task. If it is zero, that is the task of Type that has Key, among those with OrderingKey ("": among those
	// without). With To, a Type that is not "" has to be that of the task: for a signal to one of another type, no such task exists.
	To          ID     `json:"to,omitzero"`
	Type        string `json:"type,omitempty"`
	OrderingKey string `json:"ordering_key,omitempty"`
	Key         string `json:"key,omitempty"`

	ID   ID     `json:"id"`             // a task gets signals of one ID once; the zero ID is a new one
	Name string `json:"name"`           // of the signal; at most [MaxSignalName] bytes
	Data []byte `json:"data,omitempty"` // at most max_payload of the type of the task

	// Keep says what becomes of a signal that comes early, to a task that does not wait for it: the task keeps it, up to
	// [MaxKept] signals with [MaxKeptBytes] of data, until it waits for it or ends. Otherwise it is dropped.
	Keep bool `json:"keep,omitempty"`
}
