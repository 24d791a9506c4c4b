package workflow

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/taskengine/taskengine/task"
)

// collect ends the steps with tasks that have ended, or with a wait that is over.
func (r *run) collect() error {
	stopping := r.state.Failure != nil
	for _, name := range r.order {
		s := r.state.Steps[name]
		var err error
		switch {
		case s.Phase == Running && r.Steps[name].Wait != nil:
			err = r.collectWait(name, s, stopping)
		case s.Phase == Running:
			err = r.collectTasks(name, s, stopping)
		}
		if err == nil && s.Undo != nil && s.Undo.Phase == Running {
			err = r.collectUndo(name, s.Undo)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *run) collectWait(name string, s *StepState, stopping bool) error {
	w := r.Steps[name].Wait
	switch by := r.now.Wake; {
	case stopping:
		r.finish(name, s, Cancelled)
	case w.Signal != "" && by.By == task.BySignal && by.Signal.Name == w.Signal && !r.woken:
		r.woken = true
		if r.reads[name] {
			result, err := valueOf(by.Signal.Data)
			if err != nil {
				s.Error = "the data of the signal: " + err.Error()
				r.finish(name, s, Failed)
				return nil
			}
			s.Result = result
		}
		r.finish(name, s, Done)
	case s.Until.IsZero() || r.now.At.Before(s.Until):
	case w.Signal != "":
		s.Error = fmt.Sprintf("the signal %s did not come in time", w.Signal)
		r.finish(name, s, Failed)
	default:
		r.finish(name, s, Done)
	}
	return nil
}

// ended returns t with how the tasks have ended so far.
func (t Tasks) ended(set *task.ChildSet) Tasks {
	t.Ends = Ends{}
	if set == nil || t.Count == 0 || set.Added < t.From+t.Count {
		return t // there are none, or they are added with this decision
	}
	t.Ends = Ends{set.Done, set.Failed, set.Cancelled}
	if b := t.Before; b != nil {
		t.Ends = Ends{t.Done - b.Done, t.Failed - b.Failed, t.Cancelled - b.Cancelled}
	}
	return t
}

func (t Tasks) live() uint32 { return t.Count - t.Done - t.Failed - t.Cancelled }

// phaseOf returns the phase of a step with tasks that have ended so.
func (r *run) phaseOf(name string, t Tasks, stopping bool) Phase {
	need := uint32(r.Steps[name].Need.of(int(t.Count)))
	switch {
	case stopping && t.live() > 0:
		return Running
	case t.Done >= need:
		return Done
	case stopping && t.Failed == 0:
		return Cancelled
	case t.live() == 0, r.onFailure(name) != Continue && t.Failed+t.Cancelled > t.Count-need:
		return Failed
	}
	return Running
}

func (r *run) collectTasks(name string, s *StepState, stopping bool) error {
	t := s.ended(r.now.Children.Set(Set(name)))
	p := r.phaseOf(name, t, stopping)
	if p == Running {
		return nil
	}
	if r.reads[name] && t.Done > 0 {
		result, err := r.results(name, s.Tasks)
		if err != nil && !errors.Is(err, errBinary) {
			return fmt.Errorf("step %s: %w", name, err)
		}
		if err != nil {
			p, s.Error = Failed, err.Error()
		}
		s.Result = result
	}
	if p == Failed && s.Error == "" {
		text, err := r.failure(Set(name), t)
		if err != nil {
			return fmt.Errorf("step %s: %w", name, err)
		}
		s.Error = text
	}
	s.Tasks = t
	r.finish(name, s, p)
	return nil
}

func (r *run) collectUndo(name string, u *StepState) error {
	t := u.ended(r.now.Children.Set(UndoSet(name)))
	if t.live() > 0 {
		return nil
	}
	u.Phase, u.Ended = Done, r.now.At
	if t.Done < t.Count {
		text, err := r.failure(UndoSet(name), t)
		if err != nil {
			return fmt.Errorf("compensation of step %s: %w", name, err)
		}
		u.Phase, u.Error = Failed, text
	}
	u.Tasks = t
	return nil
}

// results returns the results of the tasks of a step: that of its task, or a list, with null for those that are not done.
func (r *run) results(name string, t Tasks) (json.RawMessage, error) {
	set, all := r.now.Children.Set(Set(name)), make([]json.RawMessage, t.Count)
	for i := range t.Count {
		all[i] = json.RawMessage("null")
		if !set.HasEnded(t.From + i) {
			continue
		}
		child, err := r.now.Read.Child(Set(name), t.From+i)
		if errors.Is(err, task.ErrNotFound) { // it may have failed, but is the more likely to be done
			return nil, fmt.Errorf("the result of task %d (%v): %w", i, r.now.Read.ID(Set(name), t.From+i), ErrGone)
		}
		if err != nil {
			return nil, err
		}
		if child.State != task.Done {
			continue
		}
		if all[i], err = valueOf(child.Result); err != nil {
			return nil, fmt.Errorf("the result of task %d (%v): %w", i, child.ID, err)
		}
	}
	if !r.Steps[name].fansOut() {
		return all[0], nil
	}
	return formatValue(all)
}

// mostRead is how many tasks are looked at for one that has failed.
const mostRead = 1000

// failure describes the failure of tasks of a set: the first that is not done.
func (r *run) failure(name string, t Tasks) (string, error) {
	counts := ""
	if t.Count > 1 {
		counts = fmt.Sprintf("%d of %d tasks are done, %d have failed, %d were cancelled: ", t.Done, t.Count, t.Failed, t.Cancelled)
	}
	set := r.now.Children.Set(name)
	for i := range min(t.Count, mostRead) {
		if !set.HasEnded(t.From + i) {
			continue
		}
		child, err := r.now.Read.Child(name, t.From+i)
		switch {
		case errors.Is(err, task.ErrNotFound):
			continue // it was removed since
		case err != nil:
			return "", err
		case child.State == task.Done:
			continue
		}
		how := "has failed"
		if child.State == task.Cancelled {
			how = "was cancelled"
		}
		text := fmt.Sprintf("%stask %d (%v) %s", counts, i, child.ID, how)
		if child.Error != "" {
			text += ": " + child.Error
		}
		return text, nil
	}
	return counts + "a task has failed or was cancelled, and was removed since", nil
}
