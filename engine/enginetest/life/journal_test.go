package life

import (
	"fmt"
	"strings"
	"time"

	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

// step is one change of a row in the store.
type step struct {
	change  task.Change // the zero Change if the row was inserted
	row     task.Task   // as it is then
	removed bool        // with that version
	at      time.Time
	by      *node // nil if no node made it
}

// run is one call of a handler.
type run struct {
	ref      task.Ref
	n        *node
	began    time.Time
	ended    time.Time // zero while it runs
	verdict  task.Verdict
	finished bool // the handler may have finished the task in a transaction
	killed   bool // with its node
	expires  time.Time
}

// story is everything known about one task. It is guarded by world.mu.
type story struct {
	id       task.ID
	row      task.Task // the newest
	steps    []step
	runs     []*run
	accepted bool // a caller got a receipt for it
	created  int  // how many callers got a receipt that they have added it
	removed  bool
	moved    bool // it has got another time, or has begun again
	cancels  int  // how often operators have asked to cancel or fail it
	resumes  int  // how often they have wanted it to run again
	crashes  int  // since it last began again
	notes    []remark
}

// remark is an event that does not change the row.
type remark struct {
	at   time.Time
	what string
	by   string
}

func (s *story) remark(what, by string) { s.notes = append(s.notes, remark{time.Now(), what, by}) }

// live reports whether the engine still has to do something with the task.
func (s *story) live() bool { return !s.removed && s.row.State.Live() }

// runOf returns the call of a handler with a version.
func (s *story) runOf(ref task.Ref) *run {
	for _, r := range s.runs {
		if r.ref == ref {
			return r
		}
	}
	return nil
}

// stepTo returns the change that made a version.
func (s *story) stepTo(version uint64) *step {
	for i := range s.steps {
		if s.steps[i].row.Version == version && !s.steps[i].removed {
			return &s.steps[i]
		}
	}
	return nil
}

// revived reports whether a person has resumed the task after it had ended, after a version.
func (s *story) revived(after uint64) bool {
	ended := false
	for i := range s.steps {
		st := &s.steps[i]
		if ended && st.row.State.Live() {
			return true
		}
		ended = st.row.Version > after && !st.row.State.Live()
	}
	return false
}

// journal records the changes of a transaction, and checks each of them. It is called at the end of
// the transaction.
func (w *world) journal(n *node, steps []step) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range steps {
		st := &steps[i]
		st.at, st.by = time.Now(), n
		st.row.Payload, st.row.Notes = nil, nil
		s := w.stories[st.row.ID]
		switch {
		case s == nil:
			s = &story{id: st.row.ID, row: st.row}
			w.stories[s.id] = s
			w.order = append(w.order, s.id)
			if s.row.State == task.Processing && s.row.OrderingKey != "" {
				w.failAt(s, "it has an ordering key and begins with its submit")
			}
			if s.live() {
				w.live++
			}
			if n == nil {
				s.accepted = true
			}
			if st.row.Headers["parent"] != "" {
				s.accepted = true
				w.checkChild(s, steps)
			}
		case st.removed:
			if s.live() {
				w.failAt(s, "it was removed though it had not ended")
				w.live--
			}
			s.removed = true
			if w.owners[s.row.OrderingKey] == s {
				delete(w.owners, s.row.OrderingKey)
			}
		default:
			before, was := s.row, s.live()
			s.row = st.row
			if is := s.live(); was != is {
				if is {
					w.live++
				} else {
					w.live--
				}
			}
			w.checkChange(s, &before, st)
			w.checkOrder(s, &before, st)
			w.checkChildren(s, &before, st, steps)
		}
		s.steps = append(s.steps, *st)
	}
}

// checkChild checks that a task which another has added is added together with the change of that.
func (w *world) checkChild(s *story, steps []step) {
	for i := range steps {
		if p := &steps[i]; isChild(&s.row, p.change.Ref) && p.change.To == task.Waiting && p.change.Outcome == task.Completed {
			return
		}
	}
	w.failAt(s, "it was added, and its parent does not run again by that transaction")
}

// checkChildren checks that a task which runs again adds all tasks that its handler asked for, and that
// no other change does.
func (w *world) checkChildren(s *story, before *task.Task, st *step, steps []step) {
	added, asked := 0, 0
	for i := range steps {
		if steps[i].change.ID.IsZero() && isChild(&steps[i].row, before.Ref()) {
			added++
		}
	}
	if r := s.runOf(before.Ref()); r != nil && st.change.To == task.Waiting && st.change.Outcome == task.Completed && r.verdict.Rerun != nil {
		asked = len(r.verdict.Rerun.Tasks)
	}
	if added != asked {
		w.failAt(s, "%d tasks were added after version %d, and its handler asked for %d", added, before.Version, asked)
	}
	w.children += added
}

// isChild reports whether a row was added after a version of another task.
func isChild(row *task.Task, parent task.Ref) bool {
	return row.Headers["parent"] == parent.ID.String() && row.Headers["after"] == fmt.Sprint(parent.Version)
}

// checkChange checks one change of a row.
func (w *world) checkChange(s *story, before *task.Task, st *step) {
	c, typ := &st.change, w.plan.typeOf(st.row.Type)
	switch {
	case c.Ref != before.Ref():
		w.failAt(s, "version %d was changed, and it is at %d", c.Version, before.Version)
	case st.row.State == task.Processing:
		w.checkGrab(s, before, st, typ)
	case before.State == task.Processing:
		w.checkEnd(s, before, st, typ)
	case st.row.State == task.Submitted && before.State == task.Waiting && s.resumes == 0 && task.Stamp(c.At).Before(before.NextEventAt):
		w.failAt(s, "it became ready at %s, and was to wait until %s", w.since(c.At), w.since(before.NextEventAt))
	case st.row.State == task.Error && (before.NextEventAt.IsZero() || task.Stamp(c.At).Before(before.NextEventAt)):
		w.failAt(s, "it became an error before its time was over")
	}
	if c.Count == task.Reset {
		s.crashes = 0
	}
}

// checkGrab checks that a start is allowed.
func (w *world) checkGrab(s *story, before *task.Task, st *step, typ policy.Type) {
	c := &st.change
	if st.by != nil {
		if was, ok := w.incarnations[c.Owner]; ok && was != st.by {
			w.failAt(s, "it was grabbed for an incarnation of another node")
		}
		w.incarnations[c.Owner] = st.by
	}
	if before.State == task.Waiting && s.resumes == 0 && task.Stamp(c.At).Before(before.NextEventAt) {
		w.failAt(s, "it was grabbed at %s, and was to wait until %s", w.since(c.At), w.since(before.NextEventAt))
	}
	if typ.MaxCrashes > 0 && st.row.Crashes >= typ.MaxCrashes {
		w.failAt(s, "it is begun after %d crashes in a row, of %d", st.row.Crashes, typ.MaxCrashes)
	}
	if most := uint32(typ.Retry.Max + s.crashes); st.row.Attempt > most {
		w.failAt(s, "attempt %d begins, of %d", st.row.Attempt, most)
	}
}

// overdue returns how long after the queue timeout a grab came.
func (s *story) overdue(version uint64) time.Duration {
	st, before := s.stepTo(version), s.stepTo(version-1)
	if st == nil || before == nil || before.row.State != task.Submitted || before.row.NextEventAt.IsZero() {
		return 0
	}
	return task.Stamp(st.change.At).Sub(before.row.NextEventAt)
}

// checkEnd checks that an attempt ended as its handler did.
func (w *world) checkEnd(s *story, before *task.Task, st *step, typ policy.Type) {
	c, r := &st.change, s.runOf(before.Ref())
	answered := r != nil && !r.ended.IsZero() && !r.killed
	said := func(o task.Outcome) bool { return answered && r.verdict.Outcome == o }
	switch c.Outcome {
	case task.Completed:
		if !(r != nil && r.finished) && !said(task.Completed) {
			w.failAt(s, "version %d is said to be completed, and its handler did not say so", c.Version)
		}
	case task.Errored, task.Snoozed:
		if !said(c.Outcome) {
			w.failAt(s, "version %d is said to be %s, and its handler did not say so", c.Version, c.Outcome)
		}
	case task.HandedBack:
		if r != nil && !said(task.HandedBack) {
			w.failAt(s, "version %d was handed back as if it had not begun, and its handler was called", c.Version)
		}
	case task.Crashed:
		s.crashes++
		if said(task.Crashed) {
			break
		}
		if owner := w.incarnations[before.Owner]; owner != nil && !owner.isDead() && !w.hasEnded(before.Owner) {
			w.failAt(s, "version %d was taken from a node that lives", c.Version)
		}
	case task.Interrupted:
		if strings.Contains(c.Error, "nothing of it was under way") {
			w.failAt(s, "the node had lost track of version %d", c.Version)
		}
		if owner := w.incarnations[before.Owner]; !said(task.Interrupted) && owner != nil && !owner.closing.Load() && !owner.isDead() && !w.hasEnded(before.Owner) {
			w.failAt(s, "version %d was interrupted on a node that goes on", c.Version)
		}
	case task.TimedOut:
		w.checkTimeout(s, st, r, typ)
	case task.Overruled:
		if s.cancels == 0 {
			w.failAt(s, "version %d was overruled, and no person wanted that", c.Version)
		}
	}
	if st.row.State == task.Error {
		w.checkError(s, st, r, typ)
	}
}

// checkTimeout checks that an attempt ran out of time.
func (w *world) checkTimeout(s *story, st *step, r *run, typ policy.Type) {
	if r == nil {
		w.failAt(s, "version %d ran out of time, and its handler had not been called", st.change.Version)
		return
	}
	deadline := r.began.Add(typ.Timeout.Run)
	if !r.expires.IsZero() && r.expires.Before(deadline) {
		deadline = r.expires
	}
	switch answered := !r.ended.IsZero(); {
	case st.change.At.Before(task.Stamp(deadline)):
		w.failAt(s, "version %d ran out of time at %s, and had until %s", st.change.Version, w.since(st.change.At), w.since(deadline))
	case answered && r.ended.Before(deadline):
		w.failAt(s, "version %d ran out of time, and its handler had answered at %s, of %s", st.change.Version, w.since(r.ended), w.since(deadline))
	case answered && r.verdict.Outcome == task.Completed && r.ended.Before(deadline.Add(typ.Timeout.Grace)):
		w.failAt(s, "version %d ran out of time, and its handler had completed it within the grace period", st.change.Version)
	}
}

// checkError checks that there is a reason for the state error after an attempt.
func (w *world) checkError(s *story, st *step, r *run, typ policy.Type) {
	why, ok := st.row.LastError, false
	switch {
	case strings.Contains(why, "it may have taken effect"):
		ok = typ.Delivery == policy.AtMostOnce && (st.change.Outcome != task.Errored || r != nil && r.verdict.InDoubt)
	case strings.Contains(why, fmt.Sprintf("attempt %d of %d", st.row.Attempt, typ.Retry.Max)):
		ok = int(st.row.Attempt) >= typ.Retry.Max
	case strings.Contains(why, "expire"):
		ok = !st.row.ExpiresAt.IsZero()
	case st.change.Outcome == task.Crashed:
		ok = typ.MaxCrashes > 0 && st.row.Crashes >= typ.MaxCrashes
	case r != nil && !r.ended.IsZero():
		ok = r.verdict.GiveUp
	}
	if !ok {
		why, _, _ = strings.Cut(why, "\n")
		w.failAt(s, "it became an error for no reason: %s", why)
	}
}
