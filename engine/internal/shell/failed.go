package shell

import (
	"errors"
	"slices"
	"time"

	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// saveRetry is the rest of a lane after a failed commit.
const saveRetry = 250 * time.Millisecond

// During an outage nothing is grabbed except for a few tasks in each interval, which find out
// whether the store can be written again.
const (
	probeEvery = time.Second
	probeGrabs = 8
)

// failure is a batch that failed.
type failure struct {
	b   *Batch
	err error
}

// Failed answers a batch that failed. An error that says that the store cannot be written begins an
// outage. If the store works all the same, the batch is divided until each refused item is alone.
func (s *Shell) Failed(now time.Time, b *Batch, err error) {
	s.failed(now, b, err)
	s.serve(now)
}

func (s *Shell) failed(now time.Time, b *Batch, err error) {
	l := &s.lanes[b.Lane]
	l.answered(b)
	s.grabbedHeads(now, b, nil) // a head that was grabbed all the same is found by the comparison of the store with the core
	b.Do.Heads = nil
	refused, blocked := errors.Is(err, storage.ErrRefused), (*storage.Blocked)(nil)
	b.undone = refused || errors.Is(err, storage.ErrUndone)
	l.pending.keys, b.keys = append(l.pending.keys, b.keys...), nil
	switch {
	case b.probe != nil: // not even an empty batch is committed
		s.outage(now, l, b.probe.b, b.probe.err)
	case b.NoSync: // commit them with the other grabs: their batch is divided if the store refuses one
		s.log(Error, "the store refused a batch of relaxed grabs; they are committed like other grabs", "error", err)
		s.markUncertain(b, now)
		l.pending.grabs = append(l.pending.grabs, b.grabs...)
	case storage.IsOutage(err):
		s.outage(now, l, b, err)
	case s.config.Aside && errors.As(err, &blocked):
		s.setApart(now, l, b, blocked)
	case len(b.Do.Notes) > 0 && b.undone: // perhaps because of the notes, which no code depends on
		b.Do.Notes = nil
		l.again = append(l.again, b)
	case refused || b.isTried:
		s.divide(now, l, b, err)
	default:
		l.doubts = append(l.doubts, failure{b, err})
	}
}

// outage begins or continues an outage of a lane: the batch and everything that waits for another try
// have failed.
func (s *Shell) outage(now time.Time, l *lane, b *Batch, err error) {
	isFatal := errors.Is(err, storage.ErrBroken) || errors.Is(err, storage.ErrClosed)
	level, text := Debug, "the store cannot be written"
	switch {
	case isFatal && s.failure == nil:
		s.failure = err
	case !isFatal && !l.isAway:
		l.awaySince = s.steady(now)
		level, text = Error, text+"; the engine tries again"
	}
	if !isFatal {
		s.log(level, text, "error", err)
	}
	failed := append([]failure{{b, err}}, l.doubts...)
	for _, b := range slices.Concat(l.again, l.alone) {
		failed = append(failed, failure{b, err})
	}
	l.doubts, l.again, l.alone = nil, nil, nil
	var saves []core.Save
	for _, f := range failed {
		s.postpone(now, f)
		saves = append(saves, f.b.saves...)
	}
	l.isAway, l.restsUntil = true, s.steady(now).Add(saveRetry)
	if l.probeAt.IsZero() {
		l.probeAt = s.steady(now).Add(probeEvery)
	}
	s.limitGrabs(now)
	s.hold(now)
	if isFatal {
		return
	}
	for _, save := range saves {
		if k := s.stuck[save.Ref]; k != nil {
			s.keepStuck(now, save, err, true)
		}
	}
	l.pending.saves = append(s.withoutStuck(saves), l.pending.saves...)
}

// postpone handles a batch that failed in an outage: callers get the error, grabs are dropped for
// now, and all tasks are uncertain unless nothing was written. The saves are for the caller of
// postpone to keep.
func (s *Shell) postpone(now time.Time, f failure) {
	b := f.b
	if !b.undone {
		s.markUncertain(b, now)
	}
	s.deny(now, b, f.err)
	for _, g := range b.grabs {
		s.core.Grabbed(now, g.Ref, nil, true)
	}
}

// deny answers the callers of a batch that their requests were not written, or may not have been.
func (s *Shell) deny(now time.Time, b *Batch, err error) {
	for i := range b.parts {
		for _, t := range b.parts[i].rows {
			s.core.Inserted(now, t, false)
		}
		s.answer(&b.parts[i], err)
	}
	for _, ed := range b.edits {
		s.effects.Replies = append(s.effects.Replies, Reply{Edit: ed, Err: err})
	}
}

// divide bisects a batch that failed in a store that works: its halves are committed, and halves that
// fail are divided again, until each refused item is alone. It denies submissions that may have been
// written: their tasks may have run and been removed since, so another try could run them twice.
func (s *Shell) divide(now time.Time, l *lane, b *Batch, err error) {
	b.isTried = true
	if !b.undone {
		s.markUncertain(b, now)
		for _, ed := range b.edits {
			ed.failed = err
		}
		if n := len(b.parts); n > 0 {
			s.deny(now, b.piece(0, n), err)
			b = b.piece(n, b.size())
		}
	}
	if s.config.Aside && b.undone && errors.Is(err, storage.ErrBusy) {
		s.freeSlots(now, b)
	}
	switch n := b.size(); n {
	case 0:
	case 1:
		if b.isAlone || !s.config.Aside || !errors.Is(err, storage.ErrBusy) {
			s.refuse(now, b, err)
		} else {
			s.setAlone(now, l, b, err)
		}
	default:
		l.again = append(l.again, b.piece(0, n/2), b.piece(n/2, n))
	}
}

// maxAlone is how many items may wait to be tried alone. Others are refused without a try.
const maxAlone = 1000

// setAlone queues an item that may have to wait for a lock: it is committed alone, beside the other
// batches.
func (s *Shell) setAlone(now time.Time, l *lane, b *Batch, err error) {
	s.freeSlots(now, b)
	if b.isAlone = true; len(l.alone) >= maxAlone {
		s.refuse(now, b, err)
		return
	}
	l.alone = append(l.alone, b)
}

// freeSlots gives back the slots of a batch that was not done and that may have to wait for locks.
func (s *Shell) freeSlots(now time.Time, b *Batch) {
	if b.yielded {
		return
	}
	for i := range b.parts {
		for _, t := range b.parts[i].rows {
			if t.State == task.Processing {
				s.core.Unclaim(now, t)
			}
		}
	}
	s.yield(now, b)
}

// setApart splits a batch: each item that needs a row locked by others is tried alone, and the rest at once. Nothing of
// the batch was done.
func (s *Shell) setApart(now time.Time, l *lane, b *Batch, blocked *storage.Blocked) {
	isLeft := make([]bool, len(b.Do.Insert)+len(b.Do.Swap))
	for _, row := range blocked.Rows {
		isLeft[row] = true
	}
	all := make([]bool, len(b.saves))
	for i := range all {
		all[i] = true
	}
	s.keepNotes(b, all)
	rest, at := &Batch{Lane: b.Lane}, 0
	for i := range b.size() {
		one, n := b.piece(i, i+1), 1
		if len(one.parts) > 0 {
			n = len(one.parts[0].rows)
		}
		if slices.Contains(isLeft[at:at+n], true) {
			s.setAlone(now, l, one, blocked.Err)
		} else {
			rest.parts, rest.saves = append(rest.parts, one.parts...), append(rest.saves, one.saves...)
			rest.grabs, rest.edits = append(rest.grabs, one.grabs...), append(rest.edits, one.edits...)
		}
		at += n
	}
	p := l.pending
	p.parts, p.saves = append(rest.parts, p.parts...), append(rest.saves, p.saves...)
	p.grabs, p.edits = append(rest.grabs, p.grabs...), append(rest.edits, p.edits...)
	if b.yielded {
		s.giveBack(now, p) // their slots belong to others
	}
}

// refuse handles one item that the store refused. A caller gets the error. A save or a grab is
// tried again alone, after pauses that grow.
func (s *Shell) refuse(now time.Time, b *Batch, err error) {
	s.deny(now, b, err)
	for _, save := range b.saves {
		s.keepStuck(now, save, err, false)
	}
	for _, g := range b.grabs {
		s.core.Refused(now, g.Ref, s.refusedGrab(now, g.ID, err))
	}
	s.refused++
	if s.refusedLine.allow(s.steady(now)) {
		s.log(Error, "the store refuses to write an item, and writes others", "id", b.first(), "error", err)
	}
}

// probe tries whether an outage is over: it permits some grabs or, where there are other lanes,
// commits an empty batch.
func (s *Shell) probe(now time.Time, l *lane) {
	if l.probeAt = (time.Time{}); !l.isAway || s.closing {
		return
	}
	l.probeAt = s.steady(now).Add(probeEvery)
	if len(s.lanes) == 1 {
		s.core.LimitGrabs(now, probeGrabs)
	} else if l.left()+len(l.underWay) == 0 && l.pending.empty() {
		l.again = append(l.again, &Batch{Lane: l.pending.Lane})
	}
}

// limitGrabs stops grabs during an outage.
func (s *Shell) limitGrabs(now time.Time) {
	limit := -1
	if len(s.lanes) == 1 && s.lanes[0].isAway {
		limit = 0
	}
	s.core.LimitGrabs(now, limit)
}
