package shell

import (
	"slices"
	"time"

	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// Finish is an attempt that its handler has ended in a transaction: the task is done, or runs again.
type Finish struct {
	Row     *task.Task // as the transaction wrote it
	Removed bool       // the transaction also deleted the row

	// Unread says that the transaction was not one of the engine, and that the row could not be read since:
	// it may have another state than Row.
	Unread bool
}

// end passes the verdict of an attempt to the core.
//
// If the handler finished the task in a transaction that is not known to have committed, the
// transaction was rolled back, or the answer to its commit was lost. The verdict is saved as
// usual: if the transaction did commit, the save comes too late, and Batch.Unsure names the task.
func (s *Shell) end(now time.Time, e *Ending) {
	if (e.Progress != nil || e.Finish != nil) && s.core.Counts(e.Ref) {
		if e.Progress != nil {
			s.lastProgress[e.Ref] = *e.Progress
		}
		if e.Finish != nil {
			s.finishes[e.Ref] = e.Finish
		}
	}
	if e.Finish != nil && e.Finish.Row.State.Live() { // its row is to be found, whether the save below is made or not
		s.uncertain.add(e.Ref.ID, s.steady(now), e.Finish.Row.Version, false)
		s.effects.Check = true
	}
	s.logSlowed(now, e.Ref, e.Type, func() { s.core.Handled(now, e.Ref.ID, e.Verdict) })
}

// logSlowed calls decide, which decides about the end of an attempt, and logs if the task rests longer
// than its handler asked for.
func (s *Shell) logSlowed(now time.Time, ref task.Ref, typ string, decide func()) {
	before := s.core.Stats().Slowed
	decide()
	if s.core.Stats().Slowed != before && s.slowedLine.allow(s.steady(now)) {
		s.log(Warn, "a handler asks again and again to run its task again at once: the task rests longer each time", "id", ref.ID, "type", typ)
	}
}

// Concluded returns the change that follows from the verdict on an attempt, for a transaction of its
// handler. ok is false if the attempt is over.
func (s *Shell) Concluded(now time.Time, e *Ending) (change task.Change, ok bool) {
	s.logSlowed(now, e.Ref, e.Type, func() { change, ok = s.core.Concluded(now, e.Ref, e.Verdict) })
	return change, ok
}

// Finished reports the commit of the transaction that a handler ended its attempt at ref in.
func (s *Shell) Finished(now time.Time, ref task.Ref, f *Finish) {
	s.confirm(f.Row.Ref())
	s.follow(task.Processing, f.Row)
	s.core.Finished(now, ref, f.Row)
}

// notesOf returns the last progress of the attempts that saves end.
func (s *Shell) notesOf(saves []core.Save) (notes []task.Note) {
	if len(s.lastProgress) == 0 {
		return nil
	}
	for _, save := range saves {
		if p, ok := s.lastProgress[save.Ref]; ok {
			notes = append(notes, task.Note{Ref: save.Ref, By: save.By, Progress: &p})
			delete(s.lastProgress, save.Ref)
		}
	}
	return notes
}

// finishesOf returns, by index into saves, the tasks that their handlers may have finished in a
// transaction. It is usually nil.
func (s *Shell) finishesOf(saves []core.Save) map[int]*Finish {
	if len(s.finishes) == 0 {
		return nil
	}
	found := make(map[int]*Finish)
	for i, save := range saves {
		if f, ok := s.finishes[save.Ref]; ok {
			found[i] = f
		}
	}
	return found
}

// Unsure calls fn for the changes of the batch that came too late, although the handler of the task
// may have finished it in a transaction. The caller reads the row: if it is that of the transaction,
// it is the result of the change, and fn returns true. The batch was written, with this outcome, and
// Unsure changes the outcome. It needs no lock.
func (b *Batch) Unsure(out *storage.Outcome, fn func(*Finish) bool) {
	for i, f := range b.finishes {
		_, isLeft := slices.BinarySearch(out.Elsewhere, len(b.Do.Insert)+i)
		if out.Swapped[i] == nil && !isLeft && fn(f) {
			out.Swapped[i] = f.Row
		}
	}
}
