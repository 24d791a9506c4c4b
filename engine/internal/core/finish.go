package core

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

// The causes for which a run is stopped.
var (
	ErrOverruled = errors.New("the task was cancelled")          // or changed by a user in another way
	ErrUndone    = errors.New("the store has lost this attempt") // by a failover or a restore: see Core.Undone
	ErrTimeout   = errors.New("the attempt ran out of its time") // see policy.Timeout
)

// errOverdue is the error of an attempt that was given up because its handler did not return.
const errOverdue = "it ran out of time, and its handler did not return within the grace period"

// handedBackDelay is the delay before a task is tried again that its handler could not take.
const handedBackDelay = time.Second

// Handled answers a run with its verdict. It frees the slot.
func (c *Core) Handled(now time.Time, id task.ID, v task.Verdict) {
	r := c.expect(id, "verdict", running, disowned, finished)
	phase, key := r.phase, r.key
	switch phase {
	case running:
		c.conclude(now, r, v)
	case disowned:
		c.stats.Stale++
	}
	if phase != running || key == "" || !c.handOver(now, r) {
		c.end(now, r, true)
	}
	if key != "" {
		c.beginDelayed(now)
	}
	c.book(now)
}

// Counts reports whether the task at ref has a run whose verdict will be saved.
func (c *Core) Counts(ref task.Ref) bool {
	r, ok := c.runs[ref.ID]
	return ok && r.ref == ref && r.phase == running
}

// Finished tells the core that the handler of the task at ref has ended the attempt itself, in a
// transaction that has committed. t is the row now. Nothing is left to be saved. The slot stays taken
// until the run is handled.
func (c *Core) Finished(now time.Time, ref task.Ref, t *task.Task) {
	r, ok := c.runs[ref.ID]
	if ok && r.ref == ref && (r.phase == running || r.phase == disowned) {
		r.phase = finished
	}
	c.route(now, t)
	c.book(now)
}

// Concluded returns the change that follows from the verdict v on the attempt at ref, for a transaction
// of its handler. ok is false if the attempt is over.
func (c *Core) Concluded(now time.Time, ref task.Ref, v task.Verdict) (change task.Change, ok bool) {
	if !c.Counts(ref) {
		return change, false
	}
	change, _ = c.concluded(now, c.runs[ref.ID], v)
	return change, true
}

// conclude saves the change that follows from the verdict v on the attempt of r.
func (c *Core) conclude(now time.Time, r *run, v task.Verdict) {
	change, remove := c.concluded(now, r, v)
	c.save(r.kind.name, change, remove)
	c.ready.Saves[len(c.ready.Saves)-1].Follow = c.following(now, v)
}

// following returns the rows that are to be inserted with the end of an attempt with the verdict v.
func (c *Core) following(now time.Time, v task.Verdict) []*task.Task {
	if v.Rerun == nil || v.Outcome != task.Completed {
		return nil
	}
	for _, t := range v.Rerun.Rows {
		Create(now, c.Policy(t.Type), t)
	}
	return v.Rerun.Rows
}

// concluded returns the change that follows from the verdict v on the attempt of r, and whether to
// delete the row with it.
func (c *Core) concluded(now time.Time, r *run, v task.Verdict) (change task.Change, remove bool) {
	p := &r.kind.policy
	change = decide(now, p, attempt{r.ref, r.owner, r.attempt, r.crashes, r.expires}, v, c.config.Chance)
	asks := v.Outcome == task.Snoozed || v.Outcome == task.Completed || v.Outcome == task.Errored && v.Delay >= 0
	if change.To == task.Waiting && asks && r.rearm(now, &change) {
		c.stats.Slowed++
	}
	remove = settle(now, p, r.key, r.isKeyed, &change)
	v.Reencoded.Add(&change, change.Completes(task.Processing))
	return change, remove
}

// settle completes the change that ends an attempt of a task with this ordering key. isKeyed says whether the task has a
// unique key. It returns whether to delete the row with the change.
func settle(now time.Time, p *policy.Type, key string, isKeyed bool, change *task.Change) (remove bool) {
	seat(p, key, change)
	switch change.To {
	case task.Done, task.Failed, task.Cancelled:
		change.NextEventAt = KeepUntil(p.Retention, change.To, now)
		return !Remembers(p, isKeyed, change) && p.Retention.Of(change.To) == 0
	}
	return false
}

// Earlier returns the change that follows from the verdict v on the attempt of t, which runs in the row, and which this
// node has not begun, and the rows that are to be inserted if and only if the change is made. A row that is to be deleted
// is left to the cleaner.
func (c *Core) Earlier(now time.Time, t *task.Task, v task.Verdict) (change task.Change, follow []*task.Task) {
	p := c.Policy(t.Type)
	change = decide(now, &p, attempt{t.Ref(), t.Owner, t.Attempt, t.Crashes, t.ExpiresAt}, v, c.config.Chance)
	settle(now, &p, orderingKeyOf(t), t.Key != "", &change)
	v.Reencoded.Add(&change, change.Completes(task.Processing))
	return change, c.following(now, v)
}

// Remembers makes a change that has a task done whose row is not kept leave a tombstone, if the task has a unique key and
// its type remembers keys. It reports whether it did.
func Remembers(p *policy.Type, isKeyed bool, c *task.Change) bool {
	if c.To != task.Done || !isKeyed || p.Retention.Done != 0 || p.Unique.Remembers() == 0 {
		return false
	}
	c.Remember = p.Unique.Remembers()
	return true
}

// save asks to make a change of a task of a type, and to delete the row with it if remove is set.
func (c *Core) save(typ string, change task.Change, remove bool) {
	c.saving++
	c.ready.Saves = append(c.ready.Saves, Save{Change: change, Type: typ, Remove: remove})
}

// Saves returns the saves that were not taken yet. The caller must not change them.
func (c *Core) Saves() []Save { return c.ready.Saves }

// KeepUntil returns when a row may be removed that ended in state s at the given time. The zero time
// is never.
func KeepUntil(r policy.Retention, s task.State, at time.Time) time.Time {
	keep := r.Of(s)
	if keep < 0 {
		return time.Time{}
	}
	return at.Add(keep)
}

// attempt is what decide needs to know of a run.
type attempt struct {
	ref     task.Ref
	owner   task.ID
	number  uint32
	crashes uint32 // before this one
	expires time.Time
}

// decide returns the change that follows from the verdict on an attempt. It is the only function that
// decides about retries, deliveries and crashes of attempts on this node; see Orphaned for those of
// dead nodes.
func decide(now time.Time, p *policy.Type, a attempt, v task.Verdict, chance func() float64) task.Change {
	c := task.Change{Ref: a.ref, By: a.owner, At: now, Outcome: v.Outcome, Error: v.Error}
	wait := func(d time.Duration) task.Change {
		at := now.Add(d)
		if !a.expires.IsZero() && !at.Before(a.expires) {
			c.To, c.Error = task.Error, joinReason(c.Error, "there is no time for another attempt before it expires")
			return c
		}
		c.To, c.NextEventAt = task.Waiting, at
		return c
	}
	giveUp := func(why string) task.Change {
		c.To, c.Error = task.Error, joinReason(c.Error, why)
		return c
	}
	switch v.Outcome {
	case task.Completed:
		c.To, c.Result = task.Done, v.Result
		if !v.Again.IsZero() {
			c.To, c.NextEventAt, c.ReadyAt, c.Count = task.Waiting, v.Again, v.Again, task.Reset
			if r := v.Rerun; r != nil {
				c.Payload, c.Checkpoint, c.Group = r.Payload, r.Checkpoint, r.Group
			}
		}
		return c
	case task.Snoozed:
		c.Count = task.Refund
		return wait(v.Delay)
	case task.HandedBack:
		c.Count = task.Refund
		if v.Pause > 0 { // until it expires, if that is earlier: Change.Apply sees to that
			c.To, c.NextEventAt = task.Waiting, now.Add(v.Pause)
			return c
		}
		return wait(handedBackDelay)
	}
	if p.Delivery == policy.AtMostOnce && (v.Outcome != task.Errored || v.InDoubt) {
		return giveUp(mayHaveTakenEffect)
	}
	switch v.Outcome {
	case task.Interrupted:
		c.To, c.Count = task.Submitted, task.Refund
		c.NextEventAt = queueDeadline(p.Timeout, now)
		return c
	case task.Crashed:
		if p.MaxCrashes > 0 && a.crashes+1 >= p.MaxCrashes {
			return giveUp(quarantined(a.crashes + 1))
		}
	}
	delay, again := p.Retry.Next(a.number, v, chance())
	if !again && v.Next != 0 {
		c.To = v.Next
		return c
	}
	if !again {
		if !v.GiveUp && p.Retry.Exhausted(a.number) {
			return giveUp(fmt.Sprintf("attempt %d of %d", a.number, p.Retry.Max))
		}
		return giveUp("")
	}
	return wait(delay)
}

func joinReason(what, why string) string {
	switch {
	case why == "":
		return what
	case what == "":
		return why
	}
	return what + " (" + why + ")"
}

// Saved answers a save. t is the row as it is now. It is nil if the save was too late, because the
// task was changed meanwhile.
func (c *Core) Saved(now time.Time, s Save, t *task.Task) {
	c.saving--
	if s.moves {
		c.timers.movesTo(s.To).end(s.Ref)
	}
	if t == nil {
		if !s.moves {
			c.stats.Stale++
		}
		return
	}
	c.route(now, t)
	c.book(now)
}

// enforceTimeouts stops the runs whose time is up. If the grace period of such a run is over, too, and
// its handler has not returned, the run is given up: its attempt has timed out. Its slot stays taken
// until the handler returns.
func (c *Core) enforceTimeouts(now time.Time) {
	c.nextTimeUp = time.Time{}
	var late []*run
	for _, r := range c.runs {
		if r.phase != running && (r.phase != finished || r.stopped) || r.deadline.IsZero() {
			continue
		}
		if !now.Before(r.timeUp()) {
			late = append(late, r)
		} else {
			c.nextTimeUp = earlier(c.nextTimeUp, r.timeUp())
		}
	}
	slices.SortFunc(late, func(a, b *run) int { return a.ref.ID.Compare(b.ref.ID) })
	for _, r := range late {
		if !r.stopped {
			r.stopped, r.deadline = true, now // the grace period starts now, however late the stop is
			c.ready.Stops = append(c.ready.Stops, Stop{r.ref.ID, ErrTimeout})
			if r.phase == running {
				c.nextTimeUp = earlier(c.nextTimeUp, r.timeUp())
			}
			continue
		}
		r.phase, r.lingersTo = disowned, now
		c.stats.Abandoned++
		c.conclude(now, r, task.Verdict{Outcome: task.TimedOut, Error: errOverdue, Delay: -1})
	}
}

// timeUp returns when a run that has a deadline is to be stopped or, if it was stopped, when it is to
// be given up.
func (r *run) timeUp() time.Time {
	if r.stopped {
		return r.deadline.Add(r.kind.policy.Timeout.Grace)
	}
	return r.deadline
}

// Orphaned returns the change for a task whose node died while it ran. The task is submitted again if
// its type allows that. The attempt counts, and so does the crash.
func Orphaned(now time.Time, p policy.Type, t *task.Task) task.Change {
	c := task.Change{
		Ref: t.Ref(), By: t.Owner, To: task.Submitted, At: now, NextEventAt: queueDeadline(p.Timeout, now),
		Outcome: task.Crashed, Error: "its node stopped while it ran",
	}
	switch {
	case p.Delivery == policy.AtMostOnce:
		c.To, c.NextEventAt, c.Error = task.Error, time.Time{}, joinReason(c.Error, mayHaveTakenEffect)
	case p.MaxCrashes > 0 && t.Crashes+1 >= p.MaxCrashes:
		c.To, c.NextEventAt, c.Error = task.Error, time.Time{}, joinReason(c.Error, quarantined(t.Crashes+1))
	}
	seat(&p, orderingKeyOf(t), &c)
	return c
}

const mayHaveTakenEffect = "it may have taken effect, and its type is at_most_once"

func quarantined(crashes uint32) string {
	return fmt.Sprintf("quarantined after %d crashes in a row", crashes)
}
