package workflow

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/taskengine/taskengine/task"
)

// ErrNoStep says that a workflow has no step of a name.
var ErrNoStep = errors.New("there is no such step")

// ErrRuns says that a step cannot run again because tasks of it have not ended.
var ErrRuns = errors.New("tasks of the step have not ended: wait for them, or cancel them")

// Retry returns the state of a workflow that has ended without being done and runs again. The step from, and all after it, run anew.
// So do the steps that have failed, were stopped or were compensated, and those after them; a step that has failed and has let the others
// continue has not, and one that was skipped has not. If from is "", only these run anew. What is done otherwise stays done, and tasks that have not ended go on. state
// is not used afterwards.
func Retry(spec *Spec, state *State, now Now, from string) (*State, error) {
	r, err := newRun(spec, state, now)
	if err != nil {
		return nil, err
	}
	if from != "" && r.Steps[from] == nil {
		return nil, fmt.Errorf("%w: %.80q%s", ErrNoStep, from, nearest(from, slices.Sorted(maps.Keys(r.Steps))))
	}
	r.state.Failure = nil
	if err := r.collect(); err != nil && !errors.Is(err, ErrGone) {
		return nil, err
	}
	anew := make(map[string]bool)
	for _, name := range r.order {
		isFirst := name == from || r.endsAnew(name)
		isAfter := slices.ContainsFunc(r.Steps[name].After, func(other string) bool { return anew[other] })
		if !isFirst && !isAfter {
			continue
		}
		for _, set := range []string{Set(name), UndoSet(name)} {
			if c := r.now.Children.Set(set); c != nil && c.Ended() < c.Added {
				return nil, fmt.Errorf("step %s: %w: %d of %d %q", name, ErrRuns, c.Added-c.Ended(), c.Added, set)
			}
		}
		anew[name] = true
		r.state.Steps[name] = new(StepState)
	}
	r.state.Retries++
	return r.state, nil
}

// endsAnew reports whether a step has not ended so that the steps after it can run, and has no task that may still end.
func (r *run) endsAnew(name string) bool {
	s := r.state.Steps[name]
	switch s.Phase {
	case Pending, Done, Skipped:
		return s.Undo != nil
	case Failed:
		return s.Undo != nil || r.onFailure(name) != Continue
	case Running:
		return r.Steps[name].Wait != nil || s.ended(r.now.Children.Set(Set(name))).live() == 0
	}
	return true
}

// StepView is a step to be shown.
type StepView struct {
	Name       string
	Definition *Step
	State      StepState // with how its tasks have ended so far
	Waits      []string  // the steps for which it waits, if it is Pending
}

// Look returns the steps of a workflow in an order in which they may run. children are as its row has them.
func Look(d *Definition, state *State, children *task.Children) ([]StepView, error) {
	g, err := compile(d)
	if err != nil {
		return nil, err
	}
	all := make([]StepView, len(g.order))
	for i, name := range g.order {
		v := StepView{Name: name, Definition: d.Steps[name]}
		if s := state.Steps[name]; s != nil {
			v.State = *s
		}
		if v.State.Phase == Running {
			v.State.Tasks = v.State.ended(children.Set(Set(name)))
		}
		if u := v.State.Undo; u != nil && u.Phase == Running {
			shown := *u
			shown.Tasks = u.ended(children.Set(UndoSet(name)))
			v.State.Undo = &shown
		}
		if v.State.Phase == Pending {
			for _, other := range d.Steps[name].After {
				if s := state.Steps[other]; s == nil || s.Phase == Pending || s.Phase == Running {
					v.Waits = append(v.Waits, other)
				}
			}
		}
		all[i] = v
	}
	return all, nil
}
