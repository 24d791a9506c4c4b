package workflow

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/taskengine/taskengine/task"
)

// end ends a workflow with steps that all have ended.
func (r *run) end() error {
	o := Outcome{Retries: r.state.Retries, Steps: make(map[string]*StepState, len(r.order))}
	if len(r.Output) > 0 {
		v, err := resolve(r.output, r.find("", nil, -1))
		if err != nil {
			return task.Permanent(fmt.Errorf("output: %w", err))
		}
		if o.Output, err = formatValue(v); err != nil {
			return task.Permanent(fmt.Errorf("output: %w", err))
		}
	}
	for _, name := range r.order {
		s := *r.state.Steps[name]
		s.Result = nil
		o.Steps[name] = &s
	}
	result, err := formatValue(o)
	r.out = Decision{End: task.Done, Result: result}
	return err
}

// stop stops a workflow that has failed: it cancels what runs, waits for that, compensates what is done, and fails. before is the
// state as it is stored.
func (r *run) stop(before string) error {
	for _, name := range r.order {
		if set := r.now.Children.Set(Set(name)); set != nil && set.Ended() < set.Added {
			r.out.Stop = append(r.out.Stop, Stopped{Set(name), 0, set.Added})
			r.out.Waits = append(r.out.Waits, task.ChildrenWait{Name: Set(name)})
		}
	}
	if len(r.out.Waits) > 0 {
		return nil
	}
	if waits, err := r.undo(); waits || err != nil {
		return err
	}
	if string(r.state.Encode()) != before {
		return nil // once more, so that the state is stored that it fails with
	}
	r.out.End, r.out.Error = task.Failed, r.state.Failure.text(r)
	return nil
}

// undo goes on with the compensation, and reports whether the workflow waits for that.
func (r *run) undo() (waits bool, err error) {
	if !r.state.Failure.Undo {
		return false, nil
	}
	var all []string
	for _, name := range r.order {
		if s := r.state.Steps[name]; r.Steps[name].Compensate != nil && s.ended(r.now.Children.Set(Set(name))).Done > 0 {
			all = append(all, name)
		}
	}
	slices.SortFunc(all, func(a, b string) int { return r.state.Steps[b].Order - r.state.Steps[a].Order })
	for _, name := range all {
		s := r.state.Steps[name]
		if s.Undo == nil {
			s.Undo = &StepState{Phase: Running, Began: r.now.At}
			requests, err := r.undoRequests(name)
			var unread *readError
			switch {
			case errors.As(err, &unread):
				return false, err
			case err != nil:
				s.Undo.Phase, s.Undo.Ended, s.Undo.Error = Failed, r.now.At, err.Error()
				continue
			}
			r.add(UndoSet(name), s.Undo, requests)
		}
		if s.Undo.Phase == Running {
			r.out.Waits = append(r.out.Waits, task.ChildrenWait{Name: UndoSet(name)})
			return true, nil
		}
	}
	return false, nil
}

// readError is the error of a child that cannot be read at present.
type readError struct{ error }

func (e *readError) Unwrap() error { return e.error }

// undoRequests returns the tasks that undo the tasks of a step that are done. Unless all are, it looks at each.
func (r *run) undoRequests(name string) (all []task.Request, err error) {
	s, def := r.state.Steps[name], r.Steps[name]
	t := s.ended(r.now.Children.Set(Set(name)))
	for i := range t.Count {
		own := func() (any, error) {
			v, err := parseValue(s.Result)
			if err == nil && def.fansOut() {
				v, err = partOf(v, strconv.Itoa(int(i)))
			}
			return v, err
		}
		if t.Done < t.Count || s.Done < t.Done {
			child, err := r.now.Read.Child(Set(name), t.From+i)
			switch {
			case errors.Is(err, task.ErrNotFound):
				return nil, fmt.Errorf("task %d (%v): %w", i, r.now.Read.ID(Set(name), t.From+i), ErrGone)
			case err != nil:
				return nil, &readError{err}
			case child.State != task.Done:
				continue
			}
			own = func() (any, error) {
				v, err := valueOf(child.Result)
				if err != nil {
					return nil, err
				}
				return parseValue(v)
			}
		}
		item, err := r.item(name, int(i))
		if err != nil {
			return nil, err
		}
		find := r.find(name, item, int(i))
		one, err := r.request(def.Compensate, r.values[name].undo, func(kind, of string) (any, error) {
			switch {
			case of != name:
			case kind == refResult:
				return own()
			case kind == refTask:
				return r.now.Read.ID(Set(name), t.From+i).String(), nil
			}
			return find(kind, of)
		})
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}
