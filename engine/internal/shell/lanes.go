package shell

import (
	"slices"
	"time"

	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// slowCommit is how long a commit may take before the tasks of its lane are held, if there are other
// lanes.
const slowCommit = time.Second

// lane has the pending commits of one database.
type lane struct {
	pending  *Batch    // requests that are in no batch yet
	again    []*Batch  // pieces of batches that failed, and single items: each is committed as it is
	isAgain  bool      // of again and the others, the last batch was from again
	isNoSync bool      // of relaxed grabs and the rest of pending, the last batch was of relaxed grabs
	alone    []*Batch  // single items that need rows another transaction may keep locked
	doubts   []failure // batches that failed although the store may work: an empty batch finds out
	underWay []*Batch  // given out by Next, and not answered

	restsUntil time.Time // steady: nothing is committed before; zero if it does not rest
	backAt     time.Time // steady: when rows that the database left out were last put back into this lane
	isAway     bool      // nothing was written since the last outage began
	awaySince  time.Time // steady
	probeAt    time.Time // steady: when it is tried whether the outage is over; zero if it is not away
}

// left returns the number of failed batches to try again.
func (l *lane) left() int { return len(l.again) + len(l.alone) + len(l.doubts) }

// laneOf returns the lane of a task.
func (s *Shell) laneOf(id task.ID) *lane { return &s.lanes[s.laneNumber(id)] }

func (s *Shell) laneNumber(id task.ID) int {
	if len(s.lanes) == 1 {
		return 0
	}
	return s.config.LaneOf(id.Shard())
}

// distribute puts the effects of the core into the lanes of their tasks.
func (s *Shell) distribute(r *core.Ready) {
	for _, save := range r.Saves {
		b := s.laneOf(save.ID).pending
		b.saves = append(b.saves, save)
	}
	for _, g := range r.Grabs {
		b := s.laneOf(g.ID).pending
		b.grabs = append(b.grabs, g)
	}
	for _, g := range r.Relaxed {
		s.laneOf(g.ID).pending.addRelaxed(s.config.NoSync, g)
	}
	for _, key := range r.Keys {
		b := s.lanes[s.config.LaneOf(task.ShardOf(key))].pending
		b.keys = append(b.keys, key)
	}
	for _, sub := range s.submitted {
		places := make([]int, len(sub.Rows))
		for i := range places {
			places[i] = i
		}
		s.split(sub, places)
	}
}

// split puts rows of a submission into the lanes of their databases.
func (s *Shell) split(sub *Submission, places []int) {
	parts := make([]part, len(s.lanes))
	for _, place := range places {
		row := sub.Rows[place]
		p := &parts[s.laneNumber(row.ID)]
		p.sub, p.rows, p.places = sub, append(p.rows, row), append(p.places, place)
	}
	for lane := range parts {
		p := &parts[lane]
		switch {
		case p.sub == nil:
			continue
		case len(p.rows) == len(sub.Rows):
			p.rows, p.places = sub.Rows, nil
		case sub.Inserted == nil:
			sub.Inserted = make([]storage.Inserted, len(sub.Rows))
		}
		b := s.lanes[lane].pending
		b.parts = append(b.parts, *p)
	}
}

// hold has the core hold the tasks of the lanes that are away or slow, so that their tasks take no
// slots from the tasks of others. Slots that they have taken are given back.
func (s *Shell) hold(now time.Time) {
	if len(s.lanes) == 1 {
		return
	}
	var held task.Shards
	for shard := range uint16(task.ShardCount) {
		if s.isHeld(now, &s.lanes[s.config.LaneOf(shard)]) {
			held.Add(shard)
		}
	}
	if held != s.held {
		gone := s.held.Without(&held)
		s.effects.Released = s.effects.Released || !gone.IsEmpty()
		s.effects.Check = s.effects.Check || !gone.IsEmpty() && s.uncertain.len() > 0
		s.held, s.effects.Held = held, true
		s.core.Hold(now, held)
	}
	for i := range s.lanes {
		if l := &s.lanes[i]; s.isHeld(now, l) {
			s.giveBack(now, l.pending)
			for _, b := range l.given() {
				s.yield(now, b)
			}
		}
	}
}

// Held returns the lanes with held tasks.
func (s *Shell) Held(now time.Time) (lanes []int) {
	for i := range s.lanes {
		if len(s.lanes) > 1 && s.isHeld(now, &s.lanes[i]) {
			lanes = append(lanes, i)
		}
	}
	return lanes
}

// IsHeld reports whether the tasks of a shard are held, because their database does not answer.
func (s *Shell) IsHeld(shard uint16) bool { return s.held.Has(shard) }

// Probe makes each idle lane commit an empty batch: if that is slow, its tasks are held. The caller
// calls it if another call of the store is slow.
func (s *Shell) Probe() {
	for i := range s.lanes {
		if l := &s.lanes[i]; len(s.lanes) > 1 && l.left()+len(l.underWay) == 0 {
			l.again = append(l.again, &Batch{Lane: i})
		}
	}
}

func (s *Shell) isHeld(now time.Time, l *lane) bool {
	return l.isAway || slices.ContainsFunc(l.underWay, func(b *Batch) bool { return !b.isAlone && s.steady(now).Sub(b.since) >= slowCommit })
}

// giveBack ends the grabs of a pending batch.
func (s *Shell) giveBack(now time.Time, b *Batch) {
	for i := range b.parts {
		for _, t := range b.parts[i].rows {
			if t.State == task.Processing {
				s.core.Unclaim(now, t)
			}
		}
	}
	for _, grabs := range [][]task.Change{b.grabs, b.relaxed} {
		for _, g := range grabs {
			s.core.Grabbed(now, g.Ref, nil, true)
		}
	}
	b.grabs, b.relaxed = b.grabs[:0], b.relaxed[:0]
}

// given returns the batches that were given out and are not written.
func (l *lane) given() []*Batch {
	all := slices.Concat(l.again, l.alone, l.underWay)
	for _, b := range l.underWay {
		if b.probe != nil {
			all = append(all, b.probe.b)
		}
	}
	for _, d := range l.doubts {
		all = append(all, d.b)
	}
	return all
}

// yield frees the slots of a batch that may be written at any moment.
func (s *Shell) yield(now time.Time, b *Batch) {
	if b.yielded {
		return
	}
	b.yielded = true
	for i := range b.parts {
		for _, t := range b.parts[i].rows {
			if t.State == task.Processing {
				s.core.Yield(now, t.ID)
			}
		}
	}
	for _, g := range b.grabs {
		s.core.Yield(now, g.ID)
	}
}

// holdAt returns when the next call of hold is due after a Tick: a commit that is under way becomes
// slow, or tasks are held. Zero is never.
func (s *Shell) holdAt(ticked time.Time) (at time.Time) {
	if len(s.lanes) == 1 {
		return at
	}
	if !s.held.IsEmpty() {
		at = ticked.Add(probeEvery)
	}
	for i := range s.lanes {
		for _, b := range s.lanes[i].underWay {
			if slow := b.since.Add(slowCommit); !b.isAlone && slow.After(ticked) {
				at = earlier(at, slow)
			}
		}
	}
	return at
}

// requeue moves items that a database has left out of a batch to their present lanes, and removes them
// from the batch and its outcome.
func (s *Shell) requeue(now time.Time, b *Batch, out *storage.Outcome) {
	isLeft, isBack := make([]bool, len(b.Do.Insert)+len(b.Do.Swap)), false
	for _, i := range out.Elsewhere {
		isLeft[i] = true
		isBack = isBack || s.laneNumber(b.row(i)) == b.Lane
	}
	inserts, swaps := isLeft[:len(b.Do.Insert)], isLeft[len(b.Do.Insert):]
	s.requeueParts(b, inserts)
	out.Inserted = without(out.Inserted, inserts)
	saves, grabs, edits := swaps[:len(b.saves)], swaps[len(b.saves):][:len(b.grabs)], swaps[len(b.saves)+len(b.grabs):]
	s.keepNotes(b, saves)
	for i := range b.saves {
		if saves[i] {
			p := s.laneOf(b.saves[i].ID).pending
			p.saves = append(p.saves, b.saves[i])
		}
	}
	for i, g := range b.grabs {
		if grabs[i] {
			s.core.Grabbed(now, g.Ref, nil, true)
		}
	}
	for i, ed := range b.edits {
		if edits[i] {
			p := s.laneOf(ed.Change.ID).pending
			p.edits = append(p.edits, ed)
		}
	}
	b.saves, b.grabs, b.edits = without(b.saves, saves), without(b.grabs, grabs), without(b.edits, edits)
	out.Swapped = without(out.Swapped, swaps)
	if out.Followed != nil {
		out.Followed = without(out.Followed, swaps)
	}
	if isBack {
		s.lanes[b.Lane].putBack(s.steady(now))
	}
}

// putBack has the lane rest if rows were put back into it a moment ago: the store does not know better
// yet where they belong.
func (l *lane) putBack(steady time.Time) {
	if steady.Sub(l.backAt) < time.Second {
		l.restsUntil = steady.Add(saveRetry)
	}
	l.backAt = steady
}

// keepNotes keeps the notes of a batch for saves that are left out of it.
func (s *Shell) keepNotes(b *Batch, isLeft []bool) {
	for _, n := range b.Do.Notes {
		if i := slices.IndexFunc(b.saves, func(save core.Save) bool { return save.Ref == n.Ref }); i >= 0 && isLeft[i] {
			s.lastProgress[n.Ref] = *n.Progress
		}
	}
}

// requeueParts is requeue for parts of submissions.
func (s *Shell) requeueParts(b *Batch, isLeft []bool) {
	var kept []part
	for _, p := range b.parts {
		var left []int
		stays := part{sub: p.sub}
		for j, row := range p.rows {
			place := j
			if p.places != nil {
				place = p.places[j]
			}
			if isLeft[j] {
				left = append(left, place)
			} else {
				stays.rows, stays.places = append(stays.rows, row), append(stays.places, place)
			}
		}
		isLeft = isLeft[len(p.rows):]
		switch {
		case left == nil:
			kept = append(kept, p)
			continue
		case stays.rows != nil:
			kept = append(kept, stays)
			if p.sub.Inserted == nil {
				p.sub.Inserted = make([]storage.Inserted, len(p.sub.Rows))
			}
		}
		s.split(p.sub, left)
	}
	b.parts = kept
}

// without returns the elements of all that are not left out.
func without[T any](all []T, isLeft []bool) []T {
	kept := all[:0]
	for i := range all {
		if !isLeft[i] {
			kept = append(kept, all[i])
		}
	}
	clear(all[len(kept):])
	return kept
}
