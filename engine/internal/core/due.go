package core

import (
	"time"

	"github.com/google/btree"

	"github.com/taskengine/taskengine/engine/internal/window"
	"github.com/taskengine/taskengine/task"
)

// duePage is how many rows one DueLoad asks for. Memory holds at most twice as many rows of a
// state.
const duePage = 10_000

// timer is something that is to happen at a time. Timers are ordered by time, and by id at the same
// time.
type timer struct {
	at      int64 // Unix microseconds
	trigger task.Trigger
	fire    bool // only in timers.retries: the row is waiting; if false, the trigger goes back to the table
}

func (t timer) key() dueKey { return dueKey{t.at, t.trigger.ID} }

func (t timer) before(u timer) bool {
	if t.at != u.at {
		return t.at < u.at
	}
	return t.trigger.ID.Compare(u.trigger.ID) < 0
}

// dueKey is the position of a row in the due order of the rows of a state.
type dueKey struct {
	at int64 // Unix microseconds
	id task.ID
}

func (p dueKey) Compare(q dueKey) int {
	switch {
	case p.at < q.at:
		return -1
	case p.at > q.at:
		return 1
	}
	return p.id.Compare(q.id)
}

// addTimer adds t to tree. Of two versions of the same task the newer stays: a hint may be older than
// the version in memory.
func addTimer(tree *btree.BTreeG[timer], t timer) {
	if old, replaced := tree.ReplaceOrInsert(t); replaced && old.trigger.Version > t.trigger.Version {
		tree.ReplaceOrInsert(old)
	}
}

// dueRows has the rows of one state that have a time, as far as they are in memory: a window of the
// rows in the store.
type dueRows struct {
	state  task.State
	timers *btree.BTreeG[timer]
	window window.Window[dueKey]
}

func newDueRows(state task.State) dueRows {
	d := dueRows{state: state, timers: newTimers()}
	d.window.Reset()
	return d
}

// admit takes in a notice of a row. It reports whether the row is in memory now. If not, it was
// left to the store.
func (d *dueRows) admit(t timer) (kept bool) {
	return d.window.Admit(t.key()) && d.insert(t)
}

// insert adds t. If there are too many rows then, the last one is left to the store. insert reports
// whether t stays.
func (d *dueRows) insert(t timer) (kept bool) {
	addTimer(d.timers, t)
	if d.timers.Len() <= 2*duePage {
		return true
	}
	dropped, _ := d.timers.DeleteMax()
	last, _ := d.timers.Max()
	d.window.Shrink(last.key())
	return dropped.trigger.ID != t.trigger.ID
}

// leave forgets the time of a row of a version before that of h.
func (t *timers) leave(h task.Hint) {
	if h.NextEventAt.IsZero() {
		return
	}
	of := t.submitted.timers
	if h.State == task.Waiting {
		of = t.waiting.timers
	}
	at := timer{at: h.NextEventAt.UnixMicro(), trigger: h.Trigger}
	if old, ok := of.Get(at); ok && old.trigger.Version < h.Version {
		of.Delete(at)
	}
}

// refill asks for the next page when half of a page is used up.
func (d *dueRows) refill(r *Ready) {
	if d.window.Complete() || d.window.Asked() || d.timers.Len() > duePage/2 {
		return
	}
	l := DueLoad{State: d.state, Limit: duePage}
	if after := d.window.Ask(); after != (dueKey{}) {
		l.AfterAt, l.AfterID = time.UnixMicro(after.at).UTC(), after.id
	}
	r.DueLoads = append(r.DueLoads, l)
}

// fill takes in the page that was asked for.
func (d *dueRows) fill(page []Due, end bool) {
	d.window.Answer(end)
	for _, row := range page {
		t := timer{at: row.At.UnixMicro(), trigger: row.Trigger}
		if !d.window.Extend(t.key()) || !d.insert(t) {
			return
		}
	}
}

// take takes out the first due row.
func (d *dueRows) take(now int64) (timer, bool) {
	if t, ok := d.timers.Min(); !ok || t.at > now {
		return timer{}, false
	}
	return d.timers.DeleteMin()
}

// DueLoaded answers l. page has the rows in the order of their times, and end says that the
// store has no rows behind them. A DueLoad that failed is answered with no rows and end false; the
// core asks for it again.
func (c *Core) DueLoaded(now time.Time, l DueLoad, page []Due, end bool) {
	switch {
	case l.Ahead:
		c.timers.ahead.fill(now, c.steady(now), page, end)
	case l.State == task.Waiting:
		c.timers.waiting.fill(page, end)
	default:
		c.timers.submitted.fill(page, end)
	}
	c.Tick(now)
}

// Due is a row with the time At.
type Due struct {
	task.Trigger
	At time.Time
}
