package core

import (
	"slices"
	"time"

	"github.com/taskengine/taskengine/engine/internal/table"
	"github.com/taskengine/taskengine/task"
)

// holding keeps the tasks of databases that do not answer. They are not started, so that they do not
// take slots from the tasks of other databases, and not moved, so that they do not count for
// maxMoving.
type holding struct {
	shards task.Shards // by task.ID.Shard
	aside  map[task.ID]aside
}

// aside is a task that was put aside when it was its turn.
type aside struct {
	trigger task.Trigger
	turn    turn
}

// turn is the next step of a held task.
type turn uint8

const (
	toStart turn = iota // at most Config.Capacity of them are put aside
	toFire              // its row is waiting, and its time has come
	toMove              // it was not started in time
)

// heldFor is the pause of a held task that cannot be put aside.
const heldFor = time.Minute

// Hold sets the shards, by [task.ID.Shard], to start no tasks of until it is called again. It
// withdraws their grabs that were not taken yet.
func (c *Core) Hold(now time.Time, shards task.Shards) {
	c.held.shards = shards
	var free []aside
	for id, a := range c.held.aside {
		if !shards.Has(id.Shard()) {
			free = append(free, a)
			delete(c.held.aside, id)
		}
	}
	slices.SortFunc(free, func(a, b aside) int { return a.trigger.ID.Compare(b.trigger.ID) })
	for _, a := range free {
		switch a.turn {
		case toStart:
			c.add(now, a.trigger)
		case toFire:
			c.timers.retry(now, a.trigger, true)
		case toMove:
			c.timers.submitted.insert(timer{at: now.UnixMicro(), trigger: a.trigger})
		}
	}
	c.withdraw(now)
	c.Tick(now)
}

// withdraw ends the grabs of held tasks that were not taken yet.
func (c *Core) withdraw(now time.Time) {
	for _, t := range c.ready.Inserts {
		if t.State == task.Processing && c.isHeld(t.ID) {
			c.Unclaim(now, t)
		}
	}
	isHeld := func(g task.Change) bool {
		if !c.isHeld(g.ID) {
			return false
		}
		c.retryGrab(now, c.runs[g.ID], 0)
		return true
	}
	c.ready.Grabs, c.ready.Relaxed = slices.DeleteFunc(c.ready.Grabs, isHeld), slices.DeleteFunc(c.ready.Relaxed, isHeld)
}

// isHeld reports whether a task is not to be started at present.
func (c *Core) isHeld(id task.ID) bool { return c.held.shards.Has(id.Shard()) }

// putAside keeps a held task until its shard is not held any more. Of two versions of a task the
// newer stays.
func (c *Core) putAside(now time.Time, tr task.Trigger, t turn) {
	old, isKnown := c.held.aside[tr.ID]
	switch {
	case isKnown && (old.trigger.Version > tr.Version || old.trigger.Version == tr.Version && t == toStart):
	case isKnown, t != toStart, len(c.held.aside) < c.config.Capacity:
		c.held.aside[tr.ID] = aside{tr, t}
	default:
		c.timers.retry(now.Add(heldFor), tr, false)
	}
}

// Unclaim takes back the slot of a row that is processing and was not given to the store: Create makes
// the row again. The effect of Submit remains to be answered.
func (c *Core) Unclaim(now time.Time, t *task.Task) {
	r := c.expect(t.ID, "insert", inserting)
	r.rules.Create(now, t)
	c.end(now, r, false)
	c.book(now)
}

// Yield frees the slot of a task after its grab, or its insert with a grab, has been under way for
// long. After the answer the task takes a slot again, or is handed back if it finds none.
func (c *Core) Yield(now time.Time, id task.ID) {
	r := c.expect(id, "grab", inserting, grabbing)
	if r.yielded {
		return
	}
	c.table.Return(c.steady(now), r.slot)
	r.slot, r.yielded = table.Slot{}, true
	c.book(now)
}

// hasSlotAgain reports whether r has a slot. It takes one if r has yielded its slot.
func (c *Core) hasSlotAgain(now time.Time, r *run, t *task.Task) bool {
	if r.yielded {
		slot, ok := c.table.Claim(c.steady(now), t.Queue(), t.Rank())
		if !ok {
			return false
		}
		r.slot, r.yielded, r.losses = slot, false, c.losses
	}
	return true
}
