package steps

import (
	"context"
	"strings"
	"time"

	"github.com/taskengine/taskengine/task"
)

// WaitFor ends the attempt, and the task waits for a signal of one of these names, without a slot. The function is called
// again when the first one comes, at the end of timeout, or when a user resumes the task: WaitFor then returns which it
// was, with the signal. A timeout of 0 is none; it begins when the function first comes to the wait. See [task.WaitFor] for
// the limits of names.
//
// An error of WaitFor is how the attempt ends: the function must return it.
func (f *Flow) WaitFor(ctx context.Context, timeout time.Duration, names ...string) (task.Wake, error) {
	name := strings.Join(names, " or ")
	kept, err := f.begin(ctx, kindWait, name)
	if err != nil {
		return task.Wake{}, err
	}
	if kept == nil {
		kept = f.add(step{Kind: kindWait, Name: name})
		if timeout > 0 {
			until := time.Now().Add(timeout)
			kept.Until = &until
		}
	} else if w := f.Task.Woken(); !kept.Over && w.By != task.NotWoken {
		kept.Over, kept.Woken = true, wokenOf(w) // it is stored with the next step: until then the task has it
	}
	if !kept.Over { // it is new, or something else than the end of the wait has made the task ready
		var until time.Time
		if kept.Until != nil {
			until = *kept.Until
		}
		return task.Wake{}, f.leave(func(o task.AgainOption) error { return task.WaitFor(names, until, o) })
	}
	w, err := kept.Woken.wake()
	if err != nil {
		return w, f.stop(err)
	}
	return w, nil
}

// Sleep ends the attempt, and the function is called again after d: Sleep then returns nil.
//
// An error of Sleep is how the attempt ends: the function must return it.
func (f *Flow) Sleep(ctx context.Context, d time.Duration) error {
	kept, err := f.begin(ctx, kindSleep, "sleep")
	if err != nil {
		return err
	}
	if kept == nil {
		f.add(step{Kind: kindSleep, Name: "sleep"})
		return f.leave(func(o task.AgainOption) error { return task.Again(time.Now().Add(d), o) })
	}
	kept.Over = true // by the clock of the nodes, or because a user wants it
	return nil
}

// add adds a step to the log, behind the one that has failed, if there is one.
func (f *Flow) add(s step) *step {
	if f.failed != nil {
		f.log.Steps = append(f.log.Steps, *f.failed)
		f.failed = nil
	}
	f.log.Steps = append(f.log.Steps, s)
	return &f.log.Steps[len(f.log.Steps)-1]
}

// leave ends the attempt with the result of end, and the log as the checkpoint of the task.
func (f *Flow) leave(end func(task.AgainOption) error) error {
	data, err := f.log.bytes()
	if err != nil {
		return f.stop(err)
	}
	return f.stop(end(task.WithCheckpoint(data)))
}
