package core

import (
	"math"
	"time"

	"github.com/taskengine/taskengine/task"
)

// Submit makes t the row to insert, by the rules of its type. The row is processing already (fused) if it may start
// now, there is a free slot, and no other task has a better claim to it. A task with an ordering key is never
// fused: only the store knows whether it is the head of its key. The effect is the insert of the row, and is
// answered by Inserted.
func (c *Core) Submit(now time.Time, t *task.Task) {
	k := c.kind(t.Type)
	k.rules.Create(now, t)
	c.ready.Inserts = append(c.ready.Inserts, t)
	if t.State == task.Waiting || t.Turn != task.Unordered {
		return
	}
	owned := c.Owns(t.Queue(), t.Shard)
	if c.placementOf(t.Queue()).Elsewhere || !owned && c.ownedOf(t.Queue()).IsEmpty() {
		return
	}
	if _, taken := c.runs[t.ID]; taken || c.isHeld(t.ID) || t.IsOverdue(now) || !c.mayStart() || !c.mayGrab() || !owned && k.sharded {
		return
	}
	rank := t.Rank()
	rank.Seq = math.MaxUint64 // behind all others: the insert gives it its place
	slot, ok := c.table.Claim(c.steady(now), t.Queue(), rank)
	if !ok {
		return
	}
	if !owned {
		c.adopt(t)
	}
	c.countGrab()
	grab := c.grab(now, t.Ref())
	r := c.newRun(k, slot, t.Trigger(), inserting)
	grab.Apply(t)
	r.ref = t.Ref()
}

// Inserted answers the effect of Submit. created says whether the row was inserted. t is the row. If
// it was grabbed with its submit, it is run now.
func (c *Core) Inserted(now time.Time, t *task.Task, created bool) {
	switch {
	case t.State == task.Processing:
		r := c.expect(t.ID, "insert", inserting)
		if !created {
			c.end(now, r, false)
			break
		}
		c.stats.Fused++
		c.begin(now, r, t)
		return
	case !created:
		return
	default:
		c.route(now, t)
	}
	c.book(now)
}

// route passes a submitted or waiting row to its node: it schedules the row if that is this node, and
// otherwise adds a hint.
func (c *Core) route(now time.Time, t *task.Task) {
	if t.State != task.Submitted && t.State != task.Waiting {
		return
	}
	h := t.Hint()
	h.OrderingKey = "" // its head was looked for with the change
	c.routeHint(now, h)
}

// routeHint is route for a row of which the core has no more than a hint.
func (c *Core) routeHint(now time.Time, h task.Hint) {
	if c.Owns(h.Queue, h.Shard) {
		c.schedule(now, h)
	} else {
		c.ready.Hints = append(c.ready.Hints, h)
	}
}

// schedule puts a row of this node that is submitted or waiting into the table and the timers. It
// reports whether the row is kept in memory. If not, it was left to the store.
func (c *Core) schedule(now time.Time, h task.Hint) (kept bool) {
	kept = true
	if h.State == task.Submitted && !h.NextEventAt.IsZero() && !now.Before(h.NextEventAt) {
		return c.timers.admit(h) // it is overdue, and becomes an error
	}
	if h.State == task.Submitted && h.Turn != task.Behind && !c.placementOf(h.Queue).Elsewhere {
		c.reposition(now, h.Trigger)
		kept = c.add(now, h.Trigger)
	}
	if h.State == task.Submitted || h.State == task.Waiting {
		kept = c.timers.admit(h) && kept
	}
	return kept
}

// grab returns the change that grabs the task at ref for this node.
func (c *Core) grab(now time.Time, ref task.Ref) task.Change {
	return task.Change{Ref: ref, Due: c.config.Shared, To: task.Processing, At: now, NextEventAt: now, Owner: c.config.Owner, Node: c.nodeName()}
}

// earlier returns the earlier of two times. The zero time is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
