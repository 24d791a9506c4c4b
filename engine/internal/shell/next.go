package shell

import (
	"iter"
	"slices"
	"time"

	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// HasWork reports whether Next has a batch for a lane.
func (s *Shell) HasWork(lane int) bool {
	l := &s.lanes[lane]
	return l.restsUntil.IsZero() && (!s.config.Aside && l.left() > 0 || !l.pending.empty())
}

// HasAside reports whether NextAside has a batch for a lane.
func (s *Shell) HasAside(lane int, alone bool) bool {
	l := &s.lanes[lane]
	return s.config.Aside && l.restsUntil.IsZero() && (alone && len(l.alone) > 0 || !alone && len(l.again)+len(l.doubts) > 0)
}

// NextAside is Next for the batches that Config.Aside keeps from Next: pieces of failed batches or, if alone is set,
// single items that may wait long for a lock. Such batches and batches of Next are committed beside each other.
func (s *Shell) NextAside(now time.Time, lane int, alone bool) (b *Batch) {
	if !s.HasAside(lane, alone) {
		return nil
	}
	l := &s.lanes[lane]
	switch {
	case alone:
		b, l.alone = l.alone[0], l.alone[1:]
		b.Do.Wait = storage.WaitLong
	case len(l.doubts) > 0:
		doubt := l.doubts[0]
		b, l.doubts = &Batch{Lane: lane, probe: &doubt}, l.doubts[1:]
		b.Do.Wait = storage.WaitLeast
	default:
		b, l.again = l.again[0], l.again[1:]
		b.Do.Wait = storage.WaitLeast
	}
	b.finishes = s.finishesOf(b.saves)
	s.give(now, l, b)
	return b
}

// give gives out a batch.
func (s *Shell) give(now time.Time, l *lane, b *Batch) {
	b.since = s.steady(now)
	s.batches++
	b.number = s.batches
	l.underWay = append(l.underWay, b)
}

// Next returns the next batch of a lane, or nil if there is nothing to commit. The caller has called
// Collect after the last event. It calls Fill, commits the batch, and answers it with Written or
// Failed. spare is a batch for reuse, see Batch.Reset; it may be nil. Next takes it if it returns a
// batch.
func (s *Shell) Next(now time.Time, lane int, spare *Batch) *Batch {
	if !s.HasWork(lane) {
		return nil
	}
	l := &s.lanes[lane]
	b := spare
	if b == nil {
		b = new(Batch)
	}
	b.Lane = lane
	switch p := l.pending; {
	case !s.config.Aside && len(l.doubts) > 0:
		doubt := l.doubts[0]
		b.probe, l.doubts = &doubt, l.doubts[1:]
	case !s.config.Aside && len(l.again) > 0 && (!l.isAgain || p.empty()):
		b, l.again, l.isAgain = l.again[0], l.again[1:], true
		b.finishes = s.finishesOf(b.saves)
	case len(p.relaxed) > 0 && (!l.isNoSync || p.size() == len(p.relaxed)):
		b.NoSync, b.grabs, p.relaxed = true, p.relaxed, b.grabs
		l.isAgain, l.isNoSync = false, true
	default:
		l.isAgain, l.isNoSync = false, false
		if b = s.takePending(l, b); b.empty() { // all of it is committed alone
			next := s.Next(now, lane, b)
			if next == nil && l.pending == spare { // the caller keeps spare
				*b, *spare = *spare, *b
				l.pending = b
			}
			return next
		}
	}
	s.give(now, l, b)
	return b
}

// largeBatch is from how many rows on a batch is large. Preparing fewer takes less time than a sync.
const largeBatch = 64

// IsLarge reports whether b is so large that the next batch of its lane, in a store of this process,
// is better made after the answer to b than before it. The caller has called Fill.
func (b *Batch) IsLarge() bool { return len(b.Do.Insert)+len(b.Do.Swap) >= largeBatch }

// takePending returns a batch of the pending requests, as far as they fit, except relaxed grabs and
// grabs that the store has refused before. It uses an empty batch.
func (s *Shell) takePending(l *lane, b *Batch) *Batch {
	if parts, saves, grabs, edits, all := l.pending.fits(); all {
		b, l.pending = l.pending, b
		b.relaxed, l.pending.relaxed = l.pending.relaxed, b.relaxed
	} else {
		l.pending.moveTo(b, parts, saves, grabs, edits)
	}
	s.separate(l, b)
	b.finishes, b.Do.Notes = s.finishesOf(b.saves), s.notesOf(b.saves)
	return b
}

// separate moves the grabs of b that were refused before out of it: each is committed alone.
func (s *Shell) separate(l *lane, b *Batch) {
	if len(s.refusals) == 0 {
		return
	}
	b.grabs = slices.DeleteFunc(b.grabs, func(g task.Change) bool {
		if s.refusals[g.ID] == nil {
			return false
		}
		s.retry(l, (&Batch{Lane: b.Lane, grabs: []task.Change{g}}).piece(0, 1))
		return true
	})
}

// answered removes a batch from those under way.
func (l *lane) answered(b *Batch) {
	at := slices.Index(l.underWay, b)
	if at < 0 {
		panic("shell: the answer to a batch that is not under way")
	}
	l.underWay = slices.Delete(l.underWay, at, at+1)
}

// unwritten returns the saves that are not written, including the saves of the core and of stuck.
func (s *Shell) unwritten() iter.Seq[core.Save] {
	return func(yield func(core.Save) bool) {
		var saves [][]core.Save
		for i := range s.lanes {
			l := &s.lanes[i]
			for _, b := range append(l.given(), l.pending) {
				saves = append(saves, b.saves)
			}
		}
		for _, some := range append(saves, s.core.Saves()) {
			for _, save := range some {
				if !yield(save) {
					return
				}
			}
		}
		for _, k := range s.stuck {
			if !yield(k.save) {
				return
			}
		}
	}
}

// IsSaving reports whether a change of a row is on its way to the store that ends an attempt, or
// moves a task that does not run.
func (s *Shell) IsSaving(ref task.Ref) bool {
	for save := range s.unwritten() {
		if save.Ref == ref {
			return true
		}
	}
	return false
}

// Saving returns the tasks with a version that IsSaving is true for.
func (s *Shell) Saving() map[task.ID]bool {
	ids := make(map[task.ID]bool)
	for save := range s.unwritten() {
		ids[save.ID] = true
	}
	return ids
}
