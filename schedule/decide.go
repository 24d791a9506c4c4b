package schedule

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"github.com/taskengine/taskengine/task"
)

const (
	// maxFires is how many tasks are added in one transaction.
	maxFires = 1000
	// maxBytes is how many bytes the payloads of a backfill have in one transaction, before their placeholders are filled
	// in. A transaction that the store refuses is kept in memory until it can be written.
	maxBytes = 8 << 20
	// farAhead is how far ahead of the clock the decided times may be: more means that the clock was wrong then.
	farAhead = 24 * time.Hour
)

// Run is one run of a schedule at a given time, as data. It has no effects by itself.
type Run struct {
	Schedule  Named // as it is after the run
	State     State // likewise
	Redefined bool  // Schedule has another definition than before

	Fires   []Start   // the tasks to add
	Cancels []Fire    // fires to cancel before that
	Next    time.Time // when to run again; zero is at the next order

	id    task.ID // of the schedule
	times times
	now   time.Time
	begun bool // some times were decided about
}

// Start is a task to be added.
type Start struct {
	Fire
	At time.Time `json:"at"` // when the task may start
}

// Decide returns the run of a schedule at the time now. id is the id of its task, and created is when that was submitted.
// The tasks of s.Running have not ended. An error says that the definition cannot be used.
func Decide(id task.ID, n Named, s State, created, now time.Time) (*Run, error) {
	if s.Decided.IsZero() {
		s.Decided = created
	}
	d := &Run{id: id, Schedule: n, State: s, now: task.Stamp(now)}
	d.State.Running, d.State.Waiting = slices.Clone(s.Running), slices.Clone(s.Waiting)
	var err error
	if d.times, err = n.Definition.times(n.Name); err != nil {
		return nil, fmt.Errorf("schedule %s: %w", n.Name, err)
	}
	if err := d.obey(); err != nil {
		return nil, fmt.Errorf("schedule %s: %w", n.Name, err)
	}
	d.rearm()
	return d, nil
}

// catchUp decides about the times that have come before an order is carried out: those up to the first of some orders that
// changes when the schedule fires, or up to now. So an order holds from the time at which it was given, however late it is
// carried out.
func (d *Run) catchUp(orders []Order) {
	from, until := d.State.Decided, d.now
	if i := slices.IndexFunc(orders, Order.isRule); i >= 0 && orders[i].At.Before(until) {
		until = orders[i].At
	}
	if until.After(from) {
		d.State.Decided = until
	} else if d.begun {
		return // what waits has had its turn in this run
	}
	d.begun = true
	if d.State.Paused != nil || d.State.Deleted {
		return
	}
	due, missed := d.times.due(d.Schedule.Definition.CatchUp, from, d.State.Decided, d.now)
	d.State.Missed += missed
	due = append(d.State.Waiting, due...)
	d.State.Waiting = nil
	switch d.Schedule.Definition.Overlap {
	case Allow:
		d.fire(due...)
	case Skip: // that of an earlier run, not that of another time that is caught up with
		if len(d.State.Running) == 0 {
			d.fire(due...)
		} else {
			d.State.Overlapped += uint64(len(due))
		}
	case Queue:
		if len(d.State.Running) == 0 && len(due) > 0 {
			d.fire(due[0])
			due = due[1:]
		}
		fit := min(len(due), MaxWaiting)
		d.State.Overlapped += uint64(len(due) - fit)
		d.State.Waiting = due[:fit]
	case CancelOld:
		if n := len(due); n > 0 {
			d.cancelRunning()
			d.State.Overlapped += uint64(n - 1)
			d.fire(due[n-1])
		}
	}
}

// cancelRunning cancels the tasks of earlier fires. A task that this run was to add is left out.
func (d *Run) cancelRunning() {
	for _, f := range d.State.Running {
		isNew := func(s Start) bool { return s.Task == f.Task }
		if i := slices.IndexFunc(d.Fires, isNew); i >= 0 {
			d.Fires = slices.Delete(d.Fires, i, i+1)
			d.State.Fires--
			d.State.Overlapped++
		} else {
			d.Cancels = append(d.Cancels, f)
		}
	}
	d.State.Running = nil
}

// fire adds tasks for times of the calendar.
func (d *Run) fire(all ...time.Time) {
	if len(all) > 0 {
		d.State.Fired = d.now
	}
	for _, at := range all {
		f := Fire{Task: d.id.Child(at, ""), Time: task.Stamp(at)}
		d.add(Start{f, at.Add(jitter(f.Task, d.Schedule.Definition.Jitter))})
		if d.Schedule.Definition.Overlap != Allow {
			d.State.Running = append(d.State.Running, f)
		}
	}
}

func (d *Run) add(s Start) {
	d.Fires = append(d.Fires, s)
	d.State.Last = s.Fire
	d.State.Fires++
}

// jitter returns the delay of a task: a part of most that depends on its id.
func jitter(id task.ID, most time.Duration) time.Duration {
	if most <= 0 {
		return 0
	}
	h := fnv.New64a()
	h.Write(id[:])
	return time.Duration(h.Sum64() % uint64(most+1)).Truncate(time.Microsecond)
}

// obey decides about the times that have come and carries out the orders, in the order of their times, as far as one
// transaction has room. An order to delete the schedule ends a backfill that needs several transactions.
func (d *Run) obey() error {
	orders := d.State.Orders
	d.State.Orders = nil
	for i := range orders {
		o := &orders[i]
		d.catchUp(orders[i:])
		switch {
		case o.Define != nil:
			if err := d.define(*o.Define); err != nil {
				return err
			}
		case o.Pause != nil:
			d.State.Paused = o.Pause
		case o.Resume:
			d.State.Paused = nil
		case o.Delete:
			d.State.Deleted, d.State.Waiting = true, nil
			d.State.Edits++
		case o.Trigger:
			at := task.Stamp(o.At)
			d.add(Start{Fire{Task: TriggeredID(d.id, at), Time: at}, d.now})
		case o.Backfill != nil:
			rest := d.backfill(o)
			if isDeleted := func(o Order) bool { return o.Delete }; rest != nil && !slices.ContainsFunc(orders[i+1:], isDeleted) {
				d.State.Orders = append([]Order{*rest}, orders[i+1:]...)
				return nil
			}
		}
	}
	d.catchUp(nil)
	return nil
}

// define replaces the definition. Times before the order are not decided about again, nor are those after it that were
// decided about while the clock was ahead, unless it was so far ahead that the schedule would be silent for long.
func (d *Run) define(to Definition) error {
	all, err := to.times(d.Schedule.Name)
	if err != nil {
		return err
	}
	d.Schedule.Definition, d.times, d.Redefined, d.State.Deleted = to, all, true, false
	d.State.Edits++
	if d.State.Decided.Sub(d.now) > farAhead {
		d.State.Decided = d.now
	}
	return nil
}

// backfill adds tasks for the times of an order. It returns an order for the rest if they and the other tasks
// of the run are too many for one transaction.
func (d *Run) backfill(o *Order) (rest *Order) {
	after := o.Backfill.From.Add(-1)
	for len(d.Fires) < maxFires && len(d.Fires)*d.Schedule.Definition.Task.size() < maxBytes {
		at, ok := d.times.next(after)
		if !ok || at.After(o.Backfill.To) {
			return nil
		}
		d.add(Start{Fire{Task: d.id.Child(at, "backfill "+o.At.UTC().Format(time.RFC3339Nano)), Time: task.Stamp(at)}, d.now})
		after = at
	}
	return &Order{At: o.At, Backfill: &Backfill{From: after.Add(1), To: o.Backfill.To}}
}

// rearm says when the schedule runs again.
func (d *Run) rearm() {
	if len(d.State.Orders) > 0 {
		d.Next = d.now
		return
	}
	if d.State.Paused != nil || d.State.Deleted {
		return
	}
	if at, ok := d.times.next(d.State.Decided); ok {
		d.Next = at
	}
	if look := d.State.lookAgain(d.now); !look.IsZero() && (d.Next.IsZero() || look.Before(d.Next)) {
		d.Next = look
	}
}

// size is about how many bytes the payload of a task has. That of a workflow gets a definition.
func (t *Template) size() int {
	if t.Workflow != "" {
		return len(t.Payload) + MaxPayload
	}
	return len(t.Payload)
}

// Request returns the task of a fire. The payload of a [Template.Workflow] is the input of that.
func (d *Run) Request(f Start) task.Request {
	t, at := &d.Schedule.Definition.Task, f.Time
	if zone, err := d.Schedule.Definition.zone(); err == nil { // otherwise it would have no times
		at = at.In(zone)
	}
	r := task.Request{
		ID: f.Task, Type: t.TaskType(), Priority: t.Priority, At: f.At, Headers: maps.Clone(t.Headers),
		Payload: t.payload(d.Schedule.Name, f.Task, at),
	}
	if r.Headers == nil {
		r.Headers = make(map[string]string, 2)
	}
	r.Headers[HeaderName], r.Headers[HeaderTime] = d.Schedule.Name, at.Format(time.RFC3339)
	if t.Expires > 0 {
		r.ExpiresAt = f.At.Add(t.Expires)
	}
	return r
}
