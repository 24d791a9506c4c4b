package shell

import (
	"time"

	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// Written answers a batch that the store has committed.
func (s *Shell) Written(now time.Time, b *Batch, out storage.Outcome) {
	s.written(now, b, out)
	s.serve(now)
}

func (s *Shell) written(now time.Time, b *Batch, out storage.Outcome) {
	l := &s.lanes[b.Lane]
	l.answered(b)
	s.isOvertaken = b.number <= s.counted
	if b.probe != nil { // the store works, and something in the batch is refused
		s.divide(now, l, b.probe.b, b.probe.err)
		return
	}
	if len(out.Elsewhere) > 0 {
		s.requeue(now, b, &out)
	}
	s.inserted(now, b, out.Inserted)
	swapped := out.Swapped
	for i := range b.saves {
		save := &b.saves[i]
		if why := out.ConflictOf(i); why != nil && swapped[i] == nil {
			s.conflicted(now, save, why)
			continue
		}
		s.saved(now, save, swapped[i])
		for j, in := range out.FollowedBy(i) {
			s.Inserted(now, save.Follow[j], in)
		}
	}
	s.grabbedHeads(now, b, out.Grabbed)
	swapped = swapped[len(b.saves):]
	for i := range b.grabs {
		s.grabbed(now, b.grabs[i].Ref, swapped[i])
	}
	swapped = swapped[len(b.grabs):]
	for i, ed := range b.edits {
		s.edited(now, ed, swapped[i])
		for j, in := range out.FollowedBy(len(b.saves) + len(b.grabs) + i) {
			s.Inserted(now, ed.Follow[j], in)
		}
	}
	if b.Do.Terms != nil { // after the grabs: the grabs of the earlier rows have come too late
		for _, in := range out.Inserted {
			if in.Replaced != nil {
				s.replaced(now, in.Replaced)
			}
		}
	}
	for _, t := range out.Carriers {
		s.Inserted(now, t, storage.Inserted{})
	}
	for _, h := range out.Heads {
		s.core.Promoted(now, h)
	}
	if !b.NoSync {
		s.works(now, l)
	}
}

// inserted passes the outcome of the inserts of a batch to the core, and answers submissions when all
// of their rows are answered.
func (s *Shell) inserted(now time.Time, b *Batch, inserted []storage.Inserted) {
	for i := range b.parts {
		p := &b.parts[i]
		n := len(p.rows)
		for j, t := range p.rows {
			s.Inserted(now, t, inserted[j])
		}
		if p.places == nil {
			p.sub.Inserted = inserted[:n:n]
		}
		for j, place := range p.places {
			p.sub.Inserted[place] = inserted[j]
		}
		inserted = inserted[n:]
		s.answer(p, nil)
	}
}

// answer answers the submission of p if p is its last part.
func (s *Shell) answer(p *part, err error) {
	sub := p.sub
	if err != nil && sub.err == nil {
		sub.err = err
	}
	if sub.left -= len(p.rows); sub.left == 0 {
		s.unclaim(sub)
		s.effects.Replies = append(s.effects.Replies, Reply{Submission: sub, Err: sub.err})
	}
}

// Inserted passes the outcome of the insert of a row to the core: it was inserted, or the store has
// another task of its ID or key. The caller calls it for the rows of its own transactions.
func (s *Shell) Inserted(now time.Time, t *task.Task, in storage.Inserted) {
	if in.Existing != t.ID { // otherwise an earlier transaction added it, and may still be uncertain
		s.confirm(t.Ref())
	}
	if in.Created() {
		s.follow(task.Processing, t)
	}
	s.core.Inserted(now, t, in.Created())
}

// grabbed passes the outcome of a grab to the core.
func (s *Shell) grabbed(now time.Time, ref task.Ref, t *task.Task) {
	if t != nil {
		s.confirm(t.Ref())
		s.follow(task.Submitted, t)
	}
	if len(s.refusals) > 0 {
		delete(s.refusals, ref.ID)
	}
	s.core.Grabbed(now, ref, t, false)
}

// grabbedHeads passes the outcome of the grabs of heads to the core: for each save of b that has one, in their order,
// the row that was grabbed. A nil slice means that none was.
func (s *Shell) grabbedHeads(now time.Time, b *Batch, heads []*task.Task) {
	for i := range b.saves {
		save := &b.saves[i]
		if save.Head == nil {
			continue
		}
		var t *task.Task
		if len(heads) > 0 {
			t, heads = heads[0], heads[1:]
		}
		if t != nil {
			s.confirm(t.Ref())
			s.follow(task.Submitted, t)
		}
		save.Head = nil
		s.core.GrabbedHead(now, save.ID, t)
	}
}

// saved passes the outcome of a save to the core.
func (s *Shell) saved(now time.Time, save *core.Save, t *task.Task) {
	if len(s.finishes) > 0 {
		if s.finishes[save.Ref] != nil && t != nil && t.OrderingKey != "" { // the transaction may have done it
			s.core.LookForHead(t.OrderingKey)
		}
		delete(s.finishes, save.Ref)
	}
	if len(s.stuck) > 0 {
		s.unstick(now, save.Ref)
	}
	if save.Moves() {
		s.follow(task.Submitted, t)
	} else {
		s.follow(task.Processing, t)
	}
	if p := s.places[save.ID]; p != nil && p.isUsed {
		s.giveUp(p)
	}
	s.core.Saved(now, save, t)
}

// conflicted passes on to the core that a save was not made because of a document.
func (s *Shell) conflicted(now time.Time, save *core.Save, why *task.DocumentConflict) {
	if len(s.finishes) > 0 {
		delete(s.finishes, save.Ref)
	}
	if len(s.stuck) > 0 {
		s.unstick(now, save.Ref)
	}
	s.core.Conflicted(save, why)
}

// edited passes the outcome of a change by a person to the core, and answers the person.
func (s *Shell) edited(now time.Time, ed *Edit, t *task.Task) {
	from := ed.From
	if signal := ed.Change.Signal; signal != nil && t != nil {
		if from = task.Waiting; t.Woken().Signal.ID != signal.ID { // the task has kept it
			ed.After, ed.failed = t, nil
			t = nil
		}
	}
	if t != nil {
		ed.After = t
		if p := s.places[t.ID]; p != nil {
			s.giveUp(p)
		}
		s.follow(from, t)
		if was := ed.Was; was != nil {
			was.Version = t.Version
			s.core.Left(now, *was)
		}
		s.core.Changed(now, t)
		ed.failed = nil
	}
	s.effects.Replies = append(s.effects.Replies, Reply{Edit: ed, Err: ed.failed}) // an earlier try may have made it
}

// replaced passes a row to the core that a request has replaced.
func (s *Shell) replaced(now time.Time, r *storage.Replacement) {
	s.confirm(r.Row.Ref())
	s.follow(r.Was.State, r.Row)
	was := r.Was
	was.Version = r.Row.Version
	s.core.Left(now, was)
	s.core.Changed(now, r.Row)
}

// ReplaceUncertain reports that a transaction which the shell does not see may change a row at ref, or has changed it:
// the answer to a commit of the caller may be lost, or the transaction was one of another program.
func (s *Shell) ReplaceUncertain(now time.Time, ref task.Ref) {
	s.uncertain.add(ref.ID, s.steady(now), ref.Version+1, false)
	s.effects.Check = true
}

// Replaced reports the commit of the transaction.
func (s *Shell) Replaced(now time.Time, r *storage.Replacement) {
	s.replaced(now, r)
	if r.Row.OrderingKey != "" { // the store does not promote in a transaction that a caller may keep open
		s.core.LookForHead(r.Row.OrderingKey)
	}
}

// works ends an outage of a lane: its store has written something.
func (s *Shell) works(now time.Time, l *lane) {
	if !l.isAway {
		if !s.held.IsEmpty() {
			s.hold(now)
		}
		return
	}
	s.log(Info, "the store can be written again", "after", s.steady(now).Sub(l.awaySince))
	l.isAway, l.probeAt = false, time.Time{}
	s.effects.Check = s.effects.Check || s.uncertain.len() > 0
	s.limitGrabs(now)
	s.hold(now)
	s.retryAllStuck(now)
}
