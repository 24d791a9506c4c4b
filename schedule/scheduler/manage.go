package scheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/taskengine/taskengine/engine"
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

// Version returns the version of a schedule, which grows with each new definition and when the schedule is deleted. It begins
// with 1.
func (s *Schedule) Version() uint64 { return s.State.Edits + 1 }

// IDOf returns the id of the task that is the schedule with a name. It begins with six zero bytes, so that all schedules are
// together in the order of ids. It is in the shard of the key of the task.
func IDOf(name string) task.ID {
	shard, _ := task.BoundShard(schedule.Type, name, "")
	return task.ReservedIDIn(shard, schedule.Type, name)
}

// requestOf returns the request of the task that is a schedule. Its key is the name: stores have the keys of a type in their
// order, so they list schedules by a prefix of their names.
func requestOf(n schedule.Named) engine.Request {
	return engine.Request{ID: IDOf(n.Name), Type: schedule.Type, Key: n.Name, Headers: map[string]string{schedule.HeaderName: n.Name}, Payload: n.Encode()}
}

// nameOf returns the name of the schedule of a row, which is without its payload: a header can be read though the definition
// cannot. It is the id of the task if the name is not known.
func nameOf(t *task.Task) string { return cmp.Or(t.Headers[schedule.HeaderName], t.ID.String()) }

// afterSchedules is an id above the ids of all schedules.
var afterSchedules = task.ID{5: 1}

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

// Pause stops a schedule from firing until Resume. Times within the pause are left out. Tasks that were added before are
// not affected.
func (s Schedules) Pause(ctx context.Context, name, reason string) error {
	return s.give(ctx, name, Pausing(reason))
}

// Resume ends a pause.
func (s Schedules) Resume(ctx context.Context, name string) error {
	return s.give(ctx, name, Resuming())
}

// Delete ends a schedule, also one that cannot be read. Tasks that it has added are not affected.
func (s Schedules) Delete(ctx context.Context, name string) error {
	return s.give(ctx, name, Deleting())
}

func (s Schedules) give(ctx context.Context, name string, v Verb) error {
	return s.change(ctx, name, v.name, v.give)
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
	}
	if err := refusal(at, verb); err != nil {
		return err
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

// refusal returns why a schedule takes no order, except that an unreadable one can be deleted; nil if it takes one.
func refusal(at *Schedule, verb string) error {
	switch {
	case at.Problem != nil:
		return fmt.Errorf("%s schedule %s: %w", verb, at.Name, at.Problem)
	case at.State.Deleted && verb != "apply":
		return fmt.Errorf("%w: %s", ErrUnknown, at.Name)
	case endedByHand(at.Task):
		return fmt.Errorf("%s schedule %s: %w", verb, at.Name, ErrEnded)
	}
	return nil
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
