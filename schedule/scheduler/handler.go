// Package scheduler runs the schedules of package schedule on an engine, and passes them the orders of users.
package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/schedule"
	"github.com/taskengine/taskengine/task"
)

// TypePolicy returns the policy of [schedule.Type]: a schedule that cannot run is tried again until it can, and it is kept when it has
// been cancelled, because its id is made of its name and must not be given to another task.
func TypePolicy() policy.Type {
	p := policy.DefaultType()
	p.Priority, p.Slotless = task.HighestPriority, true
	p.MaxCrashes = 0
	p.Retry = policy.Retry{Max: policy.Forever, Backoff: policy.Backoff{Kind: policy.Exponential, Initial: time.Second, Factor: 2, Max: time.Minute}}
	p.Retention = policy.Retention{Done: policy.Forever, Failed: policy.Forever, Cancelled: policy.Forever}
	return p
}

// Handler is the handler of [schedule.Type]. Every engine with a store that may have schedules needs
// it. It fires no schedule of workflows by name: see [HandlerOf].
var Handler = HandlerOf(nil)

// HandlerOf returns the handler of [schedule.Type] on a node that has workflows.
func HandlerOf(workflows Workflows) task.HandlerFunc {
	return func(ctx context.Context, t *task.Task) ([]byte, error) { return nil, handle(ctx, t, workflows) }
}

// handle runs a schedule.
func handle(ctx context.Context, t *task.Task, workflows Workflows) error {
	e, ok := engine.FromContext(ctx)
	if !ok {
		return errors.New("a schedule must be run by an engine")
	}
	r, s, err := schedule.Decode(t.Payload, t.Checkpoint())
	if err != nil { // another node may have a newer program, which has written it
		return err
	}
	if p, ok := peersOf(e); ok {
		p.workflows = workflows
		return p.run(ctx, t, r, s)
	}
	s.Copy = nil // it shares the schedule with no node any more
	if t.Attempt > 1 || hadNoRoom(t) {
		s = s.DeletedFirst()
	}
	if s.Running, err = running(ctx, e, s.Running, &r.Definition); err != nil {
		return fmt.Errorf("schedule %s: look at its tasks: %w", r.Name, err)
	}
	d, err := schedule.Decide(t.ID, r, s, t.CreatedAt, e.Now())
	if err != nil {
		return err
	}
	requests, err := workflows.requests(d)
	if err != nil {
		return err
	}
	if err := cancel(ctx, e, d.Cancels, "the schedule "+r.Name+" has fired again"); err != nil {
		return fmt.Errorf("schedule %s: %w", r.Name, err)
	}
	return rearmed(d, requests)
}

// requests returns the tasks of a run.
func (w Workflows) requests(d *schedule.Run) ([]task.Request, error) {
	requests := make([]task.Request, len(d.Fires))
	for i, f := range d.Fires {
		requests[i] = d.Request(f)
	}
	requests, err := w.complete(&d.Schedule.Definition.Task, requests)
	if err != nil {
		return nil, fmt.Errorf("schedule %s: %w", d.Schedule.Name, err)
	}
	return requests, nil
}

// cancel cancels the tasks of fires, with all that is below them. After an error it can be called again.
func cancel(ctx context.Context, e *engine.Engine, fires []schedule.Fire, reason string) error {
	for _, f := range fires {
		_, err := e.CancelTree(ctx, f.Task, engine.TreeCancel{Reason: reason})
		if err != nil && !errors.Is(err, engine.ErrNotAllowed) && !errors.Is(err, task.ErrNotFound) {
			return fmt.Errorf("cancel the task of %v: %w", f.Time, err)
		}
	}
	return nil
}

// hadNoRoom reports whether the last run found the backlog full, for a type that pauses its sources: such a run is no attempt.
func hadNoRoom(t *task.Task) bool {
	last := len(t.History) - 1
	return last >= 0 && t.History[last].Outcome == task.Snoozed
}

// running returns the fires with tasks that have not ended. If d cancels those, they include a task that was cancelled though others below
// it have not ended: an attempt that has cancelled some of them goes on with the rest.
func running(ctx context.Context, e *engine.Engine, fires []schedule.Fire, d *schedule.Definition) (live []schedule.Fire, err error) {
	for _, f := range fires {
		t, err := e.Get(ctx, f.Task)
		switch {
		case errors.Is(err, task.ErrNotFound): // it has ended, and was removed
		case err != nil && !errors.Is(err, engine.ErrUnreadable):
			return nil, err
		case t.State.Live(), d.Overlap == schedule.CancelOld && t.State == task.Cancelled && hasLiveChildren(t):
			live = append(live, f)
		}
	}
	return live, nil
}

func hasLiveChildren(t *task.Task) bool {
	return t.Children != nil && slices.ContainsFunc(t.Children.Sets, func(s task.ChildSet) bool { return s.Ended() < s.Added })
}

// never is when a schedule runs again that has no time left: an order of a person makes it run earlier.
var never = time.Date(9999, time.December, 31, 0, 0, 0, 0, time.UTC)

// rearmed returns the result of the handler: when the schedule runs again, its state and its new tasks.
func rearmed(d *schedule.Run, requests []task.Request) error {
	at := d.Next
	if at.IsZero() {
		at = never
	}
	options := []task.AgainOption{task.WithCheckpoint(d.State.Encode()), task.WithTasks(requests...)}
	if d.Redefined {
		options = append(options, task.WithPayload(d.Schedule.Encode()))
	}
	return task.Again(at, options...)
}
