package core

import (
	"errors"
	"slices"
	"time"

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

// Handled answers a run with its verdict. It frees the slot.
func (c *Core) Handled(now time.Time, id task.ID, v task.Verdict) {
	r := c.expect(id, "verdict", running, disowned, finished)
	phase, key := r.phase, r.is.Order
	switch phase {
	case running:
		c.conclude(now, r, &v)
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

// Counts reports whether the verdict on the run of the task at ref will be saved.
func (c *Core) Counts(ref task.Ref) bool {
	r, ok := c.runs[ref.ID]
	return ok && r.ref == ref && r.phase == running
}

// Finished reports that the handler of the task at ref has ended the attempt itself, in a transaction
// that has committed. t is the row now. No save follows. The slot stays taken until the run is
// handled.
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
	return c.concluded(now, c.runs[ref.ID], &v).Change, true
}

// conclude saves the change that follows from the verdict v on the attempt of r.
func (c *Core) conclude(now time.Time, r *run, v *task.Verdict) {
	end := c.concluded(now, r, v)
	save := c.newSave()
	save.Change, save.Type, save.Remove = end.Change, r.kind.name, end.Remove
	save.Follow = append(c.following(now, v), c.Reports(now, r.is.Parent, &end.Change)...)
	c.document(now, save, v, &r.is, r.rules)
}

// document adds the writes of documents to the save of the end of an attempt with the verdict v.
func (c *Core) document(now time.Time, save *Save, v *task.Verdict, is *task.Running, rules *task.Rules) {
	if v.Rerun == nil || v.Outcome != task.Completed || len(v.Rerun.Writes) == 0 {
		return
	}
	end := task.Conclude(now, is, v.Conflicting(rules), rules, c.config.Chance)
	save.Documents = v.Rerun.Writes
	save.Else = &Save{Change: end.Change, Type: save.Type, Remove: end.Remove, Follow: c.Reports(now, is.Parent, &end.Change)}
}

// Conflicted answers a save with documents that was not made because of one of them. Another save follows.
func (c *Core) Conflicted(s *Save, why *task.DocumentConflict) {
	c.ready.Saves = append(c.ready.Saves, s.OnConflict(why))
}

// OnConflict returns the save in place of s, which was not made because of a document.
func (s *Save) OnConflict(why *task.DocumentConflict) Save {
	other := *s.Else
	if other.Error != "" { // why there is no other attempt
		other.Error = why.Error() + " " + other.Error
	} else {
		other.Error = why.Error()
	}
	return other
}

// Reports returns the rows to insert with a change of a task, which has a parent if that is not nil: a task that reports
// the end of the child, if the change ends it.
func (c *Core) Reports(now time.Time, parent *task.Parent, change *task.Change) []*task.Task {
	if parent == nil || c.config.Report == nil || change.To != task.Done && change.To != task.Failed && change.To != task.Cancelled {
		return nil // a task in error may go on
	}
	row := c.config.Report(now, parent, change.ID, change.To)
	c.Rules(row.Type).Create(now, row)
	return []*task.Task{row}
}

// following returns the rows to insert with the end of an attempt with the verdict v.
func (c *Core) following(now time.Time, v *task.Verdict) []*task.Task {
	if v.Rerun == nil || v.Outcome != task.Completed {
		return nil
	}
	for _, t := range v.Rerun.Rows {
		c.Rules(t.Type).Create(now, t)
	}
	return v.Rerun.Rows
}

// concluded returns the conclusion from the verdict v on the attempt of r.
func (c *Core) concluded(now time.Time, r *run, v *task.Verdict) task.Conclusion {
	r.is.Ref = r.ref
	end := task.Conclude(now, &r.is, *v, r.rules, c.config.Chance)
	if end.Slowed {
		c.stats.Slowed++
	}
	return end
}

// Earlier returns the save that follows from the verdict v on the attempt of t. The attempt runs in the row, but this node has not
// begun it. The caller makes the save, and leaves the deletion of a row to the cleaner.
func (c *Core) Earlier(now time.Time, t *task.Task, v task.Verdict) Save {
	is, rules := task.RunningOf(t), c.Rules(t.Type)
	save := Save{Change: task.Conclude(now, &is, v, rules, c.config.Chance).Change, Type: t.Type}
	save.Follow = append(c.following(now, &v), c.Reports(now, t.Parent, &save.Change)...)
	c.document(now, &save, &v, &is, rules)
	return save
}

// save asks to make a change of a task of a type, and to delete the row with it if remove is set.
func (c *Core) save(typ string, change task.Change, remove bool) {
	save := c.newSave()
	save.Change, save.Type, save.Remove = change, typ, remove
}

// newSave adds a save to fill. It is valid until the next one is added.
func (c *Core) newSave() *Save {
	c.saving++
	c.ready.Saves = append(c.ready.Saves, Save{})
	return &c.ready.Saves[len(c.ready.Saves)-1]
}

// Saves returns the saves that were not taken yet. The caller must not change them.
func (c *Core) Saves() []Save { return c.ready.Saves }

// Saved answers a save. t is the row as it is now. It is nil if the save was too late, because the
// task was changed since.
func (c *Core) Saved(now time.Time, s *Save, t *task.Task) {
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

// enforceTimeouts stops the runs that have reached their deadline. If the grace period of such a run
// is over, too, and its handler has not returned, the run is given up: its attempt has timed out. Its
// slot stays taken until the handler returns.
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
		c.conclude(now, r, &task.Verdict{Outcome: task.TimedOut, Error: errOverdue, Delay: -1})
	}
}

// timeUp returns when a run with a deadline has to be stopped or, if it was stopped, when it has to be
// given up.
func (r *run) timeUp() time.Time {
	if r.stopped {
		return r.deadline.Add(r.policy.Timeout.Grace)
	}
	return r.deadline
}
