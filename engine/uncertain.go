package engine

import (
	"container/list"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/engine/task"
)

// uncertain is a task of a batch that failed. The batch may have been written all the same: a
// connection can be lost after the commit. The core does not know, so until the row is read
// the task may be processing without an attempt, or ready without a trigger.
type uncertain struct {
	id      task.ID
	since   time.Time
	version uint64 // the latest version that it has if everything was written
	grabbed uint64 // the version that it has if it was grabbed; 0 if no grab was requested
	inVain  bool   // the last read of its row failed
}

// maxUncertain is the greatest number of uncertain tasks, without those that may have been
// grabbed: the slots bound these.
const maxUncertain = 10_000

// uncertainTasks are the uncertain tasks, in the order in which their rows are read. Tasks whose
// last read failed come last: they may be in a database that does not answer.
type uncertainTasks struct {
	places   map[task.ID]*list.Element // of *uncertain, in one of the lists
	first    list.List
	last     list.List // those whose last read failed
	unlisted time.Time // when maxUncertain last kept a task out; zero is never
}

func (q *uncertainTasks) len() int { return len(q.places) }

// of returns the uncertain task of that ID, or nil.
func (q *uncertainTasks) of(id task.ID) *uncertain {
	if at, ok := q.places[id]; ok {
		return at.Value.(*uncertain)
	}
	return nil
}

// add adds a task with the version that it has if the request was written. A task that may have
// been grabbed keeps the latest version of its grabs, whatever else is uncertain about it, such
// as a grab by an older hint.
func (q *uncertainTasks) add(id task.ID, now time.Time, version uint64, isGrab bool) {
	grabbed := uint64(0)
	if isGrab {
		grabbed = version
	}
	if d := q.of(id); d != nil {
		d.since, d.version, d.grabbed = now, max(version, d.version), max(grabbed, d.grabbed)
		return
	}
	if grabbed == 0 && q.len() >= maxUncertain {
		q.unlisted = now
		return
	}
	if q.places == nil {
		q.places = make(map[task.ID]*list.Element)
	}
	q.places[id] = q.first.PushBack(&uncertain{id: id, since: now, version: version, grabbed: grabbed})
}

func (q *uncertainTasks) remove(d *uncertain) {
	q.listOf(d).Remove(q.places[d.id])
	delete(q.places, d.id)
}

func (q *uncertainTasks) listOf(d *uncertain) *list.List {
	if d.inVain {
		return &q.last
	}
	return &q.first
}

// later moves a task that remains uncertain to the end of its list, or of the last list if its
// read has failed.
func (q *uncertainTasks) later(d *uncertain, inVain bool) {
	q.listOf(d).Remove(q.places[d.id])
	d.inVain = inVain
	q.places[d.id] = q.listOf(d).PushBack(d)
}

// The first pause before uncertain tasks are read; each pause is twice as long as the one before.
// A commit that was under way when its connection was lost may still happen, so a task remains
// uncertain for uncertainFor at least.
const (
	firstCheck   = time.Second
	uncertainFor = 2 * time.Minute
)

// markUncertain adds the tasks of a batch that failed, or of the part of it that did. It is
// called with mu held.
func (e *Engine) markUncertain(b *batch, now time.Time) {
	mark := func(id task.ID, version uint64, isGrab bool) {
		if b.part == nil || b.lost(id) {
			e.uncertain.add(id, now, version, isGrab)
		}
	}
	for _, t := range b.do.Insert {
		mark(t.ID, t.Version, t.State == task.Processing)
	}
	for _, s := range b.saves {
		mark(s.ID, s.Version+1, false)
	}
	for _, ed := range b.edits {
		mark(ed.change.ID, ed.change.Version+1, false)
	}
	for _, g := range b.grabs {
		mark(g.ID, g.Version+1, true)
	}
	e.checkSoon()
}

// markGrabsUncertain is markUncertain for grabs.
func (e *Engine) markGrabsUncertain(grabs []task.Change, now time.Time) {
	for _, g := range grabs {
		e.uncertain.add(g.ID, now, g.Version+1, true)
	}
	e.checkSoon()
}

// checkSoon wakes uncertainLoop if there are uncertain tasks.
func (e *Engine) checkSoon() {
	if e.uncertain.len() > 0 {
		e.check.Set()
	}
}

// confirm removes a task that was certainly written at a version, unless a later version is
// uncertain: the answer to an insert may arrive after the answer to the grab, or to another
// change, that followed it. It is called with mu held.
func (e *Engine) confirm(ref task.Ref) {
	if e.uncertain.len() == 0 {
		return
	}
	if d := e.uncertain.of(ref.ID); d != nil && d.version <= ref.Version {
		e.uncertain.remove(d)
	}
}

// uncertainLoop reads the rows of uncertain tasks until there are none.
func (e *Engine) uncertainLoop(ctx context.Context) {
	for {
		select {
		case <-e.check.C():
		case <-ctx.Done():
			return
		}
		for rest := firstCheck; rest > 0; rest *= 2 {
			if sleep(ctx, rest) != nil {
				return
			}
			select {
			case <-e.check.C():
				rest = firstCheck / 2
			default:
			}
			if e.checkUncertain(ctx) == 0 {
				break
			}
		}
	}
}

// maxInVain is how many reads may fail in one round.
const maxInVain = 10

// checkUncertain reads the rows of uncertain tasks, passes them to the core, and returns how
// many tasks remain uncertain.
func (e *Engine) checkUncertain(ctx context.Context) (remain int) {
	q := &e.uncertain
	e.mu.Lock()
	first, last := q.first.Len(), q.last.Len()
	e.mu.Unlock()
	inVain := e.checkSome(ctx, &q.first, first, maxInVain)
	e.checkSome(ctx, &q.last, last, maxInVain-inVain)
	e.mu.Lock()
	defer e.mu.Unlock()
	return q.len()
}

// checkSome reads the rows of the first n tasks of a list, until most of these reads have
// failed. It returns how many have.
func (e *Engine) checkSome(ctx context.Context, some *list.List, n, most int) (inVain int) {
	for ; n > 0 && inVain < most; n-- {
		var id task.ID
		e.mu.Lock()
		at := some.Front()
		if at != nil {
			id = at.Value.(*uncertain).id
		}
		e.mu.Unlock()
		if at == nil {
			break
		}
		t, err := e.store.Get(ctx, id)
		unknown := err != nil && !errors.Is(err, task.ErrNotFound)
		if unknown {
			inVain++
		}
		handedBack := false
		e.decide(func(c *core.Core, now time.Time) {
			d := e.uncertain.of(id)
			if d == nil {
				return
			}
			certain := false
			if !unknown {
				certain, handedBack = e.resolve(c, now, t, d)
			}
			if certain || !unknown && now.Sub(d.since) > uncertainFor {
				e.uncertain.remove(d)
			} else {
				e.uncertain.later(d, unknown)
			}
		})
		if handedBack {
			e.log.Warn("a task was grabbed by a commit that failed; it is handed back", "task_id", t.ID, "type", t.Type)
		}
	}
	return inVain
}

// isSaving reports whether a save of a row is pending or being written: then an attempt has run
// it, although an older hint made it uncertain. It is called with mu held.
func (e *Engine) isSaving(ref task.Ref) bool {
	e.dispatch() // so that no save is left in the core
	same := func(s core.Save) bool { return s.Ref == ref }
	for _, saves := range e.writing {
		if slices.ContainsFunc(saves, same) {
			return true
		}
	}
	_, isStuck := e.stuck[ref]
	return isStuck || slices.ContainsFunc(e.pending.saves, same) || slices.ContainsFunc(e.delayedSaves, same)
}

// resolve passes the row of an uncertain task to the core, nil if there is no row. It reports
// whether the task is certain now, and whether it is handed back: it was grabbed, and the core
// does not run it. It is called with mu held.
func (e *Engine) resolve(c *core.Core, now time.Time, t *task.Task, d *uncertain) (certain, handedBack bool) {
	switch {
	case t == nil, c.HasSlot(t.ID):
		return false, false // it may still be inserted; or the core gets its next event anyway
	case t.Version+1 == d.grabbed && e.refusals[t.ID] != nil:
		return false, false // it is unchanged, and pauses before the next grab
	case t.State != task.Processing:
		c.Changed(now, t)
		e.waiters.ended(t)
		return t.Version >= d.grabbed, false
	case !e.cluster.IsOurs(t.Owner):
		return true, false
	case t.Version == d.grabbed && !e.isSaving(t.Ref()):
		c.HandBack(now, t)
		return true, true
	}
	return false, false // its save is tried until it is written
}
