package calls

import (
	"errors"
	"math"
	"time"

	"github.com/taskengine/taskengine/plugins/internal/wire"
	"github.com/taskengine/taskengine/task"
)

// AnswerOf returns the answer in a Finish of a program that may do everything.
func AnswerOf(f *wire.Finish) Answer { return answerOf(f, new(Rights)) }

// answerOf is AnswerOf for a program with rights: see Rights.mayFollow.
func answerOf(f *wire.Finish, rights *Rights) Answer {
	switch o := f.GetOutcome().(type) {
	case *wire.Finish_Result:
		if len(f.GetChildren())+len(f.GetSignals())+len(f.GetDocuments()) == 0 {
			return Answer{Result: o.Result}
		}
		return Answer{Result: o.Result, Err: task.Again(time.Time{}, extrasOf(f, rights)...)}
	case *wire.Finish_Error:
		return Answer{Err: errorOf(o.Error)}
	case *wire.Finish_Snooze:
		return Answer{Err: task.Snooze(micros(o.Snooze.GetDelay()))}
	case *wire.Finish_Again:
		return Answer{Result: o.Again.GetResult(), Err: againOf(f, o.Again, rights)}
	case *wire.Finish_Ended:
		return Answer{Err: task.Ended()}
	case *wire.Finish_Refused:
		return Answer{Err: Unavailable(errors.New(o.Refused.GetMessage()))}
	}
	return Answer{Err: task.InDoubt(errors.New("the handler's answer has no outcome that this host knows"))}
}

func againOf(f *wire.Finish, a *wire.Again, rights *Rights) error {
	options := extrasOf(f, rights)
	if a.Payload != nil {
		options = append(options, task.WithPayload(a.GetPayload()))
	}
	if a.Checkpoint != nil {
		options = append(options, task.WithCheckpoint(a.GetCheckpoint()))
	}
	w := a.GetWait()
	if len(w.GetChildren()) > 0 {
		waits := make([]task.ChildrenWait, len(w.GetChildren()))
		for i, c := range w.GetChildren() {
			waits[i] = task.ChildrenWait{Name: c.GetName(), Count: c.GetCount(), OrFailed: c.GetOrFailed()}
		}
		return task.WaitForEither(w.GetNames(), waits, dueAt(a), options...)
	}
	if w != nil {
		return task.WaitFor(w.GetNames(), dueAt(a), options...)
	}
	return task.Again(dueAt(a), options...)
}

// dueAt returns when an again that has just arrived is due; zero is never.
func dueAt(a *wire.Again) time.Time {
	switch {
	case a.GetAt() == 0 && a.GetDelay() > 0:
		return time.Now().Add(micros(a.GetDelay()))
	case a.GetAt() == 0 && a.GetWait() != nil:
		return time.Time{}
	}
	return time.UnixMicro(a.GetAt()).UTC()
}

// extrasOf returns the options that add tasks, send signals and write documents if and only if the finish is stored.
func extrasOf(f *wire.Finish, rights *Rights) (options []task.AgainOption) {
	var tasks []task.Request
	var names []string // of sets of children, in the order of their first children
	var sets map[string][]task.Request
	for _, c := range f.GetChildren() {
		name := c.GetSet()
		if name == "" {
			tasks = append(tasks, requestOf(c, rights))
			continue
		}
		if sets == nil {
			sets = make(map[string][]task.Request)
		}
		if sets[name] == nil {
			names = append(names, name)
		}
		sets[name] = append(sets[name], requestOf(c, rights))
	}
	if len(tasks) > 0 {
		options = append(options, task.WithTasks(tasks...))
	}
	for _, name := range names {
		options = append(options, task.WithChildren(name, sets[name]...))
	}
	if len(f.GetSignals()) > 0 {
		signals := make([]task.SignalRequest, len(f.GetSignals()))
		for i, s := range f.GetSignals() {
			signals[i] = task.SignalRequest{
				Type: s.GetType(), Key: s.GetKey(), OrderingKey: s.GetOrderingKey(), Name: s.GetName(), Data: s.GetData(), Keep: s.GetKeep(),
			}
			copy(signals[i].To[:], s.GetTaskId())
			copy(signals[i].ID[:], s.GetId())
		}
		options = append(options, task.WithSignals(signals...))
	}
	if len(f.GetDocuments()) > 0 {
		options = append(options, task.WithDocuments(writesOf(f)...))
	}
	return options
}

// requestOf returns the request for a task that a handler adds.
func requestOf(c *wire.Child, rights *Rights) task.Request {
	r := task.Request{
		Type: c.GetType(), Payload: c.GetPayload(), Key: c.GetKey(), OrderingKey: c.GetOrderingKey(), Headers: c.GetHeaders(),
		AfterAny: c.GetAfterAny(),
	}
	copy(r.ID[:], c.GetTaskId())
	if len(c.GetAfter()) > 0 {
		r.After, r.MayFollow = make([]task.ID, len(c.GetAfter())), rights.mayFollow()
	}
	for i, id := range c.GetAfter() {
		if len(id) == len(task.ID{}) { // the engine refuses the id zero
			r.After[i] = task.ID(id)
		}
	}
	if c.Priority != nil {
		priority := uint8(min(c.GetPriority(), math.MaxUint8)) // the engine refuses larger ones
		r.Priority = &priority
	}
	if c.GetRunAt() != 0 {
		r.At = time.UnixMicro(c.GetRunAt()).UTC()
	}
	if c.GetExpiresAt() != 0 {
		r.ExpiresAt = time.UnixMicro(c.GetExpiresAt()).UTC()
	}
	return r
}

func errorOf(e *wire.Error) error {
	err := errors.New(e.GetMessage())
	switch {
	case e.RetryDelay != nil && e.GetRetryDelayAtLeast():
		err = task.RetryAfter(micros(e.GetRetryDelay()), err)
	case e.RetryDelay != nil:
		err = task.RetryIn(micros(e.GetRetryDelay()), err)
	}
	if e.GetInDoubt() {
		err = task.InDoubt(err)
	}
	if e.GetPermanent() {
		err = task.Permanent(err)
	}
	if e.GetClass() != "" {
		err = task.WithClass(e.GetClass(), err)
	}
	return err
}

const maxMicros = int64(1<<63-1) / int64(time.Microsecond)

// micros returns a duration of n microseconds, limited to the range of a duration.
func micros(n int64) time.Duration {
	return time.Duration(max(0, min(n, maxMicros))) * time.Microsecond
}
