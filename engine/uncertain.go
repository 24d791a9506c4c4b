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

// doubt is about a task that was in a batch of which the store said that it failed. It
// may have been written all the same: a connection can be lost after the commit. Nobody
// told the core, so until the row is looked at a task may seem to be grabbed that nobody
// runs, or to rest without a trigger.
type uncertain struct {
	id      task.ID
	since   time.Time
	version uint64 // the latest that it has if everything was written
	grabbed uint64 // the version that it has if it was grabbed; 0 if that was not asked for
	inVain  bool   // the store could not say when it was last asked
}

// maxUncertain is how many tasks are in doubt at most, not counting those that may have been
// grabbed: these are bounded by the slots.
const maxUncertain = 10_000

// doubts are the tasks in doubt, in the order in which they are looked at. Tasks that the
// store could not answer about come last: they may be in a database that is away.
type uncertainTasks struct {
	places   map[task.ID]*list.Element // of *uncertain, in one of the lists
	first    list.List
	last     list.List // those that were looked at in vain
	unlisted time.Time // when a task last found no place; zero is never
}

func (q *uncertainTasks) len() int { return len(q.places) }

// of returns the doubt about a task, nil if there is none.
func (q *uncertainTasks) of(id task.ID) *uncertain {
	if at, ok := q.places[id]; ok {
		return at.Value.(*uncertain)
	}
	return nil
}

// add notes one task, by the version that it has if what was asked for was written. The latest
// version that it may have been grabbed at is not forgotten over other doubts, such as whether
// an older hint was grabbed again in vain.
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

// later puts a doubt that remains at the end of its list, or of the last one if it was looked
// at in vain.
func (q *uncertainTasks) later(d *uncertain, inVain bool) {
	q.listOf(d).Remove(q.places[d.id])
	d.inVain = inVain
	q.places[d.id] = q.listOf(d).PushBack(d)
}

// How long the doubts are left alone after the store failed: each rest is twice as long
// as the one before. A commit that was under way when its connection was lost may still
// happen, so nothing is forgotten before uncertainFor is over.
const (
	firstCheck   = time.Second
	uncertainFor = 2 * time.Minute
)

// suspect notes the tasks of a batch that failed, or of the part of it that did. It is
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

// markGrabsUncertain is suspect for grabs alone.
func (e *Engine) markGrabsUncertain(grabs []task.Change, now time.Time) {
	for _, g := range grabs {
		e.uncertain.add(g.ID, now, g.Version+1, true)
	}
	e.checkSoon()
}

// doubt has the doubts looked at, if there are any.
func (e *Engine) checkSoon() {
	if e.uncertain.len() > 0 {
		e.check.Set()
	}
}

// known tells that a row is known to have been written at a version. That settles what
// was in doubt up to that version, and nothing later: an insert may be answered after
// the grab, or another change, that followed it. It is called with mu held.
func (e *Engine) confirm(ref task.Ref) {
	if e.uncertain.len() == 0 {
		return
	}
	if d := e.uncertain.of(ref.ID); d != nil && d.version <= ref.Version {
		e.uncertain.remove(d)
	}
}

// uncertainLoop looks at the tasks in doubt until there are none.
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

// maxInVain is how often a look asks the store in vain.
const maxInVain = 10

// checkUncertain tells the core of the tasks in doubt as they are in the store, and
// returns how many remain.
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

// checkSome looks at the first n tasks of a list, until the store could not answer about
// most of them. It returns how many these are.
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
		e.decide(func(c *core.Core, now time.Time) {
			d := e.uncertain.of(id)
			switch {
			case d == nil:
			case !unknown && (e.resolve(c, now, t, d) || now.Sub(d.since) > uncertainFor):
				e.uncertain.remove(d)
			default:
				e.uncertain.later(d, unknown)
			}
		})
	}
	return inVain
}

// isSaving reports whether what came of an attempt at a row is on its way to the store:
// then the row was run, though an older hint made it doubtful. It is called with mu held.
func (e *Engine) isSaving(ref task.Ref) bool {
	e.dispatch() // so that nothing is left in the core
	same := func(s core.Save) bool { return s.Ref == ref }
	for _, saves := range e.writing {
		if slices.ContainsFunc(saves, same) {
			return true
		}
	}
	_, isStuck := e.stuck[ref]
	return isStuck || slices.ContainsFunc(e.pending.saves, same) || slices.ContainsFunc(e.delayedSaves, same)
}

// resolve tells the core of a row in doubt, nil if there is none, and reports whether
// the doubt is over. It is called with mu held.
func (e *Engine) resolve(c *core.Core, now time.Time, t *task.Task, d *uncertain) bool {
	switch {
	case t == nil, c.HasSlot(t.ID):
		return false // it may still come; or the core learns by itself
	case t.Version+1 == d.grabbed && e.refusals[t.ID] != nil:
		return false // it is as it was, and rests before it is grabbed again
	case t.State != task.Processing:
		c.Changed(now, t)
		e.waiters.ended(t)
		return t.Version >= d.grabbed
	case !e.cluster.IsOurs(t.Owner):
		return true
	case t.Version == d.grabbed && !e.isSaving(t.Ref()):
		e.log.Warn("a task was grabbed though the store did not say so; it is put back", "task_id", t.ID, "type", t.Type)
		c.HandBack(now, t)
		return true
	}
	return false // its save is tried until the store takes it
}
