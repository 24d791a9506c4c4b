package jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/taskengine/taskengine/bulk"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/filter"
	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/task"
)

const (
	planSize = 1000 // tasks of a plan at most
	pageSize = 5000 // tasks that are looked for at once at most
	maxTries = 10   // how often a task is tried that changes meanwhile

	groupsPerSecond = 200 // groups of tasks that a job with a rate changes
	leastAtOnce     = 10  // tasks of a group at least
	paced           = 0.7 // the part of the time of a plan in which its tasks are changed; in the rest the next ones are found
)

// run is one run of a job. The goroutine of the handler owns it.
type run struct {
	Config

	engine *engine.Engine
	job    bulk.Job
	where  filter.Filter
	action engine.Action
	state  bulk.State

	resumed bool        // the plan is one of an earlier run
	last    *bulk.State // how far the run is if it ends here; nil before its first plan

	page  []*task.Task           // found, and in no plan: below the cursor
	below task.ID                // where to look when page is empty; zero at the end
	more  bool                   // there may be tasks at below
	rows  map[task.ID]*task.Task // of the tasks of the plan, as far as they were read
	tries map[task.ID]int        // of the tasks of the plan that have changed meanwhile
	next  time.Time              // when the next plan may be carried out, by the rate
}

// newRun returns a run of the job t. An earlier one may have left a state that the checkpoint does not have.
func newRun(c Config, e *engine.Engine, t *task.Task, left *leftovers) (*run, error) {
	j, err := bulk.Decode(t.Payload)
	if err != nil {
		return nil, err
	}
	r := &run{Config: c, engine: e, job: j, rows: make(map[task.ID]*task.Task)}
	if r.state, err = bulk.DecodeState(t.Checkpoint()); err != nil {
		return nil, err
	}
	r.state = left.since(t.ID, r.state)
	if !r.state.Ended.IsZero() { // it has no filter any more, see forget
		return r, nil
	}
	if r.where, err = j.Filter(); err != nil {
		return nil, err
	}
	if r.action, err = ActionOf(&j); err != nil {
		return nil, err
	}
	r.below, r.more = r.state.Cursor, !r.state.AtEnd
	return r, nil
}

// do carries the job out until it ends, or an order stands against it.
func (r *run) do(ctx context.Context) error {
	if r.state.Begun.IsZero() {
		r.state.Begun = task.Stamp(r.engine.Now())
	}
	if len(r.state.Plan) > 0 {
		if err := r.settle(ctx); err != nil {
			return err
		}
	}
	var again bulk.Plan
	for !r.job.Paused && !r.job.Stopped {
		r.report(ctx)
		if !r.resumed {
			if err := r.plan(ctx, again); err != nil {
				return err
			}
		}
		if len(r.state.Plan) == 0 {
			break
		}
		r.state.PlanAt = task.Stamp(r.engine.Now())
		if err := r.save(ctx); err != nil {
			return err
		}
		var err error
		again, err = r.carryOut(ctx)
		last := r.state
		last.Plan = again
		if r.last = &last; err != nil {
			return err
		}
		r.state.Plan, r.resumed = nil, false
	}
	if !r.job.Paused || r.job.Stopped {
		r.state.Plan, r.state.Stopped, r.state.Ended = nil, r.job.Stopped, task.Stamp(r.engine.Now())
		if r.job.Verb == bulk.Undo && !r.job.Stopped { // those of which the state says that they have changed since
			r.state.Skipped += max(0, r.job.OfChanged-r.state.Done())
		}
	}
	r.report(ctx)
	return nil
}

func (r *run) report(ctx context.Context) {
	task.ReportProgress(ctx, uint64(r.state.Done()), uint64(max(r.job.Total, r.state.Done())), "")
}

// save stores the state. It fails if the run does not count any more.
func (r *run) save(ctx context.Context) error {
	data, err := r.state.Encode()
	if err != nil {
		return err
	}
	return task.SaveCheckpoint(ctx, data)
}

// settle looks at the plan of an earlier run that has not come to its end. It counts the tasks that have changed since, and keeps the
// others. The earlier run may still have changes under way.
func (r *run) settle(ctx context.Context) error {
	r.resumed = true
	var left bulk.Plan
	for _, ref := range r.state.Plan {
		t, err := r.get(ctx, ref.ID)
		switch {
		case err != nil:
			return err
		case t != nil && t.Version == ref.Version:
			left = append(left, ref)
		default:
			if next := r.decide(ctx, t, ref); next != nil {
				left = append(left, *next)
			}
		}
	}
	r.state.Plan, r.resumed = left, len(left) > 0
	return nil
}

// get returns a task, nil if there is none.
func (r *run) get(ctx context.Context, id task.ID) (*task.Task, error) {
	t, err := r.engine.Get(ctx, id)
	switch {
	case errors.Is(err, task.ErrNotFound):
		return nil, nil
	case err != nil && !errors.Is(err, engine.ErrUnreadable):
		return nil, fmt.Errorf("read task %v: %w", id, err)
	}
	return t, nil
}

// isOwn reports whether the job has changed a task: its history says so. An entry from long before the order is of another job, which had the same name.
func (r *run) isOwn(t *task.Task) bool {
	return t != nil && slices.ContainsFunc(t.History, func(a task.Attempt) bool {
		return a.Outcome.ByPeople() && a.Job == r.job.Name && a.EndedAt.After(r.job.Ordered.Add(-keep/2))
	})
}

// isKnown reports whether the history of a task, which has left a version, has all of the changes since then. Each has two entries at most: the end of an
// attempt, and the change by a person that has ended it. An erased task keeps its receipt.
func (r *run) isKnown(t *task.Task, since uint64) bool {
	switch {
	case r.job.Verb == bulk.Erase, r.job.Verb == bulk.Delete && t != nil:
		return true
	case t == nil || t.Tombstone:
		return false
	}
	return len(t.History) < task.MaxHistory || 2*(t.Version-since) <= task.MaxHistory
}

// size returns how many tasks a plan may have, and how many are looked for at once.
func (r *run) size() (plan, page int) {
	if r.job.Rate == 0 {
		return planSize, pageSize
	}
	plan = min(max(int(r.job.Rate/2), 1), planSize)
	return plan, min(20*plan+80, pageSize)
}

// plan makes the next plan, of tasks that have changed under the last one, and of those below the cursor. It waits for the rate.
func (r *run) plan(ctx context.Context, again bulk.Plan) error {
	most, page := r.size()
	r.state.Plan = again
	for len(r.state.Plan) < most {
		if len(r.page) == 0 {
			if !r.more {
				r.state.AtEnd = true
				break
			}
			if err := r.look(ctx, page); err != nil {
				return err
			}
			continue
		}
		t := r.page[0]
		r.page = r.page[1:]
		r.state.Cursor = t.ID
		r.state.Plan = append(r.state.Plan, t.Ref())
		r.rows[t.ID] = t
	}
	if n := len(r.state.Plan); n > 0 && r.job.Rate > 0 {
		if err := wakeup.Sleep(ctx, time.Until(r.next)); err != nil {
			return err
		}
		if now := time.Now(); r.next.Before(now) {
			r.next = now
		}
		r.next = r.next.Add(time.Duration(float64(n) / r.job.Rate * float64(time.Second)))
	}
	return nil
}

// look finds tasks below the cursor.
func (r *run) look(ctx context.Context, limit int) error {
	found, err := r.engine.Search(ctx, r.where, r.below, limit)
	if err != nil {
		return fmt.Errorf("find the tasks: %w", err)
	}
	r.state.Read += int64(found.Read)
	for _, t := range found.Tasks {
		if r.job.Selects(t) {
			r.page = append(r.page, t)
		}
	}
	r.below, r.more = found.Next, !found.Next.IsZero()
	return context.Cause(ctx)
}

// change changes tasks. With a rate it changes a few at a time, spread over most of the time that the rate allows for all of them: tasks that run wait for no
// more than these few in the commits that they share.
func (r *run) change(ctx context.Context, targets []engine.Target) []engine.Outcome {
	if r.job.Rate == 0 {
		return r.engine.DoMany(ctx, r.state.PlanAt, r.action, targets)
	}
	outcomes, begin, few := make([]engine.Outcome, 0, len(targets)), time.Now(), max(leastAtOnce, int(r.job.Rate/groupsPerSecond))
	for some := range slices.Chunk(targets, few) {
		after := time.Duration(paced * float64(len(outcomes)) / r.job.Rate * float64(time.Second))
		_ = wakeup.Sleep(ctx, time.Until(begin.Add(after))) // DoMany changes nothing when ctx has ended
		outcomes = append(outcomes, r.engine.DoMany(ctx, r.state.PlanAt, r.action, some)...)
	}
	return outcomes
}

// carryOut changes the tasks of the plan. It returns those that have changed meanwhile and are to be tried again and, with an error, those of
// which the outcome is open.
func (r *run) carryOut(ctx context.Context) (again bulk.Plan, err error) {
	targets := make([]engine.Target, len(r.state.Plan))
	for i, ref := range r.state.Plan {
		targets[i] = engine.Target{Ref: ref, Row: r.rows[ref.ID]}
	}
	outcomes := r.change(ctx, targets)
	clear(r.rows)
	tries := make(map[task.ID]int)
	open := func(ref task.Ref, reason error) {
		again = append(again, ref)
		if err == nil {
			err = reason
		}
	}
	for i := range outcomes {
		switch one, ref := &outcomes[i], targets[i].Ref; {
		case one.Err == nil:
			r.state.Changed++
			if r.Changed != nil && !slices.Contains([]bulk.Verb{bulk.Set, bulk.Delete, bulk.Erase, bulk.Undo}, r.job.Verb) {
				r.Changed(one.Row)
			}
		case errors.Is(one.Err, engine.ErrNotAllowed), errors.Is(one.Err, engine.ErrInvalid):
			r.refuse(ctx, ref.ID, one.Err)
		case errors.Is(one.Err, engine.ErrStale), errors.Is(one.Err, task.ErrNotFound):
			next, err := r.changed(ctx, ref)
			switch {
			case err != nil:
				open(ref, err)
			case next != nil:
				tries[ref.ID] = r.tries[ref.ID] + 1
				again = append(again, *next)
			}
		default:
			open(ref, fmt.Errorf("%s task %v: %w", r.job.Verb, ref.ID, one.Err))
		}
	}
	r.tries = tries
	return again, err
}

func (r *run) refuse(ctx context.Context, id task.ID, reason error) {
	r.state.Refuse(id, reason.Error())
	task.Logger(ctx).Warn("a task was refused", "task_id", id, "reason", reason.Error())
}

// changed decides about a task that has left the version of the plan.
func (r *run) changed(ctx context.Context, ref task.Ref) (again *task.Ref, err error) {
	t, err := r.get(ctx, ref.ID)
	if err != nil {
		return nil, err
	}
	return r.decide(ctx, t, ref), nil
}

// decide counts a task that has left the version of the plan, or returns it as it is to be tried again. A task of the plan of an earlier
// run is tried again only if that has not changed it for sure: it cannot do so any more.
func (r *run) decide(ctx context.Context, t *task.Task, ref task.Ref) (again *task.Ref) {
	switch {
	case r.isOwn(t), r.resumed && t == nil && r.job.Verb == bulk.Delete:
		r.state.Changed++
	case r.resumed && !r.isKnown(t, ref.Version):
		r.state.Unclear++
	case t == nil || !r.where.Selects(t) || !r.job.Selects(t):
		r.state.Skipped++
	case r.tries[ref.ID]+1 >= maxTries:
		r.refuse(ctx, ref.ID, fmt.Errorf("%w, %d times in a row", engine.ErrStale, maxTries))
	default:
		return new(t.Ref())
	}
	return nil
}
