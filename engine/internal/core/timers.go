package core

import (
	"time"

	"github.com/google/btree"

	"github.com/taskengine/taskengine/engine/task"
)

// lookLimit is how many rows one look asks for. The agenda of a state keeps at most
// twice as many.
const lookLimit = 10_000

// maxMoving is how many rows may be on their way from waiting to submitted at a time.
const maxMoving = 4096

// agenda holds what is to happen at a time: waiting tasks that are to be started, and
// submitted ones that are given up when they have not been.
type agenda struct {
	waiting   span
	submitted span
	retries   *btree.BTreeG[entry] // what rests, to be tried again
	moving    int                  // waiting rows on their way to submitted
}

// entry is one thing that is to happen. Its place is the time, and then the id.
type entry struct {
	at      int64 // Unix microseconds
	trigger task.Trigger
	fire    bool // in retries: its row is waiting; else the trigger goes back to the table
}

func (e entry) before(f entry) bool {
	if e.at != f.at {
		return e.at < f.at
	}
	return e.trigger.ID.Compare(f.trigger.ID) < 0
}

// span is a window of the rows of one state, as the table has one of each queue: those
// up to the horizon are in memory, those behind it in the store only.
type span struct {
	state   task.State
	entries *btree.BTreeG[entry]
	all     bool  // nothing is behind the horizon
	horizon entry // up to here everything is known; the zero entry is the very start
	asking  bool  // a Look is on its way
	asked   entry // the horizon when it went out
	missed  bool  // a row was left to the store since then,
	gap     entry // and this is the first of those
}

func (a *agenda) begin() {
	newTree := func() *btree.BTreeG[entry] { return btree.NewG(16, entry.before) }
	a.waiting = span{state: task.Waiting, entries: newTree()}
	a.submitted = span{state: task.Submitted, entries: newTree()}
	a.retries = newTree()
}

// surveyed reports whether the first rows of the store are known.
func (a *agenda) surveyed() bool { return a.waiting.known() && a.submitted.known() }

func (s *span) known() bool { return s.all || s.horizon != entry{} }

// note tells of a row that has come to rest in the store. It reports whether it is kept:
// if not, it was left to the store.
func (a *agenda) note(h task.Hint) (kept bool) {
	if h.NextEventAt.IsZero() {
		return true
	}
	e := entry{at: h.NextEventAt.UnixMicro(), trigger: h.Trigger}
	if h.State == task.Waiting {
		return a.waiting.note(e)
	}
	return a.submitted.note(e)
}

// rest is how long something is left alone that could not be done.
const rest = time.Second

// again has a trigger added to the table at a time or, if its row is waiting, fired. A waiting
// row is no part of the window until then: its own time is another.
func (a *agenda) again(at time.Time, tr task.Trigger, waiting bool) {
	put(a.retries, entry{at: at.UnixMicro(), trigger: tr, fire: waiting})
}

func (s *span) note(e entry) (kept bool) {
	if !s.all && s.horizon.before(e) {
		if !s.missed || e.before(s.gap) {
			s.missed, s.gap = true, e
		}
		return false
	}
	put(s.entries, e)
	if s.entries.Len() <= 2*lookLimit {
		return true
	}
	last, _ := s.entries.DeleteMax()
	s.horizon, _ = s.entries.Max()
	s.all = false
	return last.trigger.ID != e.trigger.ID
}

// put adds e to tree. Of two versions of the same task the newer stays: the older one
// may be a hint that is out of date.
func put(tree *btree.BTreeG[entry], e entry) {
	if old, replaced := tree.ReplaceOrInsert(e); replaced && old.trigger.Version > e.trigger.Version {
		tree.ReplaceOrInsert(old)
	}
}

// look asks for more of the store when half of the window is used up.
func (s *span) look(r *Ready) {
	if s.all || s.asking || s.entries.Len() > lookLimit/2 {
		return
	}
	s.asking, s.asked, s.missed = true, s.horizon, false
	l := Look{State: s.state, Limit: lookLimit}
	if s.horizon != (entry{}) {
		l.AfterAt, l.AfterID = time.UnixMicro(s.horizon.at).UTC(), s.horizon.trigger.ID
	}
	r.Looks = append(r.Looks, l)
}

// looked takes in the answer to a look.
func (s *span) looked(page []Due, end bool) {
	s.asking = false
	if s.asked != s.horizon {
		return // the window has shrunk meanwhile: this is not what comes next
	}
	for _, d := range page {
		e := entry{at: d.At.UnixMicro(), trigger: d.Trigger}
		if s.missed && !e.before(s.gap) {
			return // the page was read before that row was as it is
		}
		s.horizon = e
		put(s.entries, e)
	}
	s.all = end && !s.missed
}

// due takes the first entry whose time has come.
func (s *span) due(now int64) (entry, bool) {
	if e, ok := s.entries.Min(); !ok || e.at > now {
		return entry{}, false
	}
	return s.entries.DeleteMin()
}

// Looked answers a Look: these are the rows in the order of their times, and end says
// that there are no others behind them. A Look that failed is answered with nothing
// and end false; it is asked for again.
func (c *Core) Looked(now time.Time, s task.State, page []Due, end bool) {
	if s == task.Waiting {
		c.agenda.waiting.looked(page, end)
	} else {
		c.agenda.submitted.looked(page, end)
	}
	c.Tick(now)
}

// Due is a row whose time comes at At.
type Due struct {
	task.Trigger
	At time.Time
}

// Tick tells the time. It is due when [Core.Wake] has come.
func (c *Core) Tick(now time.Time) {
	if !c.sweep.IsZero() && !now.Before(c.sweep) {
		c.enforce(now)
	}
	if c.isResting() || c.isHeld() {
		return
	}
	c.table.Advance(c.steady(now))
	a, at := &c.agenda, now.UnixMicro()
	for !c.isHeld() {
		e, ok := a.retries.Min()
		if !ok || e.at > at {
			break
		}
		a.retries.DeleteMin()
		if e.fire {
			c.fire(now, e.trigger)
		} else {
			c.add(now, e.trigger)
		}
	}
	c.book(now)
	for a.moving < maxMoving && !c.isHeld() {
		e, ok := a.waiting.due(at)
		if !ok {
			break
		}
		c.fire(now, e.trigger)
	}
	for a.moving < maxMoving {
		e, ok := a.submitted.due(at)
		if !ok {
			break
		}
		if c.Owns(e.trigger.Type, e.trigger.Shard) {
			c.move(task.Change{Ref: e.trigger.Ref, To: task.Error, At: now, Error: "it was not started in time"})
		}
	}
}

// fire starts a waiting task whose time has come: at once if it may run at once, else
// it is submitted.
func (c *Core) fire(now time.Time, tr task.Trigger) {
	if r, ok := c.runs[tr.ID]; ok {
		if r.isNews(tr) { // r is abandoned, and its handler has not returned yet
			c.agenda.again(now.Add(rest), tr, true)
		}
		return
	}
	if !c.Owns(tr.Type, tr.Shard) {
		return
	}
	k := c.kind(tr.Type)
	if slot, ok := c.table.Claim(c.steady(now), tr.Queue, tr.Rank); ok {
		c.grabOne()
		c.hold(k, slot, tr, grabbing).fromWaiting = true
		c.ready.Grabs = append(c.ready.Grabs, c.grab(now, tr.Ref))
		return
	}
	c.move(task.Change{Ref: tr.Ref, To: task.Submitted, At: now, NextEventAt: queueDeadline(k.policy.Timeout, now)})
}

// move asks to swap a change of a task that is due but does not run.
func (c *Core) move(change task.Change) {
	c.agenda.moving++
	c.save(change, false)
	c.ready.Saves[len(c.ready.Saves)-1].moves = true
}

// Wake returns when [Core.Tick] is due; the zero time is never.
func (c *Core) Wake() time.Time {
	wake := c.sweep
	if c.isResting() || c.isHeld() {
		return wake
	}
	if at, ok := c.table.Wake(); ok {
		wake = earlier(wake, c.wall(at))
	}
	wake = soonest(wake, c.agenda.retries)
	if c.agenda.moving < maxMoving {
		wake = soonest(wake, c.agenda.waiting.entries)
		wake = soonest(wake, c.agenda.submitted.entries)
	}
	return wake
}

func soonest(wake time.Time, entries *btree.BTreeG[entry]) time.Time {
	e, ok := entries.Min()
	if !ok {
		return wake
	}
	return earlier(wake, time.UnixMicro(e.at))
}
