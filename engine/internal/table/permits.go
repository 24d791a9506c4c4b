package table

import (
	"hash/fnv"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/policy"
)

// A limit of the cluster counts the tasks of all nodes. A coordinator keeps its permits, and grants
// them to nodes. In the table of a node, such a limit has as many slots as the node holds permits:
// booking a task needs no message. The table asks for permits by an Order when a task waits for one,
// and gives them back by another:
//
//   - permits that were not used for idleTime, and that no task waits for; for permits that were never used, this
//     time grows each time,
//   - unused permits, if other nodes wait for some, and
//   - permits of ended tasks, if other nodes have less than their share. A node that uses permits
//     keeps them for quantum, so that they do not move with each task.
//
// It orders more permits than it needs at once, as many again as it uses, while no other node waits.
// Tokens of rates are drawn in the same way, but are used up.
type permits struct {
	name   string // of the limit, with its values, for the coordinator
	spread int64  // see grace; depends on the name

	held    int         // permits that this node has
	counted Total       // the part of this one in Total of the limit; Used is not set
	least   int         // how many it must have to start the task that waits; 0 if none waits
	ordered coord.Order // the last Order
	holding bool        // it orders no more until the last Order is answered, because that gave permits back
	lowered uint64      // the number of the last Order that gave permits back, or of the first one
	dirty   bool        // it is in Table.changed

	share, waiting, needed int // as the coordinator said last, see Holding

	fresh       bool  // none of the permits that came last was used
	unused      int   // how often in a row permits were given back that were not used; at most maxUnused
	grownAt     int64 // when permits came last
	usedAt      int64 // when a task took or freed a slot last
	scarceUntil int64 // until then no more permits are ordered than are needed at once
	reviewAt    int64 // its time in Table.reviews; 0 if it has none

	line
	tokens
}

// tokens are the drawn and unused tokens of the rate of a limit of the cluster.
type tokens struct {
	interval int64 // nanoseconds between two tokens at the full rate; 0 is no rate
	burst    int
	left     int
	until    int64 // when the remaining ones are given up
	chunk    int   // how many the next Draw asks for
	drawing  bool  // a Draw is under way
	drawAt   int64 // not before this time
}

const (
	idleTime    = int64(10e9)  // how long unused permits are kept, in nanoseconds
	quantum     = int64(200e6) // how long a node uses permits before it gives them to nodes that have less than their share
	grace       = int64(20e6)  // see permits.grace
	maxUnused   = 8            // see permits.unused
	maxIdle     = 3            // how often idleTime is doubled
	scarceTime  = int64(1e9)   // how long permits are scarce for a node after it got fewer than it wanted
	drawAhead   = int64(100e6) // the time at the full rate that one draw covers
	tokenTime   = int64(1e9)   // how long tokens are kept, or for an interval if that is longer
	maxDrawWait = int64(60e9)  // after this time a Draw without a token is repeated: the rate may have been changed
)

// addPermits makes n a limit of the cluster. values are its own value and the values above it.
func (t *Table) addPermits(n *node, values []string) {
	n.permits = &permits{name: policy.ClusterName(n.name, values...), lowered: t.ordered + 1}
	h := fnv.New32a()
	h.Write([]byte(n.permits.name))
	n.permits.spread = int64(4 + h.Sum32()%16)
	t.permits[n.permits.name] = n
}

// setRate sets the rate of a limit of the cluster.
func (k *tokens) setRate(r policy.Rate) {
	b := newBucket(r)
	if k.interval = b.interval; b.interval == 0 {
		*k = tokens{drawing: k.drawing}
		return
	}
	k.burst = int(b.slack/b.interval) + 1
	k.chunk = max(1, k.chunk)
	k.left = min(k.left, k.burst)
}

// capacity returns how many slots of n this node may use.
func (n *node) capacity() int {
	if n.permits != nil {
		return min(n.max, n.permits.held)
	}
	return n.max
}

// lack records that a task waits, the best of the tasks that wait for n, and that n has no room for it. A limit that has
// ordered permits, or that has one count for all, orders the permits that it lacks. A limit of one of several values
// has to stand in line.
func (t *Table) lack(now int64, n *node, offer child) {
	p := n.permits
	if p == nil || n.paused {
		return
	}
	if n.max > 0 {
		switch after := n.used + offer.need; {
		case after > n.max:
			return
		case after > p.held:
			if p.least == 0 && n.keyed {
				t.enterLine(n, offer)
			} else if p.least != after {
				p.least = after
				t.changePermits(n)
			}
			return
		}
	}
	t.draw(now, n)
}

// lacksNone records that no task waits for a permit of n.
func (t *Table) lacksNone(n *node) {
	p := n.permits
	p.leaveLine()
	if p.least > 0 {
		p.least = 0
		t.leaveAhead(p)
		t.changePermits(n)
	}
}

// draw asks for tokens of n, if it has a rate and none are left.
func (t *Table) draw(now int64, n *node) {
	p := n.permits
	if k := &p.tokens; k.interval > 0 && k.left == 0 && !k.drawing && now >= k.drawAt {
		k.drawing = true
		t.draws = append(t.draws, coord.Draw{Name: p.name, Interval: time.Duration(k.interval), Burst: k.burst, Tokens: k.chunk})
	}
}

// takePermit is called when a task has taken a slot of n.
func (t *Table) takePermit(now int64, n *node) {
	p := n.permits
	p.usedAt, p.fresh, p.unused = now, false, 0
	p.leaveLine()
	t.useAhead(p)
	if p.interval > 0 {
		if p.left--; p.left == 0 {
			p.chunk = min(2*p.chunk, p.burst, int(max(1, drawAhead/p.interval)))
		}
	}
	if first, ok := n.parked.Min(); ok && !t.room(now, n, first.need) {
		t.lack(now, n, first)
	}
}

// freePermit is called when a task has freed its slot of n, before another task can take it.
func (t *Table) freePermit(now int64, n *node, refund bool) {
	p := n.permits
	p.usedAt = now
	if refund && p.interval > 0 && now < p.until {
		p.left++
		t.reviewAt(n, p.until)
	}
	if give := min(p.held-n.used, p.held-p.share, p.needed); give > 0 && now-p.grownAt >= quantum {
		p.held -= give
		p.needed -= give
		p.holding = true
	}
	t.changePermits(n)
}

// changePermits has the next TakeOrders look at n.
func (t *Table) changePermits(n *node) {
	if !n.permits.dirty {
		n.permits.dirty = true
		t.changed = append(t.changed, n)
	}
}

// TakeOrders appends the Orders and Draws that are to be made now, and returns both.
func (t *Table) TakeOrders(orders []coord.Order, draws []coord.Draw) ([]coord.Order, []coord.Draw) {
	for {
		if t.lookAhead(); len(t.changed) == 0 {
			break
		}
		n := t.changed[len(t.changed)-1]
		t.changed = t.changed[:len(t.changed)-1]
		p := n.permits
		p.dirty = false
		o := t.orderFor(n)
		if o.Want == p.ordered.Want && o.Want <= p.held {
			o.Least = p.ordered.Least // it has all it wants
		}
		if o != p.ordered {
			t.ordered++
			o.Number = t.ordered
			if o.Want > 0 || p.ordered.Want > 0 {
				orders = append(orders, o)
			}
			if o.Want < p.ordered.Want {
				p.lowered = o.Number
			}
			p.ordered = o
		}
		if o.Want < p.held {
			p.held, p.holding = o.Want, true
			t.capacityChanged(t.now, n)
		}
		n.total.count(p)
		t.retire(t.now, n)
	}
	draws = append(draws, t.draws...)
	t.draws = t.draws[:0]
	return orders, draws
}

// orderFor returns the Order that n needs.
func (t *Table) orderFor(n *node) coord.Order {
	p := n.permits
	o := coord.Order{Name: p.name, Number: p.ordered.Number, Want: n.used, Max: n.max, Version: t.version}
	if n.max == 0 {
		o.Want = 0
		return o
	}
	if idle := p.held - n.used; idle > 0 {
		o.Want = p.held - t.excess(n, idle)
	}
	if p.least > p.held && o.Want >= p.held && !p.holding && !t.draining {
		if o.Least = p.least; p.waiting == 0 && t.now >= p.scarceUntil {
			o.Want = min(2*n.used, n.max)
		}
		o.Want = max(o.Want, p.least)
	}
	return o
}

// excess returns how many of the idle permits of n to give back now. If some are due later, it sets
// the time to look at n again.
func (t *Table) excess(n *node, idle int) int {
	p := n.permits
	at, give := p.usedAt+idleTime, idle
	if p.fresh {
		at = p.usedAt + idleTime<<min(p.unused, maxIdle)
	}
	switch {
	case t.draining:
		return idle
	case p.waiting > 0 && p.fresh:
		if at, give = p.grownAt+p.grace(), min(idle, p.waiting); at <= t.now {
			p.unused = min(p.unused+1, maxUnused)
		}
	case p.waiting > 0:
		at, give = t.now, min(idle, p.waiting)
	case at > t.now:
	case n.hasOffer():
		at = t.now + idleTime
	case p.fresh:
		p.unused = min(p.unused+1, maxUnused)
	}
	if at <= t.now {
		return give
	}
	t.reviewAt(n, at)
	return 0
}

// grace returns how long permits are kept that came and were not used, because the task that they are for
// waits for another limit, while other nodes wait for them. Two nodes may each have a permit that the
// other one needs, too. If both gave theirs back at the same time, they would exchange them for ever.
// So the time differs from limit to limit, and it is longer each time.
func (p *permits) grace() int64 { return grace << p.unused * p.spread / 4 }

// reviewAt schedules a review of n for the given time, unless an earlier one is scheduled.
func (t *Table) reviewAt(n *node, at int64) {
	p := n.permits
	if p.reviewAt != 0 {
		if p.reviewAt <= at {
			return
		}
		t.reviews.Delete(alarm{p.reviewAt, n})
	}
	p.reviewAt = at
	t.reviews.ReplaceOrInsert(alarm{at, n})
}

// review looks at the due permits and tokens.
func (t *Table) review(now int64) {
	for {
		a, ok := t.reviews.Min()
		if !ok || a.at > now {
			return
		}
		t.reviews.DeleteMin()
		p := a.node.permits
		p.reviewAt = 0
		if p.left > 0 && p.until <= now {
			p.left, p.chunk = 0, 1
			t.reposition(now, a.node)
		} else if p.left > 0 {
			t.reviewAt(a.node, p.until)
		}
		t.reviewAhead(now, a.node)
		t.changePermits(a.node)
	}
}

// Hold passes the permits of this node to the table.
func (t *Table) Hold(now int64, h coord.Holding) {
	t.now = now
	n, ok := t.permits[h.Name]
	if !ok {
		return
	}
	p := n.permits
	if h.Number < p.lowered { // it may have permits that were given back since
		return
	}
	p.share, p.waiting, p.needed, p.holding = h.Share, h.Waiting, h.Needed, false
	if h.Held < p.ordered.Want {
		p.scarceUntil = now + scarceTime
	}
	held := min(h.Held, p.ordered.Want)
	if held > p.held {
		p.fresh, p.grownAt, p.usedAt = true, now, now
	}
	if p.held = held; held >= p.least {
		p.least = 0
		p.setReady(true)
	} else if h.Number >= p.ordered.Number {
		t.leaveAhead(p) // other nodes have them
	}
	t.changePermits(n)
	t.capacityChanged(now, n)
}

// capacityChanged restores the order after the capacity of n, or its tokens, have changed.
func (t *Table) capacityChanged(now int64, n *node) {
	t.reposition(now, n)
	t.markRoomy(now, n)
}

// Drawn answers a Draw of a limit. Each Draw has exactly one answer.
func (t *Table) Drawn(now int64, limit string, d coord.Drawn) {
	t.now = now
	n, ok := t.permits[limit]
	if !ok || !n.permits.drawing {
		return
	}
	k := &n.permits.tokens
	k.drawing = false
	if k.interval == 0 {
		return
	}
	if k.left += d.Tokens; d.Tokens > 0 {
		k.until = now + max(tokenTime, k.interval)
		t.reviewAt(n, k.until)
	} else {
		k.chunk, k.drawAt = 1, now+min(max(1, d.Next.Nanoseconds()), maxDrawWait)
		t.setAlarm(n, k.drawAt)
	}
	t.capacityChanged(now, n)
}

// LosePermits takes all permits of this node away. Booked tasks stay booked.
func (t *Table) LosePermits(now int64) {
	t.now = now
	for _, n := range t.sortedPermits() {
		p := n.permits
		p.held, p.ordered, p.holding, p.lowered = 0, coord.Order{Name: p.name}, false, t.ordered+1
		p.share, p.waiting, p.needed = 0, 0, 0
		t.leaveAhead(p)
		t.changePermits(n)
		t.capacityChanged(now, n)
	}
}

// Drain has the table give back permits as soon as they are not used, and order no more.
func (t *Table) Drain() {
	t.draining = true
	for _, n := range t.sortedPermits() {
		t.changePermits(n)
	}
}

// NeedsPermits reports whether a booked slot is under a limit of the cluster on concurrency.
func (s Slot) NeedsPermits() bool {
	if s.queue == nil {
		return false
	}
	for n := &s.queue.node; n != nil; n = n.parent {
		if n.permits != nil && n.max > 0 {
			return true
		}
	}
	for _, n := range s.queue.across {
		if n.permits != nil && n.max > 0 {
			return true
		}
	}
	return false
}
