package task

import (
	"fmt"
	"time"
)

// handedBackDelay is the delay before a task is tried again that its handler could not take.
const handedBackDelay = time.Second

// Running has the facts about a running task that the rules need, see [RunningOf].
type Running struct {
	Ref
	Owner     ID
	Order     string // the ordering key of a task that takes part in the order of its key; "" if it does not
	HasKey    bool
	Attempt   uint32
	Crashes   uint32 // before this attempt
	ExpiresAt time.Time
	Parent    *Parent // the task that learns of its end; nil if none does

	lag       time.Duration // how late its time was when it last asked to run again; 0 if it did not
	rearms    int           // see rearmsOf
	conflicts int           // see conflictsOf
}

// RunningOf returns the facts about t that the rules need. It is Processing.
func RunningOf(t *Task) Running {
	return Running{
		Ref: t.Ref(), Owner: t.Owner, Order: t.Order(), HasKey: t.Key != "", Attempt: t.Attempt, Crashes: t.Crashes,
		ExpiresAt: t.ExpiresAt, Parent: t.Parent, lag: lagOf(t), rearms: rearmsOf(t), conflicts: conflictsOf(t),
	}
}

// Conclusion is what follows from the end of an attempt.
type Conclusion struct {
	Change Change
	Remove bool // the row is deleted with the change
	Slowed bool // the task is delayed longer than it asked for, because it asks to be called again at once many times in a row
}

// Conclude decides what follows from the verdict on an attempt of a task that runs. Its rows of [Rerun] are inserted with
// the change. It is the only function that decides about retries, deliveries and crashes of attempts that have a
// verdict; see [Rules.Orphaned] and [Rules.Reclaimed] for the others. chance returns a number in [0,1), which decides the
// jitter of a delay.
func Conclude(now time.Time, a *Running, v Verdict, r *Rules, chance func() float64) Conclusion {
	out := Conclusion{Change: r.decide(now, a, v, chance)}
	c := &out.Change
	asks := v.Outcome == Snoozed && v.Class != ClassDocumentConflict || v.Outcome == Completed || v.Outcome == Errored && v.Delay >= 0
	if c.To == Waiting && asks && !c.NextEventAt.IsZero() {
		out.Slowed = a.rearm(now, c)
	}
	r.Seat(a.Order, c)
	out.Remove = r.Keep(a.HasKey, c)
	v.Reencoded.Add(c, c.Completes(Processing))
	return out
}

// decide returns the change that follows from the verdict on an attempt, without what happens to the seat and the row.
func (r *Rules) decide(now time.Time, a *Running, v Verdict, chance func() float64) Change {
	c := Change{Ref: a.Ref, By: a.Owner, At: now, Outcome: v.Outcome, Error: v.Error}
	wait := func(d time.Duration) Change {
		at := now.Add(d)
		if !a.ExpiresAt.IsZero() && !at.Before(a.ExpiresAt) {
			c.To, c.Error = Error, joinReason(c.Error, "there is no time for another attempt before it expires")
			return c
		}
		c.To, c.NextEventAt = Waiting, at
		return c
	}
	giveUp := func(why string) Change {
		c.To, c.Error = Error, joinReason(c.Error, why)
		return c
	}
	switch v.Outcome {
	case Completed:
		c.To, c.Result = Done, v.Result
		if v.RunsAgain() {
			c.To, c.NextEventAt, c.ReadyAt, c.Count = Waiting, v.Again, v.Again, Reset
			if v.Await != nil {
				c.Await = &Await{Names: v.Await, Patience: r.QueueTimeout, Children: v.Children}
			}
			if again := v.Rerun; again != nil {
				c.Payload, c.Checkpoint, c.Group, c.Search = again.Payload, again.Checkpoint, again.Group, again.Search
			}
		}
		if v.Rerun != nil {
			c.Adds = v.Rerun.Adds
		}
		return c
	case Snoozed:
		if c.Count = Refund; v.Class == ClassDocumentConflict {
			return wait(a.conflictDelay(chance()))
		}
		return wait(v.Delay)
	case HandedBack:
		c.Count = Refund
		if v.Pause > 0 { // until it expires, if that is earlier: Change.Apply sees to that
			c.To, c.NextEventAt = Waiting, now.Add(v.Pause)
			return c
		}
		return wait(handedBackDelay)
	}
	if r.AtMostOnce && (v.Outcome != Errored || v.InDoubt) {
		return giveUp(mayHaveTakenEffect)
	}
	switch v.Outcome {
	case Interrupted:
		c.To, c.Count = Submitted, Refund
		c.NextEventAt = r.OverdueAt(now)
		return c
	case Crashed:
		if r.isQuarantined(a.Crashes + 1) {
			return giveUp(quarantined(a.Crashes + 1))
		}
	}
	delay, again := r.Retry.Next(a.Attempt, v, chance())
	switch {
	case again:
		c = wait(delay)
	case v.Next != 0:
		c.To = v.Next
	case !v.GiveUp && r.Retry.Exhausted(a.Attempt):
		c = giveUp(fmt.Sprintf("attempt %d of %s", a.Attempt, r.Retry.Attempts()))
	default:
		c = giveUp("")
	}
	if c.To == Error && r.Fails {
		c.To = Failed
	}
	return c
}

// Seat completes a change of a task by what happens to its seat: whether an error gives it up, and whether a retry takes
// another. order is the ordering key of the task; "" if it takes part in no order.
func (r *Rules) Seat(order string, c *Change) {
	if order == "" {
		return
	}
	c.OrderingKey = order
	switch {
	case c.To == Error:
		c.Leaves = r.Continues
	case c.Await != nil && c.NextEventAt.IsZero():
		c.ReadyAt = LastTime
	case c.To == Waiting && (!c.ReadyAt.IsZero() || c.Outcome != HandedBack && r.Yields):
		c.ReadyAt = c.NextEventAt // not before the task is due: it holds back those behind it
	}
}

// Keep completes a change by how long the row of a task is kept that ends with it, and whether that becomes a
// [Task.Tombstone] at once. hasKey says whether the task has a unique key. It returns whether to delete the row with the change.
func (r *Rules) Keep(hasKey bool, c *Change) (remove bool) {
	if c.To.Live() {
		return false
	}
	c.NextEventAt = r.KeptUntil(c.To, c.At)
	switch {
	case r.keptFor(c.To) != 0:
		return false
	case c.To == Done && hasKey && r.Remember > 0:
		c.Remember = r.Remember
		return false
	}
	return true
}

// KeptUntil returns when a row may be removed that ended in a state at a time. The zero time is never.
func (r *Rules) KeptUntil(s State, at time.Time) time.Time {
	keep := r.keptFor(s)
	if keep < 0 {
		return time.Time{}
	}
	return at.Add(keep)
}

// keptFor returns for how long a row is kept that ended in a state; negative is for ever.
func (r *Rules) keptFor(s State) time.Duration {
	switch s {
	case Done:
		return r.KeepDone
	case Failed:
		return r.KeepFailed
	case Cancelled:
		return r.KeepCancelled
	}
	return -1
}

// Orphaned returns the change for a task that ran when its node died. The task is Submitted again if its type allows
// that. The attempt counts, and so does the crash.
func (r *Rules) Orphaned(now time.Time, t *Task) Change {
	c := Change{
		Ref: t.Ref(), By: t.Owner, To: Submitted, At: now, NextEventAt: r.OverdueAt(now),
		Outcome: Crashed, Error: "its node stopped while it ran",
	}
	switch {
	case r.AtMostOnce:
		c.To, c.NextEventAt, c.Error = Error, time.Time{}, joinReason(c.Error, mayHaveTakenEffect)
	case r.isQuarantined(t.Crashes + 1):
		c.To, c.NextEventAt, c.Error = Error, time.Time{}, joinReason(c.Error, quarantined(t.Crashes+1))
	}
	r.Seat(t.Order(), &c)
	return c
}

// Reclaimed returns the change for a task that is Processing and owned by a node that has no run of it. It is unknown
// whether its handler was called.
func (r *Rules) Reclaimed(now time.Time, t *Task) Change {
	const why = "it was processing, and nothing of it was under way on its node"
	c := Change{
		Ref: t.Ref(), By: t.Owner, To: Submitted, At: now, NextEventAt: r.OverdueAt(now),
		Count: Refund, Outcome: Interrupted, Error: why,
	}
	if r.AtMostOnce {
		c.To, c.NextEventAt, c.Count, c.Error = Error, time.Time{}, Keep, joinReason(why, mayHaveTakenEffect)
	}
	r.Seat(t.Order(), &c)
	return c
}

const mayHaveTakenEffect = "it may have taken effect, and its type is at_most_once"

func (r *Rules) isQuarantined(crashes uint32) bool {
	return r.MaxCrashes > 0 && crashes >= r.MaxCrashes
}

func quarantined(crashes uint32) string {
	return fmt.Sprintf("quarantined after %d crashes in a row", crashes)
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
