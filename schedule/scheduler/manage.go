package scheduler

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/internal/reserved"
	"github.com/taskengine/taskengine/schedule"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// Errors that callers match with [errors.Is].
var (
	// ErrUnknown says that there is no schedule with the name.
	ErrUnknown = errors.New("there is no schedule with this name")
	// ErrInvalid says that a definition or a time cannot be.
	ErrInvalid = errors.New("invalid schedule")
	// ErrEnded says that the task of a schedule was cancelled or failed by hand. Apply revives it. It wraps
	// [engine.ErrNotAllowed].
	ErrEnded = fmt.Errorf("%w: the task of the schedule was ended by hand; resume it, or apply the schedule again", engine.ErrNotAllowed)
	// ErrUnreadable says that a schedule cannot be read at present, for example because this node lacks the key that it is
	// encrypted with.
	ErrUnreadable = errors.New("the schedule cannot be read")
	// ErrTaken says that a task that is no schedule has the id of the schedule.
	ErrTaken = errors.New("a task that is no schedule has the id of this one")
	// ErrBusy says that a schedule did not stand still for long enough to be changed.
	ErrBusy = errors.New("the schedule is running")
)

// Schedules are the schedules of an engine. It is safe for concurrent use.
type Schedules struct{ engine *engine.Engine }

// Of returns the schedules that an engine runs. The engine must have the [Handler] and the [TypePolicy].
func Of(e *engine.Engine) Schedules { return Schedules{e} }

// Schedule is a schedule as it is stored.
type Schedule struct {
	Name       string
	Definition schedule.Definition // as it is when its Orders are carried out
	State      schedule.State      // likewise
	Next       time.Time           // when it runs next, which is usually its next fire; zero is never
	Task       *task.Task          // without payload and checkpoint
	Holder     string              // name of the node that fires, if nodes with stores of their own share the schedule; "": none has yet
	Problem    error               // why it cannot be read, wraps ErrUnreadable; then only Name and Task are known

	stored schedule.State
	kept   kept // where the nodes coordinate
}

// IDOf returns the id of the task that is the schedule with a name. It begins with six zero bytes, so that all schedules are
// together in the order of ids.
func IDOf(name string) task.ID { return task.ReservedID(schedule.Type, name) }

// requestOf returns the request of the task that is a schedule.
func requestOf(n schedule.Named) engine.Request {
	return engine.Request{ID: IDOf(n.Name), Type: schedule.Type, Headers: map[string]string{schedule.HeaderName: n.Name}, Payload: n.Encode()}
}

// nameOf returns the name of the schedule of a row, which is without its payload: a header can be read though the definition
// cannot. It is the id of the task if the name is not known.
func nameOf(t *task.Task) string { return cmp.Or(t.Headers[schedule.HeaderName], t.ID.String()) }

// afterSchedules is an id above the ids of all schedules.
var afterSchedules = task.ID{5: 1}

// Outcome is the effect of an Apply.
type Outcome uint8

// The outcomes of Apply.
const (
	Unchanged Outcome = iota
	Created
	Updated
)

// String returns the name of the outcome.
func (o Outcome) String() string {
	return [...]string{Unchanged: "unchanged", Created: "created", Updated: "updated"}[o]
}

// Apply creates schedule name with definition d, or changes it. A new definition fires for times after now: the old one
// decides about the times before. Apply revives a deleted schedule. It does not end a pause. It also revives a schedule
// after its task was ended by hand: the schedule itself was not deleted, so it catches up with the times it missed.
func (s Schedules) Apply(ctx context.Context, name string, d schedule.Definition) (Outcome, error) {
	if _, err := d.Calendar(name); err != nil {
		return Unchanged, fmt.Errorf("%w: %s: %w", ErrInvalid, name, err)
	}
	receipt, err := s.engine.SubmitReserved(ctx, reserved.Owner{}, requestOf(schedule.Named{Name: name, Definition: d}))
	if err != nil {
		return Unchanged, fmt.Errorf("apply schedule %s: %w", name, err)
	}
	_, hasPeers := peersOf(s.engine)
	if receipt.Created && !hasPeers {
		return Created, nil
	}
	revived, err := s.revive(ctx, name)
	if err != nil {
		return Unchanged, err
	}
	outcome := Updated
	if receipt.Created { // in this store: the peers may have it
		outcome = Created
	}
	err = s.change(ctx, name, "apply", func(now time.Time, at *Schedule) *schedule.Order {
		if hasPeers && at.kept.Shared == nil { // it is not shared yet
			return &schedule.Order{Define: &d}
		}
		if !at.State.Deleted && at.Task.State.Live() && bytes.Equal(schedule.Named{Definition: at.Definition}.Encode(), schedule.Named{Definition: d}.Encode()) {
			if !revived && !receipt.Created {
				outcome = Unchanged
			}
			return nil
		}
		return &schedule.Order{Define: &d}
	})
	return outcome, err
}

// busyPatience is how long ApplyLater waits for a schedule that runs: on a node that has died, it runs until the others know.
const busyPatience = 2 * time.Minute

// ApplyLater is Apply for a program that starts. While the schedule runs, it waits, for two minutes at most.
func (s Schedules) ApplyLater(ctx context.Context, name string, d schedule.Definition) (Outcome, error) {
	for end := time.Now().Add(busyPatience); ; {
		outcome, err := s.Apply(ctx, name, d)
		if !errors.Is(err, ErrBusy) || time.Now().After(end) {
			return outcome, err
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return outcome, fmt.Errorf("apply schedule %s: %w", name, context.Cause(ctx))
		}
	}
}

// revive has the task of a schedule run again if it was ended by hand, and reports whether it was.
func (s Schedules) revive(ctx context.Context, name string) (revived bool, err error) {
	at, err := s.get(ctx, name)
	if err != nil || !endedByHand(at.Task) {
		return false, err
	}
	_, err = s.engine.Resume(ctx, at.Task.Ref())
	if err != nil && !errors.Is(err, engine.ErrStale) && !errors.Is(err, engine.ErrNotAllowed) {
		return false, fmt.Errorf("revive schedule %s: %w", name, err)
	}
	return true, nil
}

func endedByHand(t *task.Task) bool { return t.State == task.Cancelled || t.State == task.Failed }

// Get returns a schedule.
func (s Schedules) Get(ctx context.Context, name string) (*Schedule, error) {
	at, err := s.get(ctx, name)
	if err == nil && at.State.Deleted {
		err = fmt.Errorf("%w: %s", ErrUnknown, name)
	}
	if err != nil {
		return nil, err
	}
	return at, nil
}

// get is Get for deleted schedules, too.
func (s Schedules) get(ctx context.Context, name string) (*Schedule, error) {
	if err := schedule.CheckName(name); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	t, err := s.engine.Get(ctx, IDOf(name))
	switch {
	case errors.Is(err, task.ErrNotFound):
		return nil, fmt.Errorf("%w: %s", ErrUnknown, name)
	case err != nil && !errors.Is(err, engine.ErrUnreadable):
		return nil, fmt.Errorf("read schedule %s: %w", name, err)
	case t.Type != schedule.Type:
		return nil, fmt.Errorf("schedule %s: %w: the task %v of the type %s; remove that task, or give the schedule another name", name, ErrTaken, t.ID, t.Type)
	}
	one := scheduleOf(t, err)
	one.Name = name
	if p, ok := peersOf(s.engine); ok && one.Problem == nil {
		if one.kept, err = p.read(ctx, name); err != nil {
			return nil, err
		}
		one.share()
	}
	return one, nil
}

// scheduleOf returns the schedule of a task, as [engine.Engine.Get] has returned it with the error unread.
func scheduleOf(t *task.Task, unread error) *Schedule {
	var r schedule.Named
	var state schedule.State
	if unread == nil {
		r, state, unread = schedule.Decode(t.Payload, t.Checkpoint())
	}
	if unread != nil {
		t.Payload, t.Notes = nil, nil
		return &Schedule{Name: nameOf(t), Task: t, Problem: fmt.Errorf("%w: %w", ErrUnreadable, unread)}
	}
	s := &Schedule{Name: r.Name, Task: t}
	s.Definition, s.State = state.Foresee(r.Definition)
	if t.State.Live() && t.NextEventAt.Before(never) {
		s.Next = t.NextEventAt
	}
	s.stored = state
	t.Payload, t.Notes = nil, nil
	return s
}

// List returns at most limit schedules, in an order of their ids. They are those after the one with the id after; if it is
// zero, List starts with the first. next is the value of after for the next page, zero at the end. A page may be short, or
// empty, before the end. A schedule that cannot be read is listed with its Problem.
func (s Schedules) List(ctx context.Context, after task.ID, limit int) (all []*Schedule, next task.ID, err error) {
	rows, next, err := s.rows(ctx, after, limit)
	if err != nil {
		return nil, task.ID{}, err
	}
	var shared map[string]kept
	if p, ok := peersOf(s.engine); ok {
		if shared, err = p.all(ctx); err != nil {
			return nil, task.ID{}, err
		}
	}
	for _, row := range rows {
		t, err := s.engine.Get(ctx, row.ID)
		if errors.Is(err, task.ErrNotFound) {
			continue
		}
		if err != nil && !errors.Is(err, engine.ErrUnreadable) {
			return nil, task.ID{}, fmt.Errorf("list the schedules: %w", err)
		}
		one := scheduleOf(t, err)
		one.kept = shared[one.Name]
		one.share()
		if !one.State.Deleted {
			all = append(all, one)
		}
	}
	return all, next, nil
}

// Pause stops a schedule from firing until Resume. Times within the pause are left out. Tasks that were added before are
// not affected.
func (s Schedules) Pause(ctx context.Context, name, reason string) error {
	return s.change(ctx, name, "pause", func(now time.Time, at *Schedule) *schedule.Order {
		if at.State.Paused != nil {
			return nil
		}
		return &schedule.Order{Pause: &schedule.Pause{At: now, Reason: reason}}
	})
}

// Resume ends a pause.
func (s Schedules) Resume(ctx context.Context, name string) error {
	return s.change(ctx, name, "resume", func(_ time.Time, at *Schedule) *schedule.Order {
		if at.State.Paused == nil {
			return nil
		}
		return &schedule.Order{Resume: true}
	})
}

// Delete ends a schedule, also one that cannot be read. Tasks that it has added are not affected.
func (s Schedules) Delete(ctx context.Context, name string) error {
	return s.change(ctx, name, "delete", func(time.Time, *Schedule) *schedule.Order { return &schedule.Order{Delete: true} })
}

// Trigger orders a schedule to add a task now, even if it is paused, and regardless of Overlap. It returns the id of the
// task, which the schedule adds as soon as it runs.
func (s Schedules) Trigger(ctx context.Context, name string) (id task.ID, err error) {
	err = s.change(ctx, name, "trigger", func(now time.Time, at *Schedule) *schedule.Order {
		id = schedule.TriggeredID(at.Task.ID, now)
		return &schedule.Order{Trigger: true}
	})
	return id, err
}

// Backfill orders a schedule to add tasks for its times from b.From to b.To, both included, even if it has added tasks
// for them before, and regardless of Overlap.
func (s Schedules) Backfill(ctx context.Context, name string, b schedule.Backfill) error {
	if b.To.Before(b.From) || b.From.IsZero() || b.From.UnixMilli() < 1 || b.To.UTC().Year() > 9999 {
		return fmt.Errorf("%w: the times of a backfill are from the earlier to the later one, between the years 1970 and 9999", ErrInvalid)
	}
	return s.change(ctx, name, "backfill", func(time.Time, *Schedule) *schedule.Order { return &schedule.Order{Backfill: &b} })
}

const (
	maxOrders   = 100                   // that a schedule can have at a time
	spare       = 128 << 10             // bytes of a checkpoint reserved for the waiting times and tasks that a run adds to the state
	changeTries = 50                    // how often a change is tried
	changePause = 20 * time.Millisecond // between two tries: a run of a schedule is short
)

// change gives a schedule the order that give returns, at a time that no other order of it has, and has it run now. If give
// returns nil, there is nothing to do.
func (s Schedules) change(ctx context.Context, name, verb string, give func(now time.Time, at *Schedule) *schedule.Order) error {
	for range changeTries {
		at, err := s.get(ctx, name)
		if err != nil {
			return err
		}
		if err := s.changeOnce(ctx, at, verb, give); !errors.Is(err, errChanged) {
			return err
		}
		if err := pause(ctx, verb, name); err != nil {
			return err
		}
	}
	return fmt.Errorf("%s schedule %s: %w", verb, name, ErrBusy)
}

// changeOnce tries a change. It returns errChanged if the schedule has changed since it was read.
func (s Schedules) changeOnce(ctx context.Context, at *Schedule, verb string, give func(now time.Time, at *Schedule) *schedule.Order) error {
	name := at.Name
	if at.Problem != nil {
		if verb == "delete" && !endedByHand(at.Task) {
			err := s.bury(ctx, at)
			if _, ok := peersOf(s.engine); ok && err == nil { // the peers still have it
				err = errChanged
			}
			return err
		}
		return fmt.Errorf("%s schedule %s: %w", verb, name, at.Problem)
	}
	if at.State.Deleted && verb != "apply" {
		return fmt.Errorf("%w: %s", ErrUnknown, name)
	}
	if endedByHand(at.Task) {
		return fmt.Errorf("%s schedule %s: %w", verb, name, ErrEnded)
	}
	state, now := at.stored, task.Stamp(s.engine.Now())
	if n := len(state.Orders); n > 0 && !now.After(state.Orders[n-1].At) {
		now = state.Orders[n-1].At.Add(time.Microsecond)
	}
	o := give(now, at)
	if o == nil {
		return nil
	}
	o.At = now
	state.Orders = append(slices.Clone(state.Orders), *o)
	checkpoint := state.Encode()
	if len(state.Orders) > maxOrders || len(checkpoint) > task.MaxCheckpoint-spare {
		return fmt.Errorf("%s schedule %s: %w: %d orders wait to be carried out", verb, name, ErrBusy, len(state.Orders)-1)
	}
	if p, ok := peersOf(s.engine); ok {
		return p.order(ctx, at, *o, len(checkpoint))
	}
	_, err := s.engine.Edit(ctx, at.Task.Ref(), engine.Edit{At: &now, Checkpoint: &checkpoint})
	if errors.Is(err, engine.ErrStale) || errors.Is(err, engine.ErrNotAllowed) {
		return errChanged
	}
	return err
}

// pause waits before a change is tried again.
func pause(ctx context.Context, verb, name string) error {
	select {
	case <-time.After(changePause):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s schedule %s: %w", verb, name, context.Cause(ctx))
	}
}

// errChanged says that a schedule has changed since it was read.
var errChanged = errors.New("the schedule has changed since it was read")

// buried is the definition of a schedule that was deleted and could not be read. It must be valid, and never counts.
var buried = schedule.Definition{Every: 24 * time.Hour, Task: schedule.Template{Type: "none"}}

// bury deletes a schedule that cannot be read. Its definition is lost.
func (s Schedules) bury(ctx context.Context, at *Schedule) error {
	payload, checkpoint, when := schedule.Named{Name: at.Name, Definition: buried}.Encode(), schedule.State{Deleted: true}.Encode(), never
	_, err := s.engine.Edit(ctx, at.Task.Ref(), engine.Edit{At: &when, Payload: &payload, Checkpoint: &checkpoint})
	switch {
	case errors.Is(err, engine.ErrStale), errors.Is(err, engine.ErrNotAllowed):
		return errChanged
	case err != nil:
		return fmt.Errorf("delete schedule %s: %w", at.Name, err)
	}
	return nil
}

// rows returns the tasks of a page of schedules.
func (s Schedules) rows(ctx context.Context, after task.ID, limit int) ([]*task.Task, task.ID, error) {
	before := after
	if after.IsZero() {
		before = afterSchedules
	}
	rows, next, err := s.engine.List(ctx, storage.Filter{Types: []string{schedule.Type}}, before, limit)
	if err != nil {
		return nil, task.ID{}, fmt.Errorf("list the schedules: %w", err)
	}
	return rows, next, nil
}
