package answer

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/taskengine/taskengine/task"
)

// RefusedClass is the class of the error of an attempt with a document that was refused.
const RefusedClass = "answer_refused"

// Rules bound a document. The elements are types of tasks, or keys; one that ends with * stands for all that begin
// with the text before it.
type Rules struct {
	MayAdd    []string // types of the tasks and children that it may add
	MaySignal []string // types of the tasks that it may signal; * also allows signals to ids without a type
	MayWrite  []string // keys of the documents that it may write
}

// Now is the present.
type Now struct {
	Here  time.Time // of this machine, with a monotonic reading
	Nodes time.Time // by the clock of the nodes
}

// NowIn returns the present in an attempt of t that this machine has begun at a time, which has a monotonic reading.
func NowIn(t *task.Task, begun time.Time) Now {
	now := Now{Here: time.Now()}
	now.Nodes = t.StartedAt.Add(now.Here.Sub(begun))
	if t.StartedAt.IsZero() {
		now.Nodes = now.Here
	}
	return now
}

// Answer is a document that was read.
type Answer struct {
	result   *[]byte
	failure  *failure
	again    bool
	wait     *wait
	at       time.Time // of again or wait; zero: no time
	rerun    task.Rerun
	children bool // the field children is given
}

// failure is the field error.
type failure struct {
	message    string
	class      string
	permanent  bool
	inDoubt    bool
	hasDelay   bool
	retryDelay time.Duration
}

// wait is the field wait.
type wait struct {
	signals  []string
	children []task.ChildrenWait
}

// Parse reads a document. The error of a document that is refused says why.
func Parse(text []byte, now Now, rules Rules) (*Answer, error) {
	value, err := document(text)
	if err != nil {
		return nil, err
	}
	a, p := new(Answer), parser{now, rules}
	known := fields{
		"again": func(at string, v json.RawMessage) error { return p.again(at, v, a) },
		"wait":  func(at string, v json.RawMessage) error { return p.wait(at, v, a) },
		"error": func(at string, v json.RawMessage) error { return p.failure(at, v, a) },
		"tasks": list(func(at string, v json.RawMessage) error { return p.task(at, v, &a.rerun.Tasks) }),
		"children": func(at string, v json.RawMessage) error {
			a.children = true
			return p.children(at, v, &a.rerun.Children)
		},
		"signals":   list(func(at string, v json.RawMessage) error { return p.signal(at, v, &a.rerun.Signals) }),
		"documents": list(func(at string, v json.RawMessage) error { return p.write(at, v, &a.rerun.Documents) }),
	}
	known.content("result", &a.result)
	known.content("payload", &a.rerun.Payload)
	known.content("checkpoint", &a.rerun.Checkpoint)
	if err := known.read("", value); err != nil {
		return nil, err
	}
	return a, a.check()
}

// check returns an error if fields exclude each other.
func (a *Answer) check() error {
	r := &a.rerun
	goesOn := a.again || a.wait != nil
	switch {
	case a.failure != nil && (goesOn || a.result != nil || a.children || r.Payload != nil || r.Checkpoint != nil || r.Tasks != nil || r.Signals != nil || r.Documents != nil):
		return errors.New("error excludes all other fields: an attempt that fails has no result, and adds, sends and writes nothing")
	case a.again && a.wait != nil:
		return errors.New("again and wait exclude each other; a wait ends at a time with timeout or until")
	case !goesOn && r.Payload != nil:
		return errors.New("payload needs again or wait: a task that is done keeps its payload")
	case !goesOn && r.Checkpoint != nil:
		return errors.New("checkpoint needs again or wait: a task that is done has none")
	case !goesOn && a.children:
		return errors.New("children need again or wait: a task that is done does not learn of their ends; add them as tasks")
	}
	return nil
}

// HasResult reports whether the document gives the result.
func (a *Answer) HasResult() bool { return a.result != nil }

// Failed returns the error of an attempt that the document says has failed, nil if it says something else. class is that of an
// error without one.
func (a *Answer) Failed(class string) error {
	f := a.failure
	if f == nil {
		return nil
	}
	if f.class != "" {
		class = f.class
	}
	err := errors.New(f.message)
	if class != "" {
		err = task.WithClass(class, err)
	}
	if f.inDoubt {
		err = task.InDoubt(err)
	}
	switch {
	case f.permanent:
		return task.Permanent(err)
	case f.hasDelay:
		return task.RetryIn(f.retryDelay, err)
	}
	return err
}

// End returns the result and the error of a [task.Handler] for the document. other is the result if the document gives none.
func (a *Answer) End(other []byte) ([]byte, error) {
	if err := a.Failed(""); err != nil {
		return nil, err
	}
	result := other
	if a.result != nil {
		result = *a.result
	}
	var options []task.AgainOption
	r := &a.rerun
	if r.Payload != nil || r.Checkpoint != nil || r.Tasks != nil || r.Children != nil || r.Signals != nil || r.Documents != nil {
		options = r.Options()
	}
	switch {
	case a.wait != nil && a.wait.children != nil:
		return result, task.WaitForEither(a.wait.signals, a.wait.children, a.at, options...)
	case a.wait != nil:
		return result, task.WaitFor(a.wait.signals, a.at, options...)
	case a.again || options != nil:
		return result, task.Again(a.at, options...)
	}
	return result, nil
}
