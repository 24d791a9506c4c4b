package bulk

import (
	"fmt"

	"github.com/taskengine/taskengine/filter"
	"github.com/taskengine/taskengine/task"
)

// Undo makes j the job that undoes another one, which has ended and has changed some tasks. It is prepared then as any other job.
func (j *Job) Undo(of *Job, changed int64) error {
	if of.Verb == Delete || of.Verb == Erase {
		return fmt.Errorf("%w: %s is a job that has used %s, which nothing undoes", ErrInvalid, of.Name, of.Verb)
	}
	f, err := of.Filter()
	if err != nil {
		return err
	}
	j.Verb, j.Of, j.OfChanged, j.Types = Undo, of.Name, changed, of.Types
	j.Where = f.Lasting().And(filter.Of(leftIn(of.Verb), nil, "")).String()
	return nil
}

// leftIn returns the states in which tasks are that a verb has changed, unless they have changed since; nil for all.
func leftIn(v Verb) []task.State {
	switch v {
	case Resume:
		return []task.State{task.Submitted}
	case Cancel:
		return []task.State{task.Cancelled}
	case Fail:
		return []task.State{task.Failed}
	case Reschedule:
		return []task.State{task.Waiting, task.Submitted}
	case Set:
		return []task.State{task.Waiting, task.Submitted, task.Error}
	}
	return nil
}
