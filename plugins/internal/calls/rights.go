package calls

import (
	"errors"
	"fmt"

	"github.com/taskengine/taskengine/internal/pattern"
	"github.com/taskengine/taskengine/plugins/internal/wire"
	"github.com/taskengine/taskengine/task"
)

// Rights say which other tasks and documents a program may use in its attempts. The zero value allows all tasks, and no document.
type Rights struct {
	// Adds returns why the program may not add tasks of these types, or signal them; nil if it may add and signal all. The type ""
	// stands for any: Adds is called with it for a signal to an id that names no type. The tasks that it adds run after tasks of these
	// types only.
	Adds func(types ...string) error

	MayRead  []string // the keys of the documents that the program may read beside those of MayWrite, see package pattern
	MayWrite []string // the keys of those that it may read and write
}

var (
	errUntyped = errors.New("a signal to the id of a task does not name the type of the task, and this worker may not signal tasks of all types")
	errRead    = errors.New("neither may_read nor may_write of the handler lists its key")
	errWrite   = errors.New("may_write of the handler does not list its key")
)

// AnswerOf returns the answer in f, or an error instead of it if f asks for anything that r does not allow. The engine drops a signal
// that names another type than its task has. The error is permanent, because the work was done.
func (r *Rights) AnswerOf(f *wire.Finish) Answer {
	err := r.checkTasks(f)
	if err != nil {
		err = fmt.Errorf("the worker may not add these tasks, or send these signals: %w", err)
	} else {
		err = r.checkWrites(f)
	}
	if err != nil {
		return Answer{Err: task.Permanent(task.WithClass("forbidden", err))}
	}
	return answerOf(f, r)
}

// mayFollow returns what says after tasks of which types the tasks may run that the program adds; nil for all.
func (r *Rights) mayFollow() func(typ string) bool {
	if r.Adds == nil || r.Adds("") == nil {
		return nil
	}
	return func(typ string) bool { return r.Adds(typ) == nil }
}

// checkTasks returns why the tasks and signals of f are not allowed.
func (r *Rights) checkTasks(f *wire.Finish) error {
	if r.Adds == nil || len(f.GetChildren())+len(f.GetSignals()) == 0 {
		return nil
	}
	var types []string
	for _, c := range f.GetChildren() {
		types = append(types, c.GetType())
	}
	isUntyped := false
	for _, s := range f.GetSignals() {
		if s.GetType() == "" {
			isUntyped = true
		} else {
			types = append(types, s.GetType())
		}
	}
	err := r.Adds(types...)
	if err == nil && isUntyped {
		if err = r.Adds(""); err != nil {
			err = fmt.Errorf("%w: %w", errUntyped, err)
		}
	}
	return err
}

// checkWrites returns why the documents of f are not allowed.
func (r *Rights) checkWrites(f *wire.Finish) error {
	for _, d := range f.GetDocuments() {
		if !pattern.AnyMatches(r.MayWrite, d.GetKey()) {
			return fmt.Errorf("the handler may not write the document %.80q: %w", d.GetKey(), errWrite)
		}
	}
	return nil
}

// checkRead returns why the document of a key may not be read.
func (r *Rights) checkRead(key string) error {
	if pattern.AnyMatches(r.MayRead, key) || pattern.AnyMatches(r.MayWrite, key) {
		return nil
	}
	return errRead
}
