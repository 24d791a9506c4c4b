package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/taskengine/taskengine/engine/internal/shell"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// Action is a change that a person asks for, see [Engine.Do] and [Engine.DoMany].
type Action struct {
	verb string
	fill func(t *task.Task, c *task.Change) bool // completes a change, or returns false if the state of the task does not allow it

	set   func(e *Engine, t *task.Task, c *task.Change) error // completes it then, or says why the task cannot have that; may be nil
	whole bool                                                // set needs the payload of the task

	removes bool // the row is removed, and nothing else is done

	job, by string // the bulk job that makes the change, and who has ordered that; "" if none does
}

// ByJob returns a as a bulk job makes it, which a person has ordered: the history of each task says so.
func (a Action) ByJob(job, by string) Action {
	a.job, a.by = job, by
	return a
}

// mark completes a change of a task by a bulk job.
func (a *Action) mark(t *task.Task, c *task.Change) {
	switch {
	case a.job == "" || c.Erase != nil: // an erasure has a receipt
		return
	case c.Mark == nil:
		c.Mark = &task.Mark{Was: stateWas(t, c)}
	}
	c.Mark.Job, c.Mark.By = a.job, a.by
}

// stateWas words what a change replaces that gives a task another state or time.
func stateWas(t *task.Task, c *task.Change) string {
	was := "state was " + t.State.String()
	if t.State == task.Waiting && !t.NextEventAt.IsZero() {
		was += ", time was " + t.NextEventAt.Format(time.RFC3339)
	}
	if c.Error != "" && t.LastError != "" {
		was += ", error was " + t.LastError
	}
	return was
}

// Cancelling returns what [Engine.Cancel] does.
func Cancelling(reason string) Action {
	return Action{verb: "cancel", fill: func(_ *task.Task, c *task.Change) bool {
		c.To, c.Outcome, c.Error = task.Cancelled, task.Overruled, reason
		return true
	}}
}

// Failing returns what [Engine.Fail] does.
func Failing(reason string) Action {
	return Action{verb: "fail", fill: func(_ *task.Task, c *task.Change) bool {
		c.To, c.Outcome, c.Error = task.Failed, task.Overruled, reason
		return true
	}}
}

// Resuming returns what [Engine.Resume] does.
func Resuming() Action {
	return Action{verb: "resume", fill: func(t *task.Task, c *task.Change) bool {
		c.To = task.Submitted
		if t.State != task.Waiting {
			c.Count = task.Reset
		} else if t.Turn == task.Behind && t.ReadyAt.After(c.At) {
			c.ReadyAt = c.At // the seat of a task that is ready now
		}
		return t.State != task.Processing
	}}
}

// Rescheduling returns what [Engine.Reschedule] does.
func Rescheduling(at time.Time) (Action, error) {
	if at.IsZero() || outOfRange(at) {
		return Action{}, fmt.Errorf("%w: times must lie between the years 1970 and 9999", ErrInvalid)
	}
	return Action{verb: "reschedule", fill: func(t *task.Task, c *task.Change) bool {
		c.To, c.NextEventAt, c.ReadyAt = task.Waiting, at, at
		if t.State == task.Error {
			c.Count = task.Reset
		}
		return t.State != task.Processing
	}}, nil
}

// Do makes a change of one task.
func (e *Engine) Do(ctx context.Context, ref task.Ref, a Action) (*task.Task, error) {
	return e.do(ctx, ref, nil, a)
}

// do is Do of a task that was read already; nil if it was not.
func (e *Engine) do(ctx context.Context, ref task.Ref, read *task.Task, a Action) (*task.Task, error) {
	if a.removes {
		return e.remove(ctx, ref)
	}
	var invalid error
	after, err := e.editRead(ctx, ref, read, a.verb, func(t *task.Task, c *task.Change) bool {
		if invalid = nil; !a.fill(t, c) {
			return false
		}
		if a.set != nil {
			invalid = a.set(e, t, c)
		}
		a.mark(t, c)
		return invalid == nil
	})
	if invalid != nil {
		return nil, unfit(invalid)
	}
	return after, err
}

// unfit returns the error of a task that cannot have a change, for a reason.
func unfit(reason error) error {
	if errors.Is(reason, ErrNotAllowed) {
		return reason
	}
	return fmt.Errorf("%w: %w", ErrInvalid, reason)
}

// allowed reports whether the state of a task allows a change.
func allowed(t *task.Task, c *task.Change) bool {
	switch {
	case t.Erased() != nil:
		return false
	case c.Erase != nil:
		return t.State.CanBeErased()
	}
	return t.State.CanBecome(c.To) || c.Restore != nil || c.Put != nil && c.To == task.Error && t.State == task.Error
}

// Deleting returns the removal of tasks that are done, have failed or were cancelled, before their retention is over. Their keys are free then.
func Deleting() Action { return Action{verb: "delete", removes: true} }

// removable returns why a task cannot be deleted, or nil.
func removable(t *task.Task) error {
	switch t.State {
	case task.Done, task.Failed, task.Cancelled:
		return nil
	case task.Error:
		return fmt.Errorf("%w: cannot delete a task that is error: cancel it before", ErrNotAllowed)
	}
	return fmt.Errorf("%w: cannot delete a task that is %s", ErrNotAllowed, t.State)
}

// remove deletes a task. It returns the task as it was, without its contents.
func (e *Engine) remove(ctx context.Context, ref task.Ref) (*task.Task, error) {
	for range editTries {
		t, err := e.store.Get(ctx, ref.ID)
		switch {
		case err != nil:
			return nil, fmt.Errorf("engine: delete %v: %w", ref.ID, err)
		case ref.Version != 0 && ref.Version != t.Version:
			return e.shown(t), fmt.Errorf("%w: it is at version %d, not %d", ErrStale, t.Version, ref.Version)
		}
		if err := removable(t); err != nil {
			return e.shown(t), err
		}
		gone, err := e.store.Delete(ctx, t.Ref())
		switch {
		case err != nil:
			return nil, fmt.Errorf("engine: delete %v: %w", ref.ID, err)
		case gone[0]:
			t.Payload, t.Result, t.Notes = nil, nil, nil
			return t, nil
		}
	}
	return nil, fmt.Errorf("%w, %d times in a row", ErrStale, editTries)
}

// removeSome deletes some tasks at once.
func (e *Engine) removeSome(ctx context.Context, targets []Target, out []Outcome) {
	e.readTargets(ctx, targets, false, out)
	var refs []task.Ref
	var at []int
	for i := range targets {
		if out[i].Err == nil {
			out[i].Err = removable(out[i].Row)
		}
		if out[i].Err == nil {
			refs, at = append(refs, targets[i].Ref), append(at, i)
		}
	}
	if len(refs) == 0 {
		return
	}
	gone, err := e.store.Delete(ctx, refs...)
	for j, i := range at {
		switch {
		case err != nil:
			out[i].Err = fmt.Errorf("delete task %v: %w", refs[j].ID, err)
		case !gone[j]:
			out[i] = Outcome{Err: fmt.Errorf("%w: it is no longer at version %d", ErrStale, refs[j].Version)}
		}
	}
}

// Target is a task that [Engine.DoMany] changes, at one version.
type Target struct {
	task.Ref
	Row *task.Task // as a list of the engine has it; nil if DoMany is to read it
}

// Outcome is what has become of a [Target].
type Outcome struct {
	// Err is nil if the change was made. It wraps [ErrStale] if the task is at another version, [task.ErrNotFound] if it does
	// not exist, [ErrNotAllowed] if its state does not allow the change, and [ErrInvalid] if it cannot have that. After any other error it is unknown whether the change was made.
	Err error

	// Row is the task after the change or, if it was read and the change was not made, before it; otherwise nil.
	Row *task.Task
}

const (
	manyReads = 16 // how many rows DoMany reads at the same time

	// manyAtOnce is how many changes of DoMany are in a group. They share commits with the changes of running tasks, which wait for them.
	manyAtOnce = 250

	// groupsAtOnce is how many groups DoMany has under way in a store outside of this process, where one is prepared while another is written.
	groupsAtOnce = 2
)

// DoMany makes a change of many tasks, at a time that becomes their UpdatedAt. It returns an outcome for each of them. Each is a change
// of its own: some may be made though others are not, in any order. DoMany does not wait for the end of ctx: it completes what it has begun.
func (e *Engine) DoMany(ctx context.Context, at time.Time, a Action, targets []Target) []Outcome {
	out := make([]Outcome, len(targets))
	groups := groupsAtOnce
	if slices.ContainsFunc(e.lanes, func(l *lane) bool { return l.isLocal }) {
		groups = 1
	}
	var all sync.WaitGroup
	places := make(chan struct{}, groups)
	for from := 0; from < len(targets); from += manyAtOnce {
		places <- struct{}{}
		if ctx.Err() != nil {
			for i := range out[from:] {
				out[from+i].Err = context.Cause(ctx)
			}
			break
		}
		to := min(from+manyAtOnce, len(targets))
		all.Go(func() {
			defer func() { <-places }()
			e.doGroup(context.WithoutCancel(ctx), at, a, targets[from:to], out[from:to])
		})
	}
	all.Wait()
	return out
}

// doGroup makes a change of some tasks at once.
func (e *Engine) doGroup(ctx context.Context, at time.Time, a Action, targets []Target, out []Outcome) {
	if a.removes {
		e.removeSome(ctx, targets, out)
	} else {
		e.doSome(ctx, at, a, targets, out)
	}
}

// doSome makes a change of some tasks that stay.
func (e *Engine) doSome(ctx context.Context, at time.Time, a Action, targets []Target, out []Outcome) {
	edits := make([]*shell.Edit, len(targets))
	types := make([]string, len(targets))
	e.readTargets(ctx, targets, a.whole, out)
	for i := range targets {
		if out[i].Err != nil {
			continue
		}
		t := out[i].Row
		c := task.Change{Ref: t.Ref(), At: at, OrderingKey: t.OrderingKey}
		if !a.fill(t, &c) || !allowed(t, &c) {
			out[i].Err = disallowed(t, a.verb)
			continue
		}
		if a.set != nil {
			if err := a.set(e, t, &c); err != nil {
				out[i].Err = unfit(err)
				continue
			}
		}
		a.mark(t, &c)
		e.contents.reencode(t).Add(&c, false)
		edits[i] = editOf(t, c)
		types[i] = t.Type
	}
	e.tell(func(s *state, _ time.Time) {
		err := e.inbox.accepting()
		for i, ed := range edits {
			switch {
			case ed == nil:
			case err != nil:
				out[i].Err, edits[i] = err, nil
			default:
				s.Edit(types[i], ed)
			}
		}
	})
	for i, ed := range edits {
		if ed == nil {
			continue
		}
		switch err := <-ed.Done; {
		case err != nil:
			out[i].Err = err
		case ed.After == nil:
			out[i] = Outcome{Err: fmt.Errorf("%w: it is no longer at version %d", ErrStale, ed.Read)}
		default:
			out[i].Row = ed.After
		}
	}
}

// readTargets makes the rows of targets those of their outcomes, and reads the missing ones, or all of them with their contents.
func (e *Engine) readTargets(ctx context.Context, targets []Target, whole bool, out []Outcome) {
	var missing []int
	for i := range targets {
		if out[i].Row = targets[i].Row; out[i].Row == nil || whole {
			missing = append(missing, i)
		}
	}
	if many, ok := e.store.(storage.Getter); ok {
		readTogether(ctx, many, targets, missing, out)
	} else {
		e.readEach(ctx, targets, missing, out)
	}
	for i := range targets {
		switch t := out[i].Row; {
		case out[i].Err != nil && !errors.Is(out[i].Err, task.ErrNotFound):
			out[i].Err = fmt.Errorf("read task %v: %w", targets[i].ID, out[i].Err)
		case out[i].Err == nil && t.Version != targets[i].Version:
			out[i].Err = fmt.Errorf("%w: it is at version %d, not %d", ErrStale, t.Version, targets[i].Version)
		}
	}
}

// readEach reads the rows of some targets, several at the same time.
func (e *Engine) readEach(ctx context.Context, targets []Target, some []int, out []Outcome) {
	var reading sync.WaitGroup
	places := make(chan struct{}, manyReads)
	for _, i := range some {
		places <- struct{}{}
		reading.Go(func() {
			out[i].Row, out[i].Err = e.store.Get(ctx, targets[i].ID)
			<-places
		})
	}
	reading.Wait()
}

// readTogether reads the rows of some targets at once.
func readTogether(ctx context.Context, store storage.Getter, targets []Target, some []int, out []Outcome) {
	if len(some) == 0 {
		return
	}
	ids := make([]task.ID, len(some))
	for j, i := range some {
		ids[j] = targets[i].ID
	}
	rows, err := store.GetAll(ctx, ids...)
	found := make(map[task.ID]*task.Task, len(rows))
	for _, t := range rows {
		found[t.ID] = t
	}
	for _, i := range some {
		switch t := found[targets[i].ID]; {
		case err != nil:
			out[i] = Outcome{Err: err}
		case t == nil:
			out[i] = Outcome{Err: task.ErrNotFound}
		default:
			out[i].Row = t
		}
	}
}
