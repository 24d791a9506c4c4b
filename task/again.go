package task

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Again says that the work is done for now and is due again at the given time. The count of attempts
// starts again. Recurring tasks return it. The result that is returned with it stays in the task
// until the next run completes. A time that is in the past, or in the very near future, is treated
// as [Snooze] treats a short delay, unless the task catches up with a schedule: each time is then at
// least a second closer to the present than the one before.
//
// A time that was derived from [time.Now], and still has its monotonic reading, means that moment. Any
// other is a time by the clock of the nodes, which the clock of this machine may differ from.
//
// The task keeps its payload, and has no checkpoint, unless an option says otherwise. All of it is
// one change of the row: the task runs again with these options, or this attempt has not ended.
func Again(at time.Time, options ...AgainOption) error {
	v := &verdict{error: errors.New("runs again"), wish: wishAgain, at: at}
	for _, set := range options {
		if v.rerun == nil {
			v.rerun = new(Rerun)
		}
		set(v.rerun)
	}
	return v
}

// WaitFor says that the work is done for now, and that the task goes on when it gets a signal of one of these names, or at
// the given time. The zero time is never. [Task.Woken] tells the attempt that follows which it was, and has the data of the
// signal, also if that attempt fails and others follow. A signal that the task has kept ends the wait at once: the first
// that came. A task that waits takes no slot, and holds back no other task of its ordering key.
//
// In everything else it is [Again]; but a task that expires does so while it waits, too. There may be up to
// MaxAwaited names, of up to MaxSignalName bytes. Other names are a permanent error of the attempt.
func WaitFor(names []string, until time.Time, options ...AgainOption) error {
	v := Again(until, options...).(*verdict)
	v.error, v.await = errors.New("waits for a signal"), append([]string{}, names...)
	return v
}

// WaitForChildren says that the work is done for now, and that the task goes on when one of these waits for its children is
// over, or at the given time. The zero time is never. [Task.Children] tells the attempt that follows which of them have ended,
// and how. A child in [Error] has not ended: the wait goes on until a person has decided about it. A wait for children that
// have all ended is over at once, and so is one for no children. In everything else it is [WaitFor].
func WaitForChildren(waits []ChildrenWait, until time.Time, options ...AgainOption) error {
	v := WaitFor([]string{AwaitsChildren}, until, options...).(*verdict)
	v.error, v.waits = errors.New("waits for children"), append([]ChildrenWait{}, waits...)
	return v
}

// WaitForEither says that the work is done for now, and that the task goes on when it gets a signal of one of these names, or when one
// of these waits for its children is over, or at the given time. In everything else it is [WaitFor] and [WaitForChildren].
// There may be one name less than with WaitFor.
func WaitForEither(names []string, waits []ChildrenWait, until time.Time, options ...AgainOption) error {
	v := WaitFor(append([]string{AwaitsChildren}, names...), until, options...).(*verdict)
	v.error, v.waits = errors.New("waits for a signal or for children"), append([]ChildrenWait{}, waits...)
	return v
}

// AgainAs returns the error of a handler that asks for what v asks for, which runs again or adds tasks, with these options in place of
// those of v. It is for handlers that wrap others.
func AgainAs(v Verdict, options ...AgainOption) error {
	switch {
	case v.Children != nil:
		return WaitForEither(slices.DeleteFunc(slices.Clone(v.Await), func(name string) bool { return name == AwaitsChildren }), v.Children, v.Again, options...)
	case v.Await != nil:
		return WaitFor(v.Await, v.Again, options...)
	}
	return Again(v.Again, options...)
}

// Options returns options for the payload, the checkpoint, the tasks, the children, the signals and the documents of r, which may be nil.
func (r *Rerun) Options() (options []AgainOption) {
	if r == nil {
		return nil
	}
	if r.Payload != nil {
		options = append(options, WithPayload(*r.Payload))
	}
	if r.Checkpoint != nil {
		options = append(options, WithCheckpoint(*r.Checkpoint))
	}
	for _, c := range r.Children {
		options = append(options, WithChildren(c.Name, c.Requests...))
	}
	return append(options, WithTasks(r.Tasks...), WithSignals(r.Signals...), WithDocuments(r.Documents...))
}

// AgainOption is an option of [Again], [WaitFor] and [WaitForChildren].
type AgainOption func(*Rerun)

// WithPayload gives the task a new payload. The limit is max_payload of its type: a longer payload is
// a permanent error of the attempt. The payload belongs to the engine from then on.
func WithPayload(payload []byte) AgainOption {
	return func(r *Rerun) { r.Payload = &payload }
}

// WithCheckpoint gives the task a checkpoint, which the next run finds in [Task.Checkpoint]. The limit
// is MaxCheckpoint: a longer one is a permanent error of the attempt. The checkpoint belongs to the
// engine from then on.
func WithCheckpoint(data []byte) AgainOption {
	return func(r *Rerun) { r.Checkpoint = &data }
}

// WithTasks adds tasks in the same transaction: either the task runs again and they exist, or neither.
// So a task that adds others each time loses none and adds none twice, whatever fails: an attempt that
// does not count any more adds nothing. A request with a taken id or key adds nothing, and is no
// error, whatever its type says of taken keys. If at is the zero time, the tasks are added with the change
// that makes the task done.
//
// If a request is invalid, or a type has no room for the tasks in its backlog (max_backlog), nothing is
// added, and the attempt has failed with an error that says so: the retry policy of the type decides. If
// the sources of that type pause, the attempt does not count, and the task runs again some seconds later.
// No other tasks are dropped for them. Where several databases keep the tasks, an id must be in the
// shard of the task, see [ID.Child], and so must an ordering key, see [ShardOf]; a key needs an ordering key.
//
// Several options of this kind add all of their tasks. The requests belong to the engine from then on.
func WithTasks(requests ...Request) AgainOption {
	return func(r *Rerun) { r.Tasks = append(r.Tasks, requests...) }
}

// WithChildren adds tasks as [WithTasks] does, which are children of this one: it learns of the end of each, see
// [WaitForChildren]. The children of one name are numbered, across all attempts of the task. The id of a child is made of its
// parent, the name and its number, see [Parent.Child], so a request has no ID, and it has no Key. Either all children of one
// name have an ordering key, or none has. There may be up to MaxChildSets names, with MaxChildren children each.
//
// A child that is done, has failed or was cancelled is reported soon after that, if its parent is not done. It is not reported
// again if a person has it run once more.
func WithChildren(name string, requests ...Request) AgainOption {
	return func(r *Rerun) { r.Children = append(r.Children, ChildRequests{name, requests}) }
}

// WithDocuments writes documents in the same transaction: either the attempt ends so and they are written, or neither. If at is the zero
// time, they are written with the change that makes the task done. A document has a version, which Engine.Document returns. If
// a write names the version that it replaces and the document has another one when the attempt ends, the attempt does not end so: nothing
// of its end is written, it does not count, and the task runs again after a random delay: of up to 10 ms, and more after more conflicts in a row. A task of a type that is at_most_once becomes an
// [Error], because its work was done.
//
// There may be up to MaxDocuments writes, each of another document. Otherwise, and if a key or the data is invalid, the attempt has failed
// with a permanent error of the class "refused". Where several databases keep the tasks, a document must be in the shard of the task, see
// [DocumentShard]: give the task the ordering key that is the key of the document, or the part in braces of that.
//
// Several options of this kind make all of their writes. The data belongs to the engine from then on.
func WithDocuments(writes ...DocumentWrite) AgainOption {
	return func(r *Rerun) { r.Documents = append(r.Documents, writes...) }
}

// ChildRequests are children of one name that a task adds.
type ChildRequests struct {
	Name     string
	Requests []Request
}

// WithSignals sends signals to other tasks, if and only if the task runs again or, if at is the zero time, is done. Each is
// taken at most once, and is delivered soon after that, also if the node dies meanwhile. Signals of one task to another arrive in
// their order. It is no failure of the sender if a task does not exist, is of another type than the signal names, has ended or,
// unless Keep is set, does not wait for the signal then: the signal is dropped. So is one with more data than max_payload of the
// type of the task allows.
//
// If a signal is invalid, nothing is sent, and the attempt has failed with an error that says so.
//
// Several options of this kind send all of their signals. The signals belong to the engine from then on.
func WithSignals(signals ...SignalRequest) AgainOption {
	return func(r *Rerun) { r.Signals = append(r.Signals, signals...) }
}

// Rerun is the state of a task that runs again, and the tasks, signals and documents that are written with that, see [Again].
type Rerun struct {
	Payload    *[]byte // the new payload; nil keeps the old one
	Checkpoint *[]byte // the checkpoint; nil is none

	Tasks    []Request       // to be added
	Children []ChildRequests // likewise
	Signals  []SignalRequest // to be sent

	Documents []DocumentWrite // to be made

	// Group is the Group of the new payload, nil for the old one. Rows are the rows of Tasks and Children, and of tasks that
	// carry Signals. Adds are the Children, and Writes the Documents. The engine makes them; handlers and plugins do not set them.
	Group  *string
	Search *[]SearchValue // likewise of the new payload
	Rows   []*Task
	Adds   []AddedChildren
	Writes []DocumentChange
}

// TooLarge returns the error of an attempt that did the work of a task of type typ, and asks to run
// again with a payload or checkpoint that exceeds its limit, or nil. most is max_payload of the type.
// The error is permanent, because another attempt would do the work once more. Its class is
// "payload_too_large" or "checkpoint_too_large".
func (r *Rerun) TooLarge(typ string, most int) error {
	switch {
	case r == nil:
	case r.Payload != nil && len(*r.Payload) > most:
		return Permanent(WithClass("payload_too_large", fmt.Errorf(
			"the handler asked to run again with a payload of %d bytes, and max_payload of type %q allows %d: the task does not run again; raise max_payload of the type, or have the handler ask for less",
			len(*r.Payload), typ, most)))
	case r.Checkpoint != nil && len(*r.Checkpoint) > MaxCheckpoint:
		return Permanent(WithClass("checkpoint_too_large", fmt.Errorf(
			"the handler asked to run again with a checkpoint of %d bytes, of %d allowed: the task does not run again; have the handler keep less",
			len(*r.Checkpoint), MaxCheckpoint)))
	}
	return nil
}
