package table

import (
	"math"

	"github.com/google/btree"
)

// A type may have tasks of very many values, and each value has a limit of the cluster. Only few of them can start soon.
// So a limit of one value orders its first permit only if its task is among the first of its type, by rank: such limits
// are ahead. The others stand in line. There are always enough ahead for the answers of the coordinator to be there when
// a slot becomes free.
//
// A limit is ahead until its task has a slot, other nodes have all its permits, or aheadTime has passed: then it keeps
// its permits, and the next one in line takes its place. If the tasks of limits ahead count for another limit
// together, only some more of them may be ahead than it has room for: the next ones stand aside. So limits hold up no
// others if their tasks cannot start for other reasons.
type lines struct {
	inLine  *btree.BTreeG[child] // limits with a task that waits for a permit, and no order; nil if there were none
	isAhead *btree.BTreeG[child] // limits that have ordered permits which are not used yet
	isDue   bool                 // it is in Table.behind
	ready   int                  // how many of isAhead have their permits
	wider   int                  // how many more may be ahead, because permits came too late; at most maxWider
}

// line is the place of a limit in the lines of a kind.
type line struct {
	lineOf  *kind // the kind with it in inLine; nil if there is none
	aheadOf *kind // the kind with it in isAhead; nil if there is none
	place   child // where it is in either of them: it is not in both
	aheadAt int64 // since when it is ahead
	isReady bool  // it is ahead, and counted in lines.ready

	through []*node // while it is ahead: the other limits with a bound that its task counts for
	asideOn *node   // the node with it in aside; nil if there is none
}

// passage is the state of a node for the lines of limits with tasks that count for it, too.
type passage struct {
	ahead int     // number of limits ahead with tasks that count for it
	aside []*node // limits that stand aside until fewer are; entries with another node in asideOn are skipped
}

const (
	minAhead   = 64         // how many limits of a kind may be ahead, or twice the tasks that can run at once if that is more
	maxWider   = 4096       // see lines.wider
	minThrough = 4          // how many of them with tasks that count for another limit may be ahead, or the number that it admits soon if that is more
	aheadTime  = int64(2e9) // how long a limit is ahead, in nanoseconds
)

// mayBeAhead returns how many limits of k may be ahead.
func (t *Table) mayBeAhead(k *kind) int {
	if t.ahead > 0 {
		return t.ahead
	}
	most := math.MaxInt32
	if t.root.max > 0 {
		most = t.root.max
	}
	if n := k.policy.Concurrency; n > 0 {
		most = min(most, n)
	}
	if k.pool != nil {
		most = min(most, k.pool.max)
	}
	return max(minAhead, 2*most) + k.wider
}

// enterLine has n, which has ordered no permits, stand in line for the task of an offer.
func (t *Table) enterLine(n *node, offer child) {
	p, q := n.permits, offer.node.leaf()
	place := child{rank: q.head.rank, need: offer.need, node: n}
	if n.fair != nil {
		place.rank.ReadyAt = max(place.rank.ReadyAt, p.usedAt/1000) // behind the values that were not served since
	}
	k := q.kind
	if (p.lineOf == k || p.asideOn != nil) && p.place == place {
		return
	}
	p.leaveLine()
	t.leaveAhead(p)
	if k.inLine == nil {
		k.inLine, k.isAhead = btree.NewWithFreeListG(degree, child.before, t.freeChildren), btree.NewWithFreeListG(degree, child.before, t.freeChildren)
	}
	p.lineOf, p.place = k, place
	k.inLine.ReplaceOrInsert(place)
	t.lineChanged(k)
}

func (p *permits) leaveLine() {
	if p.lineOf != nil {
		p.lineOf.inLine.Delete(p.place)
		p.lineOf = nil
	}
	p.asideOn = nil
}

func (t *Table) leaveAhead(p *permits) {
	if k := p.aheadOf; k != nil {
		k.isAhead.Delete(p.place)
		p.setReady(false)
		p.aheadOf = nil
		t.lineChanged(k)
		for _, m := range p.through {
			m.ahead--
			t.letPass(m)
		}
		p.through = p.through[:0]
	}
}

// setReady records whether a limit that is ahead has its permits.
func (p *permits) setReady(is bool) {
	switch k := p.aheadOf; {
	case k == nil || p.isReady == is:
		return
	case is:
		k.ready++
	default:
		k.ready--
	}
	p.isReady = is
}

// letPass puts the next limit that stands aside because of m back into its line.
func (t *Table) letPass(m *node) {
	for len(m.aside) > 0 {
		n := m.aside[0]
		if m.aside = m.aside[1:]; n.permits.asideOn != m {
			continue
		}
		n.permits.asideOn = nil
		if offer, ok := n.waits(); ok {
			t.enterLine(n, offer)
			return
		}
	}
	m.aside = nil
}

// waits returns the best task that waits for n, in the tree or because n cuts across.
func (n *node) waits() (child, bool) {
	offer, ok := n.best()
	if !ok {
		return n.parked.Min()
	}
	offer.node = n
	return offer, true
}

// mayPass returns how many limits with tasks that count for n may be ahead; 0 is without a bound.
func (n *node) mayPass() (most int) {
	if n.paused {
		return minThrough
	}
	if n.max > 0 {
		most = max(minThrough, 2*n.max)
	}
	if b := &n.begins; b.interval > 0 {
		some := max(minThrough, int((b.slack+2*aheadTime)/b.interval))
		if most == 0 || some < most {
			most = some
		}
	}
	return most
}

// lineChanged has the next TakeOrders look at the line of k.
func (t *Table) lineChanged(k *kind) {
	if !k.isDue {
		k.isDue = true
		t.behind = append(t.behind, k)
	}
}

// reviewAhead ends that n is ahead when its time is over.
func (t *Table) reviewAhead(now int64, n *node) {
	p := n.permits
	if p.aheadOf == nil {
		return
	}
	if at := p.aheadAt + aheadTime; at > now {
		t.reviewAt(n, at)
	} else {
		p.aheadOf.wider /= 2
		t.leaveAhead(p)
	}
}

// useAhead ends that a limit is ahead because its task has a slot. If most of the others still wait for the coordinator,
// more limits have to be ahead: its answers take longer than tasks do.
func (t *Table) useAhead(p *permits) {
	if k := p.aheadOf; k != nil {
		if 2*k.ready < k.isAhead.Len() {
			k.wider = min(k.wider+1, maxWider)
		}
		t.leaveAhead(p)
	}
}

// lookAhead has the first limits in line order their permits, as many as may be ahead. One that comes before
// another that is ahead takes the place of that.
func (t *Table) lookAhead() {
	for len(t.behind) > 0 {
		k := t.behind[len(t.behind)-1]
		t.behind = t.behind[:len(t.behind)-1]
		for {
			first, ok := k.inLine.Min()
			if !ok {
				break
			}
			if k.isAhead.Len() >= t.mayBeAhead(k) {
				last, _ := k.isAhead.Max()
				if !first.before(last) {
					break
				}
				t.leaveAhead(last.node.permits)
			}
			t.orderFirst(k, first.node)
		}
		k.isDue = false
	}
}

// orderFirst has n, which is in the line of k, order permits for the task that waits for them, if one still does and
// may start soon as far as its other limits are concerned.
func (t *Table) orderFirst(k *kind, n *node) {
	p := n.permits
	p.leaveLine()
	offer, ok := n.waits()
	after := n.used + offer.need
	if !ok || n.paused || after > n.max || after <= p.held {
		return
	}
	q := offer.node.leaf()
	through := p.through[:0]
	for m := range q.limits {
		most := m.mayPass()
		switch {
		case m == n, m.queue != nil, m == t.root, m.isPool, most == 0: // mayBeAhead handles the ones of the kind
		case m.ahead >= most:
			p.asideOn = m
			m.aside = append(m.aside, n)
			return
		default:
			through = append(through, m)
		}
	}
	p.through = through
	for _, m := range through {
		m.ahead++
	}
	p.least = after
	t.changePermits(n)
	p.aheadOf, p.aheadAt = k, t.now
	k.isAhead.ReplaceOrInsert(p.place)
	t.reviewAt(n, t.now+aheadTime)
}

// hasOffer reports whether a task waits for n or for one above it.
func (n *node) hasOffer() bool {
	if _, ok := n.best(); ok {
		return !n.paused
	}
	return n.parked.Len() > 0 && !n.paused
}
