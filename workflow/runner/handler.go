// Package runner runs the workflows of package workflow on an engine, and shows and retries them.
package runner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/workflow"
)

// TypePolicy returns the policy of [workflow.Type]: a workflow that cannot be decided about, for instance because the store does not
// answer, is tried again until it can.
func TypePolicy() policy.Type {
	p := policy.DefaultType()
	p.Slotless, p.MaxCrashes = true, 0
	p.Retry = policy.Retry{Max: policy.Forever, Backoff: policy.Backoff{Kind: policy.Exponential, Initial: time.Second, Factor: 2, Max: time.Minute}}
	return p
}

// Handler is the handler of [workflow.Type]. Every engine that runs workflows needs it, with the [TypePolicy].
var Handler task.HandlerFunc = handle

// handle decides once about a workflow.
func handle(ctx context.Context, t *task.Task) ([]byte, error) {
	e, ok := engine.FromContext(ctx)
	if !ok {
		return nil, errors.New("a workflow must be run by an engine")
	}
	spec, err := workflow.ParseSpec(t.Payload)
	if err != nil {
		return nil, task.Permanent(err)
	}
	state, err := workflow.ParseState(t.Checkpoint())
	if err != nil {
		return nil, err
	}
	if len(state.Steps) == 0 {
		if err := CheckResults(e, spec.Definition); err != nil {
			return nil, task.Permanent(err)
		}
	}
	d, err := workflow.Next(spec, state, nowOf(ctx, e, t))
	if errors.Is(err, workflow.ErrGone) {
		err = task.Permanent(err)
	}
	if err != nil {
		return nil, err
	}
	switch d.End {
	case task.Done:
		return d.Result, nil
	case task.Failed:
		return nil, task.EndAs(task.Failed, errors.New(d.Error))
	}
	isMissing, err := stop(ctx, e, t, d)
	if err != nil {
		return nil, err
	}
	return nil, goesOn(d, e.Now(), isMissing)
}

// goesOn returns the error of an attempt after which the workflow goes on as d says.
func goesOn(d *workflow.Decision, now time.Time, isMissing bool) error {
	checkpoint := d.State.Encode()
	if len(checkpoint) > task.MaxCheckpoint {
		return task.Permanent(task.WithClass("checkpoint_too_large", fmt.Errorf(
			"what the workflow keeps of its steps would have %d bytes, of %d allowed: %s; have steps return less, or refer to their tasks by $task",
			len(checkpoint), task.MaxCheckpoint, d.State.Largest())))
	}
	options := []task.AgainOption{task.WithCheckpoint(checkpoint)}
	for _, c := range d.Add {
		options = append(options, task.WithChildren(c.Name, c.Requests...))
	}
	until := d.Until
	if isMissing {
		until = now.Add(time.Second)
	}
	switch {
	case len(d.Waits) > 0:
		return task.WaitForEither(d.Signals, d.Waits, until, options...)
	case len(d.Signals) > 0:
		return task.WaitFor(d.Signals, until, options...)
	case !until.IsZero():
		return task.Again(until, options...)
	}
	return task.Again(now, options...)
}

// CheckResults returns an error if the node removes tasks at once when they are done though the workflow reads their results.
func CheckResults(e *engine.Engine, d *workflow.Definition) error {
	for _, typ := range d.ReadTypes() {
		if e.KeepsDone(typ) == 0 {
			return fmt.Errorf("tasks of the type %s are removed when they are done, and the workflow refers to their results; set retention.done of the type", typ)
		}
	}
	return nil
}

// nowOf returns what a workflow decides by. t is its row.
func nowOf(ctx context.Context, e *engine.Engine, t *task.Task) workflow.Now {
	return workflow.Now{ID: t.ID, At: task.Stamp(e.Now()), Children: t.Children, Wake: t.Woken(), Read: &children{ctx, e, t.ID, t.Children}}
}

// children reads the children of a workflow, within one attempt or request.
type children struct {
	ctx    context.Context
	engine *engine.Engine
	parent task.ID
	of     *task.Children
}

// set returns the children of a name; an empty set if there are none: the ids of their children follow from the name.
func (c *children) set(name string) *task.ChildSet {
	if s := c.of.Set(name); s != nil {
		return s
	}
	return &task.ChildSet{Name: name}
}

// ID implements [workflow.Children].
func (c *children) ID(set string, index uint32) task.ID {
	return c.engine.ChildID(c.parent, c.set(set), index)
}

// Child implements [workflow.Children].
func (c *children) Child(set string, index uint32) (workflow.Child, error) {
	t, err := c.engine.Child(c.ctx, c.parent, c.set(set), index)
	if err != nil {
		return workflow.Child{}, fmt.Errorf("read task %d of %s: %w", index, set, err)
	}
	return workflow.Child{ID: t.ID, State: t.State, Result: t.Result, Error: t.LastError}, nil
}

// stopWidth is how many children are cancelled at once: they share commits.
const stopWidth = 64

// stop cancels the children that d says, with all that is below them. It reports whether one of them is not in the store yet.
func stop(ctx context.Context, e *engine.Engine, t *task.Task, d *workflow.Decision) (isMissing bool, err error) {
	reason := ""
	if f := d.State.Failure; f != nil {
		reason = fmt.Sprintf("step %s of the workflow %v has failed", f.Step, t.ID)
	}
	var mu sync.Mutex // guards isMissing and err
	var running sync.WaitGroup
	places := make(chan struct{}, stopWidth)
	for _, s := range d.Stop {
		set := t.Children.Set(s.Set)
		for index := s.From; set != nil && index < s.To && ctx.Err() == nil; index++ {
			if set.HasEnded(index) {
				continue
			}
			places <- struct{}{}
			running.Go(func() {
				defer func() { <-places }()
				missing, failed := stopOne(ctx, e, t.ID, set, index, reason)
				mu.Lock()
				defer mu.Unlock()
				isMissing = isMissing || missing
				if err == nil {
					err = failed
				}
			})
		}
	}
	running.Wait()
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return isMissing, err
}

// stopOne cancels one child.
func stopOne(ctx context.Context, e *engine.Engine, parent task.ID, set *task.ChildSet, index uint32, reason string) (isMissing bool, err error) {
	child, err := e.Child(ctx, parent, set, index)
	switch {
	case errors.Is(err, task.ErrNotFound):
		return true, nil
	case err != nil && !errors.Is(err, engine.ErrUnreadable):
		return false, fmt.Errorf("cancel task %d of step %s: %w", index, set.Name, err)
	case child.State == task.Done:
		return false, nil
	}
	tree, err := e.CancelTree(ctx, child.ID, engine.TreeCancel{Reason: reason})
	switch {
	case errors.Is(err, engine.ErrNotAllowed): // it is done meanwhile
		return false, nil
	case errors.Is(err, task.ErrNotFound):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("cancel task %d of step %s: %w", index, set.Name, err)
	}
	return tree.Missing > 0, nil
}
