package runner

import (
	"context"
	"errors"
	"fmt"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/workflow"
)

// Errors of the methods of [Workflows]. Those of the engine are others.
var (
	// ErrNoWorkflow says that a task is no workflow.
	ErrNoWorkflow = errors.New("the task is no workflow")
	// ErrInvalid says that a workflow cannot be retried so.
	ErrInvalid = errors.New("the workflow cannot be retried so")
	// ErrUnreadable says that a workflow has no definition or state that this program can read.
	ErrUnreadable = errors.New("the workflow cannot be read")
)

// Workflows are the workflows of an engine. It is safe for concurrent use.
type Workflows struct{ engine *engine.Engine }

// Of returns the workflows that an engine runs. The engine must have the [Handler] and the [TypePolicy].
func Of(e *engine.Engine) Workflows { return Workflows{e} }

// Workflow is a workflow as it is stored.
type Workflow struct {
	Task    *task.Task
	Spec    *workflow.Spec
	State   *workflow.State // of one that is done: without results
	Steps   []Step          // in an order in which they may run
	Output  []byte          // of one that is done; nil if it has none
	Retries int
}

// Step is a step of a [Workflow].
type Step struct {
	workflow.StepView
	Tasks []task.ID // of the newest run of the step, the first mostIDs
	Undo  []task.ID // of its compensation, likewise
}

// mostIDs is how many ids of tasks a Step has.
const mostIDs = 100

// Get returns a workflow.
func (w Workflows) Get(ctx context.Context, id task.ID) (*Workflow, error) {
	t, err := w.engine.Get(ctx, id)
	switch {
	case err != nil && !errors.Is(err, engine.ErrUnreadable):
		return nil, fmt.Errorf("workflow %v: %w", id, err)
	case t.Type != workflow.Type:
		return nil, fmt.Errorf("workflow %v: %w: its type is %s", id, ErrNoWorkflow, t.Type)
	case err != nil:
		return nil, fmt.Errorf("workflow %v: %w: %w", id, ErrUnreadable, err)
	}
	return w.of(t)
}

// of returns the workflow of a row.
func (w Workflows) of(t *task.Task) (*Workflow, error) {
	spec, err := workflow.ParseSpec(t.Payload)
	if err != nil {
		return nil, fmt.Errorf("workflow %v: %w: %w", t.ID, ErrUnreadable, err)
	}
	one := &Workflow{Task: t, Spec: spec}
	if t.State == task.Done {
		outcome, err := workflow.ParseOutcome(t.Result)
		if err != nil {
			return nil, fmt.Errorf("workflow %v: %w: %w", t.ID, ErrUnreadable, err)
		}
		one.State, one.Output = &workflow.State{Steps: outcome.Steps, Retries: outcome.Retries}, outcome.Output
	} else if one.State, err = workflow.ParseState(t.Checkpoint()); err != nil {
		return nil, fmt.Errorf("workflow %v: %w: %w", t.ID, ErrUnreadable, err)
	}
	one.Retries = one.State.Retries
	views, err := workflow.Look(spec.Definition, one.State, t.Children)
	if err != nil {
		return nil, fmt.Errorf("workflow %v: %w: %w", t.ID, ErrUnreadable, err)
	}
	ids := &children{engine: w.engine, parent: t.ID, of: t.Children}
	for _, v := range views {
		s := Step{StepView: v}
		for i := range min(v.State.Count, mostIDs) {
			s.Tasks = append(s.Tasks, ids.ID(workflow.Set(v.Name), v.State.From+i))
		}
		if u := v.State.Undo; u != nil {
			for i := range min(u.Count, mostIDs) {
				s.Undo = append(s.Undo, ids.ID(workflow.UndoSet(v.Name), u.From+i))
			}
		}
		one.Steps = append(one.Steps, s)
	}
	return one, nil
}

// Retry has a workflow run again that has ended without being done: see [workflow.Retry] for which steps run anew. from is "" or
// the name of a step. It is one change, of the version of ref; version 0 stands for the current one. Retry returns the workflow
// some time after that.
func (w Workflows) Retry(ctx context.Context, ref task.Ref, from string) (*Workflow, error) {
	const tries = 10
	for range tries {
		one, err := w.retry(ctx, ref, from)
		if ref.Version == 0 && errors.Is(err, engine.ErrStale) { // an end of a task has come
			continue
		}
		return one, err
	}
	return nil, fmt.Errorf("retry workflow %v: %w, %d times in a row", ref.ID, engine.ErrStale, tries)
}

func (w Workflows) retry(ctx context.Context, ref task.Ref, from string) (*Workflow, error) {
	at, err := w.Get(ctx, ref.ID)
	if err != nil {
		return nil, err
	}
	t := at.Task
	switch {
	case ref.Version != 0 && ref.Version != t.Version:
		return nil, fmt.Errorf("retry workflow %v: %w: it is at version %d, not %d", ref.ID, engine.ErrStale, t.Version, ref.Version)
	case t.State != task.Failed && t.State != task.Cancelled && t.State != task.Error:
		return nil, fmt.Errorf("retry workflow %v: %w: cannot retry a workflow that is %v", ref.ID, engine.ErrNotAllowed, t.State)
	}
	state, err := workflow.Retry(at.Spec, at.State, nowOf(ctx, w.engine, t), from)
	switch {
	case errors.Is(err, workflow.ErrRuns):
		return nil, fmt.Errorf("retry workflow %v: %w: %w", ref.ID, engine.ErrNotAllowed, err)
	case errors.Is(err, workflow.ErrNoStep):
		return nil, fmt.Errorf("retry workflow %v: %w: %w", ref.ID, ErrInvalid, err)
	case err != nil:
		return nil, fmt.Errorf("retry workflow %v: %w", ref.ID, err)
	}
	checkpoint := state.Encode()
	if _, err := w.engine.Edit(ctx, t.Ref(), engine.Edit{Checkpoint: &checkpoint, Resumes: true}); err != nil {
		return nil, fmt.Errorf("retry workflow %v: %w", ref.ID, err)
	}
	return w.Get(ctx, ref.ID)
}
