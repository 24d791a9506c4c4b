package steps

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/taskengine/taskengine/task"
)

// Flow is the function of one attempt of a task, and the results of its steps. It is not safe for concurrent use: steps run
// one after the other.
type Flow struct {
	Task *task.Task // its Checkpoint belongs to the package

	log     record
	version int   // of the code
	next    int   // the step that comes next
	failed  *step // the step that was last and has failed; it is kept when the function goes on to another step
	stopped error // the attempt is to end with it: no step runs any more
}

// Options describe the code of a flow.
type Options struct {
	// Version is the version of the code, 1 or more. Raise it with a change of the steps, and let the code
	// look at [Flow.Version] to do the steps of before for tasks that began with them.
	Version int
	// Oldest is the oldest version of which the code still knows the steps; 0 is Version. A task that began with
	// an older one ends with a permanent error of class "steps_changed".
	Oldest int
}

// Handler returns a handler that calls run with the flow of each task. The result and the error of run become those of the
// attempt, see [task.Handler]. An error of a method of the flow, or of [Do], has to be returned, unless the function
// treats a failed step in another way. It panics if a version of o is not possible.
func Handler(o Options, run func(ctx context.Context, f *Flow) (result []byte, err error)) task.Handler {
	if o.Oldest == 0 {
		o.Oldest = o.Version
	}
	if o.Oldest < 1 || o.Version < o.Oldest {
		panic(fmt.Sprintf("steps: version %d of the code knows the steps since version %d: versions begin with 1", o.Version, o.Oldest))
	}
	return task.HandlerFunc(func(ctx context.Context, t *task.Task) ([]byte, error) {
		f, err := open(o, t)
		if err != nil {
			return nil, err
		}
		result, err := run(ctx, f)
		switch {
		case f.stopped != nil: // also if the function has made something else of it
			return nil, f.stopped
		case err == nil && f.next < len(f.log.Steps):
			return nil, changed("the function has ended after %d steps, and the task has done %d: %q comes next", f.next, len(f.log.Steps), f.log.Steps[f.next].Name)
		}
		return result, f.again(result, err)
	})
}

// again returns the error of a function that has ended, with the state for the next occurrence of a recurring task.
func (f *Flow) again(result []byte, err error) error {
	v := task.VerdictOf(result, err)
	if err == nil || v.Outcome != task.Completed || !v.RunsAgain() {
		return err
	}
	if v.Rerun != nil && v.Rerun.Checkpoint != nil {
		return task.Permanent(errors.New("steps: the function asks for a checkpoint, which is where the results of steps are: use the payload"))
	}
	data, failed := (&record{Format: format, Occurrence: f.log.Occurrence + 1, Steps: []step{}}).bytes()
	if failed != nil {
		return failed
	}
	return task.AgainAs(v, append(v.Rerun.Options(), task.WithCheckpoint(data))...)
}

func open(o Options, t *task.Task) (*Flow, error) {
	log, err := readRecord(t.Checkpoint())
	if err != nil {
		return nil, err
	}
	if log.Version == 0 {
		log.Version = o.Version
	}
	switch {
	case log.Version < o.Oldest:
		return nil, changed("the task began with version %d of the code, and this code knows the steps since version %d", log.Version, o.Oldest)
	case log.Version > o.Version:
		return nil, task.WithClass("steps_newer", fmt.Errorf("steps: the task began with version %d of the code, and this program has version %d", log.Version, o.Version))
	}
	return &Flow{Task: t, log: log, version: o.Version}, nil
}

// changed returns the permanent error of a task with other steps than the code.
func changed(format string, args ...any) error {
	return task.Permanent(task.WithClass("steps_changed", fmt.Errorf("steps: "+format, args...)))
}

// Version returns the version of the code with which the task began.
func (f *Flow) Version() int { return f.log.Version }

// Key returns the key of the step that runs: the same in all attempts, and another one for each step of each task, and for
// each time that a recurring task is due. A receiver that remembers it does the work of the step once.
func (f *Flow) Key() string { return fmt.Sprintf("%v-%d-%d", f.Task.ID, f.log.Occurrence, f.next) }

// Do runs a step, unless it is done, and returns its result, which is kept as JSON. An error of work is returned and not
// kept: the attempt that follows runs the step again. It is kept if the function does not return it but goes on to another
// step: Do then returns a [*Error] in its place in later attempts. If the context has ended when work fails, no step runs
// any more, because that says nothing of the work.
//
// Other errors say why the step could not run or could not be kept. The function must return them.
func Do[T any](ctx context.Context, f *Flow, name string, work func(context.Context) (T, error)) (T, error) {
	var result T
	kept, err := f.begin(ctx, kindDo, name)
	if err != nil {
		return result, err
	}
	if kept == nil {
		if err := f.keepFailures(ctx); err != nil {
			return result, err
		}
		worked, err := work(ctx)
		if err != nil {
			return result, f.fail(ctx, name, err)
		}
		value, err := json.Marshal(worked)
		if err != nil {
			return result, f.stop(task.Permanent(fmt.Errorf("steps: the result of step %q cannot be kept: %w", name, err)))
		}
		if kept, err = f.keep(ctx, step{Kind: kindDo, Name: name, Result: value}); err != nil {
			return result, err
		}
	}
	if kept.Error != nil {
		return result, kept.Error
	}
	// Also the first time: a result that JSON changes is the same in all attempts.
	if err := json.Unmarshal(kept.Result, &result); err != nil {
		return result, f.stop(changed("step %q has a result that is no %T: %w", name, result, err))
	}
	return result, nil
}

// begin returns the record of the next step, nil if it is not done.
func (f *Flow) begin(ctx context.Context, k kind, name string) (*step, error) {
	if f.stopped != nil {
		return nil, f.stopped
	}
	if err := ctx.Err(); err != nil {
		return nil, f.stop(context.Cause(ctx))
	}
	at := f.next
	f.next++
	if at >= len(f.log.Steps) {
		return nil, nil
	}
	kept := &f.log.Steps[at]
	if kept.Name != name || kept.Kind != k {
		return nil, f.stop(changed("step %d of the task was %q (%v) when it ran, and is %q (%v) in the code of version %d: steps must come in the same order; raise the version with a change of them",
			at+1, kept.Name, kept.Kind, name, k, f.version))
	}
	return kept, nil
}

// keep adds a step that is done to the log, and stores the log.
func (f *Flow) keep(ctx context.Context, s step) (*step, error) {
	kept := f.add(s)
	data, err := f.log.bytes()
	if err == nil {
		err = task.SaveCheckpoint(ctx, data)
	}
	if err != nil {
		return nil, f.stop(fmt.Errorf("steps: keep step %q: %w", s.Name, err))
	}
	return kept, nil
}

// keepFailures stores the step that has failed, if the function goes on from it: what follows, such as giving money back,
// is right only as long as it has failed.
func (f *Flow) keepFailures(ctx context.Context) error {
	if f.failed == nil {
		return nil
	}
	failed := *f.failed
	f.failed = nil
	_, err := f.keep(ctx, failed)
	return err
}

// fail notes that the step that has begun has failed.
func (f *Flow) fail(ctx context.Context, name string, err error) error {
	v := task.VerdictOf(nil, err)
	if v.Outcome != task.Errored || v.Ended || ctx.Err() != nil {
		return f.stop(err)
	}
	f.failed = &step{Kind: kindDo, Name: name, Error: &Error{Message: v.Error, Class: v.Class, Permanent: v.GiveUp}}
	return err
}

// stop has the attempt end with err.
func (f *Flow) stop(err error) error {
	f.stopped = err
	return err
}

// Error is the error of a step that has failed in an earlier attempt, in which the function went on to other steps.
type Error struct {
	Message   string `json:"message"`
	Class     string `json:"class,omitempty"`     // see [task.WithClass]
	Permanent bool   `json:"permanent,omitempty"` // see [task.Permanent]
}

// Error returns the message of the error of the step.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the verdict by which the engine treats e as the error of the step.
func (e *Error) Unwrap() error {
	err := errors.New(e.Message)
	if e.Class != "" {
		err = task.WithClass(e.Class, err)
	}
	if e.Permanent {
		err = task.Permanent(err)
	}
	return err
}
