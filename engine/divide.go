package engine

import (
	"context"
	"errors"
	"time"

	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/storage"
)

// isOutage reports whether an error says that the store takes nothing at all, now or any more.
// Any other may be about one thing in the batch.
func isOutage(err error) bool {
	return errors.Is(err, storage.ErrUnavailable) || errors.Is(err, storage.ErrBroken) || errors.Is(err, storage.ErrClosed)
}

// health is whether the store takes what is written.
type health struct {
	away     bool   // nothing was written since the store was found to be away
	probing  bool   // a timer will let some grabs be tried
	refusals uint64 // things that were refused, each by itself
}

// While the store is away nothing is grabbed, but for a few tasks now and then: they find out
// whether it is back.
const (
	probeEvery = time.Second
	probeGrabs = 8
)

// works notes that the store has written something. It is called with mu held.
func (e *Engine) works(now time.Time) {
	if e.health.away {
		e.health.away = false
		e.limitGrabs(now)
		e.unstick.Set()
	}
}

// fails notes that the store is away. It is called with mu held.
func (e *Engine) fails(now time.Time) {
	e.health.away = true
	e.limitGrabs(now)
	if !e.health.probing {
		e.health.probing = true
		time.AfterFunc(probeEvery, e.probe)
	}
}

// probe lets some grabs be tried while the store is away.
func (e *Engine) probe() {
	e.decide(func(c *core.Core, now time.Time) {
		h := &e.health
		if h.probing = h.away && !e.closing; h.probing {
			c.LimitGrabs(now, probeGrabs)
			time.AfterFunc(probeEvery, e.probe)
		}
	})
}

// limitGrabs has nothing grabbed while that would make things worse: the store is away, or
// refuses to take what comes of tasks. It is called with mu held.
func (e *Engine) limitGrabs(now time.Time) {
	if e.health.away || len(e.stuck) >= maxStuck || e.stuckBytes >= maxStuckBytes {
		e.core.LimitGrabs(now, 0)
	} else {
		e.core.LimitGrabs(now, -1)
	}
}

// division finds out what the store refuses of a batch that failed, and has it write the rest.
type division struct {
	e       *Engine
	away    error     // why nothing more is tried; nil while something is
	failed  []failure // pieces that are yet to be divided
	refused []failure // things that the store refused by themselves
}

// failure is a piece of a batch that the store did not take.
type failure struct {
	b   *batch
	err error
}

// divide tries the halves of a batch that failed, and then the halves of those that failed,
// until what the store refuses is alone.
func (e *Engine) divide(b *batch, err error) outcome {
	if b.ids == nil && !e.worksAfter(err) { // of the rest of a batch it is known
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

// worksAfter reports whether the store works though it failed with err: it says so, or writes a
// transaction in which nothing is done.
func (e *Engine) worksAfter(err error) bool {
	return errors.Is(err, storage.ErrRefused) || e.commitNothing() == nil
}

// commitNothing returns why the store cannot commit even an empty batch, or nil.
func (e *Engine) commitNothing() error {
	_, err := e.store.Commit(context.Background(), new(storage.Batch)).Wait()
	return err
}

// note keeps a piece that failed. Submissions that may have been written are not tried again:
// their tasks may have run meanwhile, and been removed.
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

// try writes a piece of a batch.
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

// mayBeWritten notes that a batch failed whose pieces are tried: any of it may be in the store.
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

// deny tells submitters and editors that what they asked for was not written, or may not have
// been.
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

// refuse sees to one thing that the store refused by itself: submitters and editors are told,
// and what the engine wants is tried again, by itself and seldom.
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
		e.log.Error("the store refuses to write something by itself, and takes other things", "id", b.id(), "error", err)
	}
}

// id returns the task that a batch of one thing is about; the first, if it is a submission.
func (b *batch) id() task.ID {
	if len(b.do.Insert) > 0 {
		return b.do.Insert[0].ID
	}
	return b.do.Swap[0].ID
}

// refusal is that the store has refused to write a grab by itself.
type refusal struct {
	since time.Time
	pause time.Duration // before it is tried again
	tries int
	err   error
}

// How long what the store refuses rests before it is tried again: twice as long after each
// time.
const (
	firstPause = saveRetry
	mostPause  = time.Minute
)

// maxRefusals is how many refused grabs are remembered.
const maxRefusals = 10_000

// refusedGrab notes that a grab was refused, and returns how long it rests. It is called with
// mu held.
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

// separate moves those grabs out of b that were refused before: each is tried by itself. It
// is called with mu held.
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

// swapPieces makes changes that no writer makes. If the store refuses them together they are
// divided; what it refuses by itself is left as it is, as if it had come too late. An error says
// that the store takes none of them.
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
			e.log.Error("the store refuses to write what becomes of a task whose node is gone; it is tried again", "id", changes[p.from].ID, "error", err)
		}
	}
	return out, nil
}
