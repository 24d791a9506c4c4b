package core

import (
	"time"

	"github.com/taskengine/taskengine/task"
)

// book books all tasks that may run, best first, and asks to grab them.
func (c *Core) book(now time.Time) {
	if !c.mayStart() {
		return
	}
	for c.mayGrab() {
		tr, slot, ok := c.table.Book(c.steady(now))
		if !ok {
			return
		}
		if !c.Starts(tr.Queue, tr.Shard) { // it was dropped from the shards of this node after its trigger was added
			c.table.Return(c.steady(now), slot)
			continue
		}
		if c.isHeld(tr.ID) {
			c.table.Return(c.steady(now), slot)
			c.putAside(now, tr, toStart)
			continue
		}
		if old, ok := c.runs[tr.ID]; ok {
			c.table.Return(c.steady(now), slot)
			old.follow(tr)
			continue
		}
		k := c.kind(tr.Type)
		c.countGrab()
		c.newRun(k, slot, tr, grabbing)
		if k.policy.Relaxed {
			c.ready.Relaxed = append(c.ready.Relaxed, c.grab(now, tr.Ref))
		} else {
			c.ready.Grabs = append(c.ready.Grabs, c.grab(now, tr.Ref))
		}
	}
}

// Grabbed answers a grab of the task at ref. t is the row with its payload if the grab was made,
// and nil if it was too late. failed says that the store could not make the grab or say whether it
// was made; the core tries the task again later.
func (c *Core) Grabbed(now time.Time, ref task.Ref, t *task.Task, failed bool) {
	r := c.expect(ref.ID, "grab", grabbing)
	switch {
	case failed:
		c.retryGrab(now, r, retryDelay)
	case t == nil:
		c.stats.Wasted++
		c.end(now, r, false)
	default:
		r.ref = t.Ref()
		c.begin(now, r, t)
		return
	}
	c.book(now)
}

const (
	notAlive     = "its node could not prove that it is alive"
	shuttingDown = "its node was shutting down"
	noSlotAgain  = "its slot was given to another task while the store wrote that it starts"
	delayedLong  = "the rates of its limits did not allow it to begin soon after the store had written that it starts"
)

func expired(t *task.Task) string {
	return "it expired at " + t.ExpiresAt.Format(time.RFC3339Nano) + ", before it could run"
}

// begin asks to run the handler of the task that r has grabbed, if the task may still begin. If not,
// it hands the task back, or delays it.
func (c *Core) begin(now time.Time, r *run, t *task.Task) {
	if r.phase != delayed && len(c.delayed) > 0 && c.steady(now) >= c.delayedAt {
		c.beginDelayed(now) // they were grabbed before
	}
	back := task.Change{Ref: t.Ref(), By: t.Owner, At: now, Count: task.Refund, Outcome: task.HandedBack, To: task.Submitted}
	back.NextEventAt = r.rules.OverdueAt(now)
	isBack := true
	switch why := c.refuses(r); {
	case t.Owner != c.config.Owner: // grabbed for an earlier incarnation of this node, which the other nodes take for dead
		back.Error = notAlive
	case t.Version < r.changed: // a user changed it after the grab
		c.stats.Wasted++
		isBack = false
	case !t.ExpiresAt.IsZero() && !now.Before(t.ExpiresAt):
		back.To, back.NextEventAt, back.Error = task.Error, time.Time{}, expired(t)
		r.rules.Seat(t.Order(), &back)
	case why != "":
		back.Error = why
	case !c.hasSlotAgain(now, r, t):
		back.Error = noSlotAgain
	default:
		if group, missing, is := c.regroup(t); is {
			regrouped := group // group escapes only here, so other paths do not allocate
			back.Group, back.Error = &regrouped, "the limits of its type have changed, and its values for them were read"
			if missing != nil {
				back.Error += ", those that it lacks as empty: " + missing.Error()
			}
			break
		}
		if until := c.lingering(now, t); until.After(now) && c.delayFor(now, r, t, until) {
			return
		}
		at, err := c.table.Begin(c.steady(now), &r.slot)
		switch {
		case err != nil:
			back.Error = err.Error()
		case at <= c.steady(now):
			c.handle(now, r, t)
			return
		case c.delay(now, r, t, at):
			return
		default:
			back.Error = delayedLong
		}
	}
	c.end(now, r, false)
	if isBack {
		c.save(t.Type, back, false)
	}
	c.book(now)
}

// refuses returns why this node may not begin the task of r; "" if it may.
func (c *Core) refuses(r *run) string {
	switch {
	case c.draining:
		return shuttingDown
	case c.suspended:
		return notAlive
	case c.config.Permits && r.losses != c.losses && r.slot.NeedsPermits():
		return ErrPermitsLost.Error()
	}
	return ""
}

// regroup reports whether the group of a row was packed when its type had fewer values, and returns
// the group with all of them. Such a row was booked without the limits of the other values.
func (c *Core) regroup(t *task.Task) (group string, missing error, is bool) {
	if c.config.Regroup == nil {
		return "", nil, false
	}
	return c.config.Regroup(t)
}

// handle asks to run the handler.
func (c *Core) handle(now time.Time, r *run, t *task.Task) {
	c.stats.Grabbed++
	r.phase, r.row, r.is = running, nil, task.RunningOf(t)
	c.called(r)
	if limit := r.policy.Timeout.Run; limit > 0 {
		r.runsUntil = now.Add(limit)
	}
	if r.deadline = earlier(r.runsUntil, r.is.ExpiresAt); !r.deadline.IsZero() {
		c.nextTimeUp = earlier(c.nextTimeUp, r.timeUp())
	}
	c.ready.Runs = append(c.ready.Runs, Run{
		ID: t.ID, Type: t.Type, Deadline: r.deadline, Task: t,
		NeedsPermits: c.config.Permits && r.slot.NeedsPermits(),
	})
}
