package engine

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"time"

	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/internal/workpool"
	"github.com/taskengine/taskengine/storage"
)

// saveRetry is the pause of a writer after a failed commit.
const saveRetry = 250 * time.Millisecond

// writeLoop commits what is pending until background ends and nothing is left.
func (e *Engine) writeLoop(background context.Context, number int) {
	b := &batch{writer: number}
	for {
		select {
		case <-e.write.C():
		case <-background.Done():
			for e.commit(b) == written {
			}
			e.warnings.log(e.log)
			return // the next start recovers what was not written
		}
		workpool.Gather(e.inbox.count)
		if e.noSyncer != nil {
			e.relax(e.noSyncer, b)
		}
		out := e.commit(b)
		e.warnings.log(e.log)
		if out == failed {
			_ = sleep(background, saveRetry)
		}
	}
}

// outcome is the outcome of a commit.
type outcome uint8

const (
	nothing outcome = iota // nothing was to be written
	written
	failed
)

// commit writes what is pending and passes the outcome to the core and to the callers.
func (e *Engine) commit(b *batch) (out outcome) {
	defer b.reset()
	err := e.transact(b, e.take)
	if len(b.do.Notes) > 0 && b.undone && !isOutage(err) { // perhaps because of the notes, which only people read
		b.do.Notes = nil
		err = e.transact(b, nil)
	}
	if !errors.Is(err, errNothing) {
		out = e.answer(b, err)
	}
	for _, g := range b.alone {
		out = max(out, e.commitAlone(&batch{writer: b.writer, grabs: []task.Change{g}}))
	}
	if len(b.saves) > 0 {
		e.mu.Lock()
		e.writing[b.writer] = nil
		e.mu.Unlock()
	}
	return out
}

// commitAlone commits one item that the store has refused before.
func (e *Engine) commitAlone(b *batch) outcome {
	b.isPiece = true
	b.fill()
	return e.answer(b, e.transact(b, nil))
}

// transact commits a batch. If take is not nil, transact calls it to fill the batch when the
// other writer has passed its batch to the store, so that the batch has all that arrived
// until then. take reports whether there is anything to commit.
func (e *Engine) transact(b *batch, take func(*batch) bool) (err error) {
	e.turn.Lock()
	if take != nil && !take(b) {
		e.turn.Unlock()
		return errNothing
	}
	c := e.store.Commit(context.Background(), &b.do)
	e.turn.Unlock()
	if b.done, err = c.Wait(); b.done.Lost != nil {
		e.log.Warn("the last progress of tasks was not written", "tasks", len(b.do.Notes), "error", b.done.Lost)
	}
	b.undone = errors.Is(err, storage.ErrUndone) || errors.Is(err, storage.ErrRefused)
	return err
}

// take moves what is pending into b, and the buffers of b back. It reports whether there is
// anything to commit.
func (e *Engine) take(b *batch) bool {
	e.mu.Lock()
	e.drainInbox()
	e.takeEffects()
	left := b.takeFrom(&e.pending)
	e.writing[b.writer] = b.saves
	b.finishes, b.do.Notes = e.finishesOf(b.saves), e.notesOf(b.saves)
	b.grabs = append(b.grabs, b.relaxed...)
	b.relaxed = b.relaxed[:0]
	e.separate(b)
	e.mu.Unlock()
	if left {
		e.write.Set()
	}
	b.fill()
	return !b.empty()
}

// notesOf returns the last progress of the attempts that saves end. It is called with mu held.
func (e *Engine) notesOf(saves []core.Save) (notes []task.Note) {
	if len(e.lastProgress) == 0 {
		return nil
	}
	for _, s := range saves {
		if p, ok := e.lastProgress[s.Ref]; ok {
			notes = append(notes, task.Note{Ref: s.Ref, Progress: &p})
			delete(e.lastProgress, s.Ref)
		}
	}
	return notes
}

// answer passes the outcome of a batch to the core and to the callers. If the store works and
// refuses the batch, answer divides it.
func (e *Engine) answer(b *batch, err error) outcome {
	switch {
	case err == nil:
		if e.down.Load() != nil {
			e.recovered()
		}
		e.committed(b)
		return written
	case errors.As(err, &b.part):
		if !isOutage(b.part.Err) {
			b.putAside()
		} else {
			e.partOutage(b.part)
		}
		e.committed(b)
		if b.rest != nil {
			b.rest.undone = errors.Is(b.part.Err, storage.ErrRefused)
			return e.divide(b.rest, b.part.Err)
		}
		return written
	case isOutage(err):
		e.uncommitted(b, err)
		return failed
	}
	return e.divide(b, err)
}

// committed passes the outcome of a batch to the core, and then to the callers.
func (e *Engine) committed(b *batch) {
	row := 0
	for _, s := range b.submissions { // before a handler may change the rows
		if s.receipts = nil; !slices.ContainsFunc(s.rows, func(t *task.Task) bool { return b.lost(t.ID) }) {
			s.receipts = receipts(s.rows, b.done.Inserted[row:row+len(s.rows)])
		}
		row += len(s.rows)
	}
	e.lookAtFinishes(b)
	e.mu.Lock()
	e.drainInbox()
	now := e.clock.now()
	for i, t := range b.do.Insert {
		if b.lost(t.ID) {
			if !b.retries(t.ID) {
				e.core.Inserted(now, t, false)
			}
			continue
		}
		created := b.done.Inserted[i].Created()
		if created {
			e.confirm(t.Ref())
		}
		e.inserted(e.core, now, t, created)
	}
	swapped := b.done.Swapped
	for i, s := range b.saves {
		if !b.lost(s.ID) {
			delete(e.finishings, s.Ref)
			e.saved(now, s, swapped[i])
		}
	}
	swapped = swapped[len(b.saves):]
	for i, g := range b.grabs {
		if b.lost(g.ID) {
			if !b.retries(g.ID) {
				e.core.Grabbed(now, g.Ref, nil, true)
			}
			continue
		}
		e.grabbed(now, g.Ref, swapped[i])
	}
	swapped = swapped[len(b.grabs):]
	for i, ed := range b.edits {
		ed.after = swapped[i]
		if ed.after != nil {
			e.core.Changed(now, ed.after)
			e.waiters.ended(ed.after)
		}
	}
	if b.part != nil {
		e.markUncertain(b, now)
		e.postpone(b)
	}
	e.works(now)
	e.dispatch()
	e.mu.Unlock()
	runtime.Gosched() // handlers start before callers get their receipts

	for _, s := range b.submissions {
		var err error
		if s.receipts == nil {
			if b.retries(s.rows[0].ID) {
				continue
			}
			err = b.part.Err
		}
		s.done <- err
	}
	for _, ed := range b.edits {
		var err error
		switch {
		case b.retries(ed.change.ID):
			continue
		case b.lost(ed.change.ID):
			err = b.part.Err
		case ed.after == nil:
			err = ed.failed // an earlier try may have made it
		}
		ed.done <- err
	}
}

// postpone schedules another try of the saves that were lost. It is called with mu held.
func (e *Engine) postpone(b *batch) {
	var late []core.Save
	for _, s := range b.saves {
		if b.lost(s.ID) && !b.retries(s.ID) {
			late = append(late, s)
		}
	}
	if len(late) == 0 {
		return
	}
	e.delayedSaves = append(e.delayedSaves, late...)
	time.AfterFunc(saveRetry, func() {
		e.decide(func(*core.Core, time.Time) {
			e.pending.saves = append(e.pending.saves, e.delayedSaves...)
			e.delayedSaves = nil
		})
	})
}

// inserted passes the outcome of an insert to the core. It is called with mu held.
func (e *Engine) inserted(c *core.Core, now time.Time, t *task.Task, created bool) {
	if created && e.config.Observer.Inserted != nil {
		e.config.Observer.Inserted(now, t)
	}
	c.Inserted(now, t, created)
}

// grabbed passes the outcome of a grab to the core. It is called with mu held.
func (e *Engine) grabbed(now time.Time, ref task.Ref, t *task.Task) {
	if t != nil {
		e.confirm(t.Ref())
	}
	if len(e.refusals) > 0 {
		delete(e.refusals, ref.ID)
	}
	e.core.Grabbed(now, ref, t, false)
}

// saved passes the outcome of a save to the core. It is called with mu held.
func (e *Engine) saved(now time.Time, s core.Save, t *task.Task) {
	if e.config.Observer.Saved != nil {
		e.config.Observer.Saved(now, s.Ref, t)
	}
	e.core.Saved(now, s, t)
	if t != nil {
		e.waiters.ended(t)
	} else { // an earlier try may have written it, and the answer was lost
		e.waiters.look(s.ID)
	}
}

// uncommitted handles a batch that failed in an outage. It returns the error to callers of
// Submit and of changes by hand, drops the grabs for now, and keeps the saves until the store
// writes them. All tasks of the batch are uncertain.
func (e *Engine) uncommitted(b *batch, err error) {
	fatal := errors.Is(err, storage.ErrBroken) || errors.Is(err, storage.ErrClosed)
	if fatal {
		e.fail(err)
	} else {
		e.outage(err)
	}
	e.mu.Lock()
	e.drainInbox()
	now := e.clock.now()
	e.markUncertain(b, now)
	for _, s := range b.submissions {
		for _, t := range s.rows {
			e.core.Inserted(now, t, false)
		}
	}
	for _, g := range b.grabs {
		e.core.Grabbed(now, g.Ref, nil, true)
	}
	e.fails(now)
	e.dispatch()
	if len(b.saves) > 0 && !fatal {
		e.pending.saves = append(append([]core.Save{}, b.saves...), e.pending.saves...)
		time.AfterFunc(saveRetry, func() { e.write.Set() })
	}
	e.mu.Unlock()
	for _, s := range b.submissions {
		s.done <- err
	}
	for _, ed := range b.edits {
		ed.done <- err
	}
}

// outage logs once that the store cannot be written.
func (e *Engine) outage(err error) {
	if e.down.CompareAndSwap(nil, new(time.Now())) {
		e.log.Error("the store cannot be written; the engine tries again", "error", err)
	} else {
		e.log.Debug("the store cannot be written", "error", err)
	}
}

// partOutage logs, at most once a minute, that a part of the store cannot be written.
func (e *Engine) partOutage(part *storage.PartError) {
	if e.partDownLog.Allow() {
		e.log.Error("a part of the store cannot be written; the engine tries again", "shards", part.Shards.String(), "error", part.Err)
	}
}

// recovered logs that the store can be written again.
func (e *Engine) recovered() {
	if since := e.down.Swap(nil); since != nil {
		e.log.Info("the store can be written again", "after", time.Since(*since))
	}
}

// relax makes the grabs of relaxed types in a transaction without a sync.
func (e *Engine) relax(store storage.NoSyncer, b *batch) {
	e.mu.Lock()
	e.drainInbox()
	e.takeEffects()
	b.relaxed, e.pending.relaxed = e.pending.relaxed, b.relaxed
	e.mu.Unlock()
	if len(b.relaxed) == 0 {
		return
	}
	var swapped []*task.Task
	err := store.UpdateNoSync(context.Background(), func(tx storage.Tx) (err error) {
		swapped, err = tx.Swap(context.Background(), b.relaxed...)
		return err
	})
	if err != nil {
		e.log.Error("the store refused a batch of relaxed grabs; they are committed like other grabs", "error", err)
	}
	e.decide(func(_ *core.Core, now time.Time) {
		if err != nil { // commit them with the other grabs, whose batch is divided if the store refuses one
			e.markGrabsUncertain(b.relaxed, now)
			e.pending.grabs = append(e.pending.grabs, b.relaxed...)
			return
		}
		for i, g := range b.relaxed {
			e.grabbed(now, g.Ref, swapped[i])
		}
	})
	b.relaxed = b.relaxed[:0]
}
