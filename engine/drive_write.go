package engine

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"time"

	"github.com/taskengine/taskengine/engine/internal/shell"
	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/internal/workpool"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// lane is a database, and the writers that commit in it.
type lane struct {
	number  int
	isLocal bool          // this process does the work of its commits: large batches do not overlap
	turn    chan struct{} // has a token, which a writer takes before it locks Engine.mu, see writer.commit
	wake    wakeup.Signal // wakes a writer
	aside   wakeup.Signal // wakes the writer of pieces of batches that failed
	alone   wakeup.Signal // wakes a writer of items that may wait for locks
}

func newLane(number int, isLocal bool) *lane {
	l := &lane{number: number, isLocal: isLocal, turn: make(chan struct{}, 1), wake: wakeup.New(), aside: wakeup.New(), alone: wakeup.New()}
	l.pass()
	return l
}

// pass gives the other writer its turn.
func (l *lane) pass() { l.turn <- struct{}{} }

// wakeWriters wakes a writer in each lane that has a batch. It is called with mu held.
func (e *Engine) wakeWriters() {
	for _, l := range e.lanes {
		if e.state.HasWork(l.number) {
			l.wake.Set()
		}
		if e.state.HasAside(l.number, false) {
			l.aside.Set()
		}
		if e.state.HasAside(l.number, true) {
			l.alone.Set()
		}
	}
}

// writers is how many commits may be under way at once in a lane: one waits for its sync while the
// next is prepared, see writer.commit.
const writers = 2

// aloneWriters is how many items of a lane are tried at once that may wait for locks, in a store that has locks.
const aloneWriters = 3

// writer commits batches. It belongs to its goroutine.
type writer struct {
	*Engine
	lane    *lane
	wake    wakeup.Signal // of the lane
	isAside bool          // it commits what others do not wait for: see shell.Shell.NextAside
	isAlone bool          // of that, items that may wait for locks
	effects shell.Effects // buffer
	spare   *shell.Batch  // a batch for reuse; nil if there is none
}

// writersOf returns the writers of a lane.
func (e *Engine) writersOf(l *lane) (all []*writer) {
	for range writers {
		all = append(all, &writer{Engine: e, lane: l, wake: l.wake})
	}
	if e.abilities.locks {
		all = append(all, &writer{Engine: e, lane: l, wake: l.aside, isAside: true})
		for range aloneWriters {
			all = append(all, &writer{Engine: e, lane: l, wake: l.alone, isAside: true, isAlone: true})
		}
	}
	return all
}

// run commits batches until background ends and nothing is left.
func (w *writer) run(background context.Context) {
	for {
		select {
		case <-w.wake.C():
		case <-background.Done():
			for w.commit() {
			}
			return // the next start recovers the rows that were not written
		}
		w.commit()
	}
}

// commit commits the next batch, and reports whether there was one. The batch is decided when the
// other writer has given its batch to the store, so that it has all that arrived until then. After a
// large batch in a local store it is decided when the other writer has passed on the answers, so that
// it also has what follows from them: one commit of all tasks costs less than two of one half each.
func (w *writer) commit() bool {
	if w.isAside {
		b := w.next()
		if b == nil {
			return false
		}
		w.finish(b, w.begin(b))
		return true
	}
	<-w.lane.turn
	workpool.Gather(w.inbox.count)
	b := w.next()
	if b == nil {
		w.lane.pass()
		return false
	}
	c := w.begin(b)
	if w.lane.isLocal && b.IsLarge() {
		defer w.lane.pass()
	} else {
		w.lane.pass()
	}
	w.finish(b, c)
	return true
}

// finish waits for a commit, and passes on its outcome.
func (w *writer) finish(b *shell.Batch, c storage.Commit) {
	begin := time.Now()
	out, err := c.Wait()
	if observe := w.config.Observer.Committed; observe != nil {
		observe(time.Since(begin), err)
	}
	if out.Lost != nil {
		w.log.Warn("the last progress of tasks was not written", "tasks", len(b.Do.Notes), "error", out.Lost)
	}
	w.answer(b, out, err)
}

// next returns the next batch, or nil.
func (w *writer) next() *shell.Batch {
	w.mu.Lock()
	now := w.drain()
	n := w.perform(&w.effects)
	var b *shell.Batch
	if w.isAside {
		b = w.state.NextAside(now, w.lane.number, w.isAlone)
	} else {
		b = w.state.Next(now, w.lane.number, w.spare)
	}
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
		return storage.CommitLaterIn(ctx, w.abilities.noSync.UpdateNoSync, &b.Do)
	case w.abilities.divided != nil:
		return w.abilities.divided.CommitIn(ctx, w.lane.number, &b.Do)
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
		if !errors.Is(err, storage.ErrRefused) && !errors.Is(err, storage.ErrUndone) {
			w.state.feed.Lose(now, err)
		}
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
	if o.Inserted != nil || e.state.feed.IsOn() {
		for i, t := range b.Do.Insert {
			if out.Inserted[i].Created() && !isLeft(i) {
				e.inserted(now, t)
			}
		}
	}
	if o.Inserted != nil || e.state.feed.IsOn() {
		for _, t := range out.Carriers {
			e.inserted(now, t)
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
		if o.Inserted != nil || e.state.feed.IsOn() {
			for j, in := range out.FollowedBy(i) {
				if in.Created() {
					e.inserted(now, b.Do.Follows(i)[j])
				}
			}
		}
		switch {
		case t != nil:
			e.state.changed(now, t)
			e.state.waiters.ended(t)
		case i < len(saves): // an earlier try may have written it, and the answer was lost
			e.state.waiters.look(saves[i].ID)
			if e.isUnwatched() { // the handler may have ended it in the database: nothing else tells this node of the row
				e.state.ReplaceUncertain(now, saves[i].Ref)
			}
		}
	}
}

// inserted tells observers of a new row. It is called with mu held.
func (e *Engine) inserted(now time.Time, t *task.Task) {
	if observe := e.config.Observer.Inserted; observe != nil {
		observe(now, t)
	}
	e.state.changed(now, t)
}
