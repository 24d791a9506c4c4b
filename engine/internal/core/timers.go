package core

import (
	"time"

	"github.com/google/btree"

	"github.com/taskengine/taskengine/engine/internal/table"
	"github.com/taskengine/taskengine/task"
)

// The rows that are being moved at a time, from waiting to submitted or to error: half as many as there are tasks that have
// a slot, within these bounds. Grabs and ends wait for the commits that they share with moves, so more would hold them back.
const (
	minMoving = 16
	maxMoving = 256
)

// retryDelay is how long a task is left alone after the store could not grab it, or while an
// abandoned handler still has its slot.
const retryDelay = time.Second

// timers has the work of the core that is due at a time.
type timers struct {
	waiting   dueRows              // to start
	submitted dueRows              // to give up, if they are not started before
	retries   *btree.BTreeG[timer] // to be tried again
	ahead     ahead                // of waiting
	moving    moves                // of rows of waiting
	expiring  moves                // of rows of submitted
}

func newTimers() *btree.BTreeG[timer] { return btree.NewG(16, timer.before) }

// started reports whether the first rows of the store are in memory.
func (t *timers) started() bool {
	return t.waiting.window.Started() && t.submitted.window.Started()
}

// admit takes in a notice of a row that is waiting or submitted. It reports whether the core will
// know when its time comes, if it has one. If not, the row was left to the store.
func (t *timers) admit(h task.Hint) (kept bool) {
	if h.NextEventAt.IsZero() {
		return true
	}
	at := timer{at: h.NextEventAt.UnixMicro(), trigger: h.Trigger}
	if h.State == task.Waiting {
		return t.waiting.admit(at)
	}
	return t.submitted.admit(at)
}

// retry adds a trigger to the table at a time or, if its row is waiting, fires it then. Such a row is
// not in the window of waiting rows until then, because the store has another time for it.
func (t *timers) retry(at time.Time, tr task.Trigger, waiting bool) {
	addTimer(t.retries, timer{at: at.UnixMicro(), trigger: tr, fire: waiting})
}

// Tick passes the time to the core. It must be called when [Core.Wake] has come.
func (c *Core) Tick(now time.Time) {
	if !c.nextTimeUp.IsZero() && !now.Before(c.nextTimeUp) {
		c.enforceTimeouts(now)
	}
	if c.steady(now) >= c.delayedAt {
		c.beginDelayed(now)
	}
	if !c.mayStart() || !c.mayGrab() {
		return
	}
	c.table.Advance(c.steady(now))
	ts, at := &c.timers, now.UnixMicro()
	for c.mayGrab() {
		t, ok := ts.retries.Min()
		if !ok || t.at > at {
			break
		}
		ts.retries.DeleteMin()
		if t.fire {
			c.fire(now, t.trigger)
		} else {
			c.add(now, t.trigger)
		}
	}
	c.book(now)
	for ts.moving.count() < c.mostMoving() && c.mayGrab() {
		t, ok := ts.waiting.take(at)
		if !ok {
			break
		}
		c.fire(now, t.trigger)
	}
	c.lookAhead(now)
	for ts.expiring.count() < c.mostMoving() {
		t, ok := ts.submitted.take(at)
		if !ok {
			break
		}
		if c.isHeld(t.trigger.ID) {
			c.putAside(now, t.trigger, toMove)
		} else if c.Owns(t.trigger.Queue, t.trigger.Shard) {
			c.move(t.trigger.Type, task.Change{
				Ref: t.trigger.Ref, Due: c.config.Shared, To: task.Error, At: now, Error: "it was not started in time",
				Leaves: c.Rules(t.trigger.Type).Continues,
			})
		}
	}
}

// fire starts a due task. If it may run at once, it is grabbed; otherwise it is submitted. A task that
// is Behind is submitted, and the store makes it the head if it is next.
func (c *Core) fire(now time.Time, tr task.Trigger) {
	if r, ok := c.runs[tr.ID]; ok {
		if r.isNews(tr) { // r is abandoned, and its handler has not returned yet
			c.timers.retry(now.Add(retryDelay), tr, true)
		}
		return
	}
	if c.timers.moving.has(tr.Ref) || !c.Owns(tr.Queue, tr.Shard) {
		return
	}
	if c.isHeld(tr.ID) {
		c.putAside(now, tr, toFire)
		return
	}
	k := c.kind(tr.Type)
	if slot, ok := c.claimDue(now, tr); ok {
		c.countGrab()
		c.newRun(k, slot, tr, grabbing).fromWaiting = true
		c.ready.Grabs = append(c.ready.Grabs, c.grab(now, tr.Ref))
		return
	}
	c.move(tr.Type, task.Change{Ref: tr.Ref, Due: c.config.Shared, To: task.Submitted, At: now, NextEventAt: k.rules.OverdueAt(now)})
}

// claimDue takes a slot for a due task, if it may start here at once. A task that is Behind may not.
func (c *Core) claimDue(now time.Time, tr task.Trigger) (slot table.Slot, ok bool) {
	if tr.Turn == task.Behind || c.placementOf(tr.Queue).Elsewhere {
		return slot, false
	}
	return c.table.Claim(c.steady(now), tr.Queue, tr.Rank)
}

// move asks to swap a change of a task that is due but does not run.
func (c *Core) move(typ string, change task.Change) {
	c.timers.movesTo(change.To).begin(change.Ref)
	c.save(typ, change, false)
	c.ready.Saves[len(c.ready.Saves)-1].moves = true
}

func (t *timers) movesTo(s task.State) *moves {
	if s == task.Submitted {
		return &t.moving
	}
	return &t.expiring
}

// moves has the rows that are being moved.
type moves struct {
	versions map[task.ID]uint64
	rests    map[task.ID]uint64 // the ones that were refused and are tried again later
}

func newMoves() moves { return moves{make(map[task.ID]uint64), make(map[task.ID]uint64)} }

// count returns how many are under way that do not rest.
func (m *moves) count() int { return len(m.versions) - len(m.rests) }

// has reports whether a version of a row, or a newer one, is being moved.
func (m *moves) has(ref task.Ref) bool {
	v, ok := m.versions[ref.ID]
	return ok && v >= ref.Version
}

func (m *moves) begin(ref task.Ref) {
	m.versions[ref.ID] = ref.Version
	delete(m.rests, ref.ID)
}

func (m *moves) rest(ref task.Ref) {
	if m.versions[ref.ID] == ref.Version {
		m.rests[ref.ID] = ref.Version
	}
}

func (m *moves) end(ref task.Ref) {
	if m.versions[ref.ID] == ref.Version {
		delete(m.versions, ref.ID)
		delete(m.rests, ref.ID)
	}
}

// Rests reports that the store has refused a save, and that it is tried again later. Other rows may be moved until
// then.
func (c *Core) Rests(now time.Time, s Save) {
	if s.moves {
		c.timers.movesTo(s.To).rest(s.Ref)
		c.Tick(now)
	}
}

// mostMoving returns how many rows may be moved at a time, of each state.
func (c *Core) mostMoving() int {
	if c.moves > 0 {
		return c.moves
	}
	if len(c.runs) == 0 {
		return maxMoving
	}
	return min(max(minMoving, len(c.runs)/2), maxMoving)
}

// Wake returns when [Core.Tick] is due. The zero time is never.
func (c *Core) Wake() time.Time {
	wake := c.nextTimeUp
	if len(c.delayed) > 0 {
		wake = earlier(wake, c.wall(c.delayedAt))
	}
	if !c.mayStart() || !c.mayGrab() {
		return wake
	}
	if at, ok := c.table.Wake(); ok {
		wake = earlier(wake, c.wall(at))
	}
	wake = earlierTimer(wake, c.timers.retries)
	most := c.mostMoving()
	if c.timers.moving.count() < most {
		wake = earlierTimer(wake, c.timers.waiting.timers)
	}
	if c.timers.expiring.count() < most {
		wake = earlierTimer(wake, c.timers.submitted.timers)
	}
	wake = earlier(wake, c.aheadAt())
	return wake
}

// earlierTimer returns wake or the time of the first timer, whichever is earlier.
func earlierTimer(wake time.Time, timers *btree.BTreeG[timer]) time.Time {
	t, ok := timers.Min()
	if !ok {
		return wake
	}
	return earlier(wake, time.UnixMicro(t.at))
}
