package engine

import (
	"context"
	"errors"
	"time"

	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/storage"
)

// isOutage reports whether an error says that the store cannot be written at all, at present or
// for good. Any other error may be about one item of the batch.
func isOutage(err error) bool {
	return errors.Is(err, storage.ErrUnavailable) || errors.Is(err, storage.ErrBroken) || errors.Is(err, storage.ErrClosed)
}

// health is whether the store can be written.
type health struct {
	away     bool   // nothing was written since the last outage began
	probing  bool   // a timer runs that permits some grabs
	refusals uint64 // items that the store refused when they were committed separately
}

// During an outage nothing is grabbed except for a few tasks in each interval, which find out
// whether the store can be written again.
const (
	probeEvery = time.Second
	probeGrabs = 8
)

// works ends an outage: the store has written something. It is called with mu held.
func (e *Engine) works(now time.Time) {
	if e.health.away {
		e.health.away = false
		e.limitGrabs(now)
		e.unstick.Set()
	}
}

// fails begins an outage. It is called with mu held.
func (e *Engine) fails(now time.Time) {
	e.health.away = true
	e.limitGrabs(now)
	if !e.health.probing {
		e.health.probing = true
		time.AfterFunc(probeEvery, e.probe)
	}
}

// probe permits some grabs during an outage.
func (e *Engine) probe() {
	e.decide(func(c *core.Core, now time.Time) {
		h := &e.health
		if h.probing = h.away && !e.closing; h.probing {
			c.LimitGrabs(now, probeGrabs)
			time.AfterFunc(probeEvery, e.probe)
		}
	})
}

// limitGrabs stops grabs during an outage, and while the store refuses many saves. It is called
// with mu held.
func (e *Engine) limitGrabs(now time.Time) {
	if e.health.away || len(e.stuck) >= maxStuck || e.stuckBytes >= maxStuckBytes {
		e.core.LimitGrabs(now, 0)
	} else {
		e.core.LimitGrabs(now, -1)
	}
}

// division finds the items of a failed batch that the store refuses, and commits the others.
type division struct {
	e       *Engine
	away    error     // the outage that ends the division; nil if there is none
	failed  []failure // pieces to be divided
	refused []failure // single items that the store refused
}

// failure is a piece of a batch that failed.
type failure struct {
	b   *batch
	err error
}

// divide commits the halves of a batch that failed, and the halves of those that fail, until
// each refused item is alone.
func (e *Engine) divide(b *batch, err error) outcome {
	if b.ids == nil && !e.worksAfter(err) { // the rest of a batch failed in a store that works
		e.uncommitted(b, err)
		return failed
	}
	d := division{e: e}
	d.note(b, err)
	for ; len(d.failed) > 0; d.failed = d.failed[1:] {
		f := d.failed[0]
		if d.away != nil {
			e.uncommitted(f.b, f.err)
			continue
		}
		e.mayBeWritten(f.b, f.err)
		n := f.b.size()
		d.try(f.b.piece(0, n/2))
		d.try(f.b.piece(n/2, n))
	}
	for _, f := range d.refused {
		e.refuse(f.b, f.err)
	}
	if d.away != nil {
		return failed
	}
	return written
}

// worksAfter reports whether the store works although it failed with err: the error says so, or
// the store commits an empty batch.
func (e *Engine) worksAfter(err error) bool {
	return errors.Is(err, storage.ErrRefused) || e.commitNothing() == nil
}

// commitNothing returns why the store cannot commit even an empty batch, or nil.
func (e *Engine) commitNothing() error {
	_, err := e.store.Commit(context.Background(), new(storage.Batch)).Wait()
	return err
}

// note adds a piece that failed. It denies submissions that may have been written: their tasks
// may have run and been removed meanwhile, so another try could run them twice.
func (d *division) note(b *batch, err error) {
	if n := len(b.submissions); n > 0 && !b.undone {
		d.e.deny(b.piece(0, n), err)
		b = b.piece(n, b.size())
	}
	switch b.size() {
	case 0:
	case 1:
		d.refused = append(d.refused, failure{b, err})
	default:
		d.failed = append(d.failed, failure{b, err})
	}
}

// try commits a piece of a batch.
func (d *division) try(b *batch) {
	e := d.e
	if d.away != nil {
		e.uncommitted(b, d.away)
		return
	}
	e.mu.Lock()
	b.finishes = e.finishesOf(b.saves)
	e.mu.Unlock()
	err := e.transact(b, nil)
	switch {
	case err == nil, errors.As(err, &b.part):
		e.answer(b, err)
	case isOutage(err):
		d.away = err
		e.uncommitted(b, err)
	default:
		d.note(b, err)
	}
}

// mayBeWritten marks the tasks of a failed batch uncertain before its pieces are tried.
func (e *Engine) mayBeWritten(b *batch, err error) {
	if b.undone {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.markUncertain(b, e.clock.now())
	for _, ed := range b.edits {
		ed.failed = err
	}
}

// deny returns err to callers of Submit and of changes by hand: their request was not written,
// or may not have been.
func (e *Engine) deny(b *batch, err error) {
	e.mayBeWritten(b, err)
	e.decide(func(c *core.Core, now time.Time) {
		for _, s := range b.submissions {
			for _, t := range s.rows {
				c.Inserted(now, t, false)
			}
		}
	})
	for _, s := range b.submissions {
		s.done <- err
	}
	for _, ed := range b.edits {
		ed.done <- err
	}
}

// refuse handles one item that the store refused. Callers get the error. A save or a grab is
// tried again separately, after pauses that grow.
func (e *Engine) refuse(b *batch, err error) {
	e.deny(b, err)
	e.decide(func(c *core.Core, now time.Time) {
		for _, s := range b.saves {
			e.keepStuck(s, err, false, now)
		}
		for _, g := range b.grabs {
			c.Refused(now, g.Ref, e.refusedGrab(g.ID, err))
		}
		e.health.refusals++
	})
	if e.refusedLog.Allow() {
		e.log.Error("the store refuses to write an item, and writes others", "id", b.id(), "error", err)
	}
}

// id returns the task of a batch with one item; of a submission, the first.
func (b *batch) id() task.ID {
	if len(b.do.Insert) > 0 {
		return b.do.Insert[0].ID
	}
	return b.do.Swap[0].ID
}

// refusal is a grab or a save that the store has refused.
type refusal struct {
	since time.Time
	pause time.Duration // before it is tried again
	tries int
	err   error
}

// The pause before a refused item is tried again. It doubles after each try.
const (
	firstPause = saveRetry
	mostPause  = time.Minute
)

// maxRefusals is how many refused grabs the engine keeps.
const maxRefusals = 10_000

// refusedGrab records that a grab was refused, and returns the pause before the next try. It is
// called with mu held.
func (e *Engine) refusedGrab(id task.ID, err error) time.Duration {
	r := e.refusals[id]
	if r == nil {
		if len(e.refusals) >= maxRefusals {
			clear(e.refusals)
		}
		r = &refusal{since: time.Now(), pause: time.Second / 2}
		e.refusals[id] = r
	}
	r.tries++
	r.pause, r.err = min(2*r.pause, mostPause), err
	return r.pause
}

// separate moves the grabs of b that were refused before to b.alone. It is called with mu held.
func (e *Engine) separate(b *batch) {
	if len(e.refusals) == 0 {
		return
	}
	kept := b.grabs[:0]
	for _, g := range b.grabs {
		if e.refusals[g.ID] == nil {
			kept = append(kept, g)
		} else {
			b.alone = append(b.alone, g)
		}
	}
	b.grabs = kept
}

// swapPieces makes changes outside of the writers. If the store refuses them together, it
// divides them. A change that is refused alone is treated like a stale one: its result is nil.
// An error says that the store cannot be written.
func (e *Engine) swapPieces(ctx context.Context, changes []task.Change) ([]*task.Task, error) {
	if len(changes) == 0 {
		return nil, nil
	}
	out, works := make([]*task.Task, len(changes)), false
	type piece struct{ from, to int }
	for todo := []piece{{0, len(changes)}}; len(todo) > 0; todo = todo[1:] {
		p := todo[0]
		rows, err := e.store.Swap(ctx, changes[p.from:p.to]...)
		if err == nil {
			copy(out[p.from:], rows)
			works = true
			continue
		}
		if works = works || !isOutage(err) && e.worksAfter(err); !works || isOutage(err) || ctx.Err() != nil {
			return nil, err
		}
		if half := (p.from + p.to) / 2; half > p.from {
			todo = append(todo, piece{p.from, half}, piece{half, p.to})
		} else if e.refusedLog.Allow() {
			e.log.Error("the store refuses the change of a task whose node is gone; the engine tries again", "id", changes[p.from].ID, "error", err)
		}
	}
	return out, nil
}
