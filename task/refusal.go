package task

import "context"

// RefusalReason says why a request is refused, or adds nothing, see [Refusal].
type RefusalReason uint8

// The values of RefusalReason. If one of the requests is refused for a reason up to RefusedFull, the end of the attempt that asks for it
// fails. A request of the others does not fail it. The numbers are those of the protocol of handler programs.
const (
	_                RefusalReason = iota
	RefusedInvalid                 // no task can be made of it
	RefusedTooLarge                // likewise, because it has too many bytes
	RefusedTooMany                 // the task would have too many children
	RefusedForbidden               // the worker may not add tasks of its type
	RefusedFull                    // the backlog of its type has no room now
	RefusedKey                     // its id or its key is taken, so nothing is added
	RefusedUnknown                 // it is added, and no node is known that runs tasks of its type
)

var refusalReasons = [...]string{"", "invalid", "too_large", "too_many", "forbidden", "backlog", "key_taken", "unknown_type"}

// String returns the name of the reason.
func (r RefusalReason) String() string { return refusalReasons[min(int(r), len(refusalReasons)-1)] }

// Fails reports whether an attempt fails that ends with such a request.
func (r RefusalReason) Fails() bool { return r <= RefusedFull }

// Refusal says that a request would be refused, or would not do what it asks for.
type Refusal struct {
	Index  int // of the request
	Reason RefusalReason
	Text   string // for people
	ID     ID     // with RefusedKey, the task that has the id or the key; zero if an earlier request has it
}

// Checker is a [Reporter] that says which requests would be refused with the end of the attempt.
type Checker interface {
	// Check returns the refusals of requests, in their order: of children of this name or, if that is "", of tasks that are added.
	// It writes nothing.
	Check(name string, requests []Request) ([]Refusal, error)
}

// CheckChildren returns which children would be refused if the attempt of ctx ended with them now, see [WithChildren]; none if all would be
// added. A handler asks before it does what it cannot undo. The answer is advice: nothing is reserved, so a backlog may be full
// and a key be taken by the time at which the attempt ends. Children of an earlier CheckChildren are not counted.
//
// An error says that the requests were not checked. Without an engine nothing is refused.
func CheckChildren(ctx context.Context, name string, requests ...Request) ([]Refusal, error) {
	if c, ok := ReporterOf(ctx).(Checker); ok {
		return c.Check(name, requests)
	}
	return nil, nil
}

// CheckTasks is CheckChildren for tasks that are added with [WithTasks].
func CheckTasks(ctx context.Context, requests ...Request) ([]Refusal, error) {
	return CheckChildren(ctx, "", requests...)
}
