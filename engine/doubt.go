package engine

import (
	"cmp"
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
type doubt struct {
	since   time.Time
	grabbed uint64 // the version that it has if it was grabbed; 0 if that was not asked for
	inVain  int    // how often it was looked at while the store could not say
}

// How long the doubts are left alone after the store failed: each rest is twice as long
// as the one before. A commit that was under way when its connection was lost may still
// happen, so nothing is forgotten before doubtLasts is over.
const (
	firstDoubtRest = time.Second
	doubtLasts     = 2 * time.Minute
)

// suspect notes the tasks of a batch that failed, or of the part of it that did. It is
// called with mu held.
func (e *Engine) suspect(b *batch, now time.Time) {
	mistrust := func(id task.ID, grabbed uint64) {
		if b.part == nil || b.lost(id) {
			e.mistrust(id, now, grabbed)
		}
	}
	for _, t := range b.do.Insert {
		if t.State == task.Processing {
			mistrust(t.ID, t.Version)
		} else {
			mistrust(t.ID, 0)
		}
	}
	for _, s := range b.saves {
		mistrust(s.ID, 0)
	}
	for _, ed := range b.edits {
		mistrust(ed.change.ID, 0)
	}
	for _, g := range b.grabs {
		mistrust(g.ID, g.Version+1)
	}
	e.doubt()
}

// suspectGrabs is suspect for grabs alone.
func (e *Engine) suspectGrabs(grabs []task.Change, now time.Time) {
	for _, g := range grabs {
		e.mistrust(g.ID, now, g.Version+1)
	}
	e.doubt()
}

// doubt has the doubts looked at, if there are any.
func (e *Engine) doubt() {
	if len(e.doubts) > 0 {
		signal(e.doubtful)
	}
}

// mistrust notes one task. The latest version that it may have been grabbed at is not
// forgotten over other doubts, such as whether an older hint was grabbed again in vain.
func (e *Engine) mistrust(id task.ID, now time.Time, grabbed uint64) {
	d := e.doubts[id]
	e.doubts[id] = doubt{since: now, grabbed: max(grabbed, d.grabbed), inVain: d.inVain}
}

// known tells that a grab is known to have been made: it is run. It is called with mu
// held.
func (e *Engine) known(id task.ID) {
	if len(e.doubts) > 0 {
		delete(e.doubts, id)
	}
}

// doubtLoop looks at the tasks in doubt until there are none.
func (e *Engine) doubtLoop(ctx context.Context) {
	for {
		select {
		case <-e.doubtful:
		case <-ctx.Done():
			return
		}
		for rest := firstDoubtRest; rest > 0; rest *= 2 {
			if sleep(ctx, rest) != nil {
				return
			}
			select {
			case <-e.doubtful:
				rest = firstDoubtRest / 2
			default:
			}
			if e.lookAtDoubts(ctx) == 0 {
				break
			}
		}
	}
}

// maxInVain is how often a look asks the store in vain.
const maxInVain = 10

// lookAtDoubts tells the core of the tasks in doubt as they are in the store, and
// returns how many remain. Those that could not be looked at come last the next time: they
// may be in a database that is away, and others not.
func (e *Engine) lookAtDoubts(ctx context.Context) (remain int) {
	e.mu.Lock()
	ids := make([]task.ID, 0, len(e.doubts))
	for id := range e.doubts {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b task.ID) int { return cmp.Compare(e.doubts[a].inVain, e.doubts[b].inVain) })
	e.mu.Unlock()
	for inVain := 0; len(ids) > 0 && inVain < maxInVain; ids = ids[1:] {
		id := ids[0]
		t, err := e.store.Get(ctx, id)
		unknown := err != nil && !errors.Is(err, task.ErrNotFound)
		if unknown {
			inVain++
		}
		e.decide(func(c *core.Core, now time.Time) {
			d, ok := e.doubts[id]
			switch {
			case !ok:
			case unknown:
				d.inVain++
				e.doubts[id] = d
			case e.resolve(c, now, t, d), now.Sub(d.since) > doubtLasts:
				delete(e.doubts, id)
			}
		})
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.doubts)
}

// isSaving reports whether what came of an attempt at a row is on its way to the store:
// then the row was run, though an older hint made it doubtful. It is called with mu held.
func (e *Engine) isSaving(ref task.Ref) bool {
	e.absorb() // so that nothing is left in the core
	same := func(s core.Save) bool { return s.Ref == ref }
	for _, saves := range e.writing {
		if slices.ContainsFunc(saves, same) {
			return true
		}
	}
	return slices.ContainsFunc(e.pending.saves, same) || slices.ContainsFunc(e.late, same)
}

// resolve tells the core of a row in doubt, nil if there is none, and reports whether
// the doubt is over. It is called with mu held.
func (e *Engine) resolve(c *core.Core, now time.Time, t *task.Task, d doubt) bool {
	switch {
	case t == nil, c.Holds(t.ID):
		return false // it may still come; or the core learns by itself
	case t.State != task.Processing:
		c.Changed(now, t)
		e.waiters.ended(t)
		return t.Version >= d.grabbed
	case !e.isOurs(t.Owner):
		return true
	case t.Version == d.grabbed && !e.isSaving(t.Ref()):
		e.log.Warn("a task was grabbed though the store did not say so; it is put back", "id", t.ID, "type", t.Type)
		c.HandBack(now, t)
		return true
	}
	return false // its save is tried until the store takes it
}
