package engine

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/taskengine/taskengine/engine/internal/shell"
	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/internal/workpool"
	"github.com/taskengine/taskengine/storage"
)

// lane is a database, and the writers that commit in it.
type lane struct {
	number int
	turn   sync.Mutex    // held while a writer decides what is in a batch and gives it to the store; locked before Engine.mu
	wake   wakeup.Signal // wakes a writer
}

// wakeWriters wakes a writer in each lane that has a batch. It is called with mu held.
func (e *Engine) wakeWriters() {
	for _, l := range e.lanes {
		if e.state.HasWork(l.number) {
			l.wake.Set()
		}
	}
}

// writers is how many commits may be under way at once in a lane: one waits for its sync while the
// next is prepared.
const writers = 2

// writer commits batches. It belongs to its goroutine.
type writer struct {
	*Engine
	lane    *lane
	effects shell.Effects // buffer
	spare   *shell.Batch  // a batch for reuse; nil if there is none
}

// run commits batches until background ends and nothing is left.
func (w *writer) run(background context.Context) {
	for {
		select {
		case <-w.lane.wake.C():
		case <-background.Done():
			for w.commit() {
			}
			return // the next start recovers what was not written
		}
		workpool.Gather(w.inbox.count)
		w.commit()
	}
}

// commit commits the next batch, and reports whether there was one. The batch is decided when the
// other writer has given its batch to the store, so that it has all that arrived until then.
func (w *writer) commit() bool {
	w.lane.turn.Lock()
	b := w.next()
	if b == nil {
		w.lane.turn.Unlock()
		return false
	}
	begin := time.Now()
	c := w.begin(b)
	w.lane.turn.Unlock()
	out, err := c.Wait()
	if told := w.config.Observer.Committed; told != nil {
		told(time.Since(begin), err)
	}
	if out.Lost != nil {
		w.log.Warn("the last progress of tasks was not written", "tasks", len(b.Do.Notes), "error", out.Lost)
	}
	w.answer(b, out, err)
	return true
}

// next returns the next batch, or nil.
func (w *writer) next() *shell.Batch {
	w.mu.Lock()
	now := w.drain()
	n := w.perform(&w.effects)
	b := w.state.Next(now, w.lane.number, w.spare)
	w.wakeWriters()
	w.mu.Unlock()
	w.deliver(n)
	if b != nil {
		w.spare = nil
		b.Fill()
	}
	return b
}

// begin gives a batch to the store.
func (w *writer) begin(b *shell.Batch) storage.Commit {
	ctx := context.Background()
	switch {
	case b.NoSync:
		return storage.CommitLaterIn(ctx, w.noSyncer.UpdateNoSync, &b.Do)
	case w.divided != nil:
		return w.divided.CommitIn(ctx, w.lane.number, &b.Do)
	}
	return w.store.Commit(ctx, &b.Do)
}

// answer passes the outcome of a batch to the shell.
func (w *writer) answer(b *shell.Batch, out storage.Outcome, err error) {
	if err == nil {
		b.Unsure(&out, w.isFinished)
	}
	w.mu.Lock()
	now := w.drain()
	if err == nil {
		w.observe(now, b, &out)
		w.state.Written(now, b, out)
	} else {
		w.state.Failed(now, b, err)
	}
	n := w.perform(&w.effects)
	w.wakeWriters()
	w.mu.Unlock()
	runtime.Gosched() // handlers start before callers get their answers
	w.deliver(n)
	if err == nil {
		b.Reset()
		w.spare = b
	}
}

// observe tells observers and waiting callers what a batch has made durable. It is called with mu
// held, before handlers may change the rows.
func (e *Engine) observe(now time.Time, b *shell.Batch, out *storage.Outcome) {
	isLeft := func(i int) bool {
		_, left := slices.BinarySearch(out.Elsewhere, i)
		return left
	}
	o := &e.config.Observer
	if o.Inserted != nil {
		for i, t := range b.Do.Insert {
			if out.Inserted[i].Created() && !isLeft(i) {
				o.Inserted(now, t)
			}
		}
	}
	saves := b.Saves()
	for i, t := range out.Swapped {
		if t == nil && isLeft(len(b.Do.Insert)+i) {
			continue
		}
		if i < len(saves) && o.Saved != nil {
			o.Saved(now, saves[i].Ref, t)
		}
		if o.Inserted != nil {
			for j, in := range out.FollowedBy(i) {
				if in.Created() {
					o.Inserted(now, saves[i].Follow[j])
				}
			}
		}
		switch {
		case t != nil:
			e.state.waiters.ended(t)
		case i < len(saves): // an earlier try may have written it, and the answer was lost
			e.state.waiters.look(saves[i].ID)
		}
	}
}
