package core

import (
	"math"
	"time"

	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

// The task that follows in the order of a key mostly is of the same queue. If it may start when the task before it ends,
// the store grabs it with the save of that: one commit hands the key over. The slot goes from one to the other. The core
// does not know which task is next, so the run keeps the id of the one that has ended until the store has answered.

// handOver has the save of r, which the core has just asked for, grab the next head of its key, if a task of the same
// queue and priority that became ready now could start at once. It reports whether it did: then r has its slot again, and
// is answered by GrabbedHead.
func (c *Core) handOver(now time.Time, r *run) bool {
	save := &c.ready.Saves[len(c.ready.Saves)-1]
	k, tr := r.kind, r.trigger
	switch {
	case !c.config.GrabsHeads, save.To.Live(), !r.next.ID.IsZero(), k.policy.Delivery == policy.AtMostOnce:
		return false
	case !c.mayStart(), !c.mayGrab(), c.isHeld(tr.ID), !c.Starts(tr.Queue, tr.Shard):
		return false
	}
	c.end(now, r, true)
	rank := task.Rank{Priority: tr.Rank.Priority, ReadyAt: now.UnixMicro(), Seq: math.MaxUint64}
	slot, ok := c.table.Claim(c.steady(now), tr.Queue, rank)
	if !ok {
		return true // it has ended
	}
	c.countGrab()
	c.newRun(k, slot, tr, handingOver)
	save.Head = &HeadGrab{Queue: tr.Queue, Priority: rank.Priority, Grab: c.grab(now, task.Ref{})}
	return true
}

// GrabbedHead answers the Head of the save of a task. t is the head that the store has grabbed with its payload, and nil
// if it has grabbed none: then Promoted passes the head, if there is one.
func (c *Core) GrabbedHead(now time.Time, ended task.ID, t *task.Task) {
	r := c.expect(ended, "grab of the next head", handingOver)
	if t == nil {
		c.end(now, r, false)
		c.book(now)
		return
	}
	c.stats.HandedOver++
	if _, has := c.runs[t.ID]; has { // an attempt that was given up still has its handler
		c.end(now, r, false)
		c.save(t.Type, task.Change{
			Ref: t.Ref(), By: t.Owner, To: task.Submitted, At: now, Count: task.Refund, Outcome: task.HandedBack,
			NextEventAt: r.rules.OverdueAt(now), Error: "an earlier attempt of it has not returned yet",
		}, false)
		c.book(now)
		return
	}
	next := r.next
	delete(c.runs, ended)
	r.ref, r.trigger, r.phase, r.next = t.Ref(), t.Trigger(), grabbing, task.Trigger{}
	c.runs[t.ID] = r
	if !next.ID.IsZero() {
		c.add(now, next)
	}
	c.begin(now, r, t)
}
