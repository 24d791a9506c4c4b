package steps

import (
	"context"
	"errors"
	"time"

	"github.com/taskengine/taskengine/task"
)

// Children are how the children of a step have ended.
type Children struct {
	Parent    task.ID `json:"-"`
	Name      string  `json:"-"`
	From      uint32  `json:"from,omitempty"` // the number of the first among the children of the name
	Count     uint32  `json:"count"`
	Done      uint32  `json:"done,omitempty"`
	Failed    uint32  `json:"failed,omitempty"`
	Cancelled uint32  `json:"cancelled,omitempty"`
}

// ID returns the id of the i-th request of the step, from 0 on, if it has no ordering key and one database keeps the tasks. Otherwise
// the shard of the id differs, see [task.ChildSet.Child].
func (c *Children) ID(i int) task.ID {
	return task.Parent{ID: c.Parent, Name: c.Name, Index: c.From + uint32(i)}.Child()
}

// RunChildren adds children of this task with the end of the attempt, and the function is called again when all of them have
// ended: RunChildren then returns how. They run beside each other. [task.WithChildren] says what holds for requests. A child in
// [task.Error] has not ended: the flow waits until a person has decided about it. The added tasks are the requests of the first
// time that the function comes to the step.
//
// An error of RunChildren is how the attempt ends: the function must return it. A child that has failed is no error.
func (f *Flow) RunChildren(ctx context.Context, name string, requests ...task.Request) (Children, error) {
	kept, err := f.begin(ctx, kindChildren, name)
	if err != nil {
		return Children{}, err
	}
	switch {
	case kept == nil && len(requests) == 0: // there is nothing to leave for; but a step that has failed before is kept with it
		if kept, err = f.keep(ctx, step{Kind: kindChildren, Name: name, Over: true, Children: new(Children)}); err != nil {
			return Children{}, err
		}
	case kept == nil:
		before := Children{Count: uint32(len(requests))}
		if s := f.Task.Children.Set(name); s != nil {
			before.From, before.Done, before.Failed, before.Cancelled = s.Added, s.Done, s.Failed, s.Cancelled
		}
		f.add(step{Kind: kindChildren, Name: name, Children: &before})
		return Children{}, f.leave(func(o task.AgainOption) error {
			return task.WaitForChildren([]task.ChildrenWait{{Name: name}}, time.Time{}, o, task.WithChildren(name, requests...))
		})
	case !kept.Over:
		s, before := f.Task.Children.Set(name), *kept.Children
		if s == nil || s.Added < before.From+before.Count {
			return Children{}, f.stop(task.Permanent(errors.New("steps: the task has lost its children")))
		}
		if s.Ended() < s.Added { // a user has resumed it
			return Children{}, f.leave(func(o task.AgainOption) error {
				return task.WaitForChildren([]task.ChildrenWait{{Name: name}}, time.Time{}, o)
			})
		}
		kept.Over, kept.Children = true, &Children{ // it is stored with the next step: until then the task has it
			From: before.From, Count: before.Count, Done: s.Done - before.Done, Failed: s.Failed - before.Failed, Cancelled: s.Cancelled - before.Cancelled,
		}
	}
	ended := *kept.Children
	ended.Parent, ended.Name = f.Task.ID, name
	return ended, nil
}
