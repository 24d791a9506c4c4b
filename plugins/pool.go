package plugins

import (
	"slices"
	"time"
)

// pool says how many processes there shall be, and when one is to be replaced. It
// decides by what it is told and does nothing itself.
type pool struct {
	least, most int
	atOnce      int           // how many processes for a single task there may be beside those
	idle        time.Duration // how long a process beyond the least may have nothing to do
	perTask     bool          // a process takes one task in its life
}

// census is what a pool decides by.
type census struct {
	now       time.Time
	waiting   int       // tasks that no process has taken
	alone     int       // tasks that wait for a process of their own
	starting  int       // processes that start
	awaited   int       // processes for a single task that have not got it yet
	loners    int       // all processes for a single task
	leaving   int       // processes that take no more tasks and have not ended
	members   []member  // processes that take tasks, in the order of their start
	notBefore time.Time // when the next process may be started
}

// member is one process of a census.
type member struct {
	running, slots int
	idleSince      time.Time // meaningful if it runs nothing
	worn           bool      // to be replaced
}

// plan is what a pool wants done.
type plan struct {
	start, startAlone int
	drain             []int     // members that shall take no more tasks
	next              time.Time // when to ask again if nothing happens before; zero is never
}

// decide returns what is to be done now.
//
// A process that is worn goes on until another has taken its place, so there may be one
// more than the most for a while.
func (p *pool) decide(c census) plan {
	var out plan
	fresh, slots, worn := 0, 1, []int(nil)
	work := c.waiting
	for i, m := range c.members {
		slots = max(1, m.slots)
		if m.worn {
			worn = append(worn, i)
			continue
		}
		fresh++
		work += m.running
	}
	want := p.want(work, slots, c.leaving)
	missing := min(want-fresh-c.starting, p.most+1-len(c.members)-c.starting-c.leaving)
	alone := min(c.alone-c.awaited, p.atOnce-c.loners)
	if wait := c.notBefore.After(c.now) && (missing > 0 || alone > 0); wait {
		out.next = c.notBefore
	} else {
		out.start, out.startAlone = max(0, missing), max(0, alone)
	}
	spare := len(c.members) - want
	for _, i := range worn {
		if spare > 0 {
			out.drain = append(out.drain, i)
			spare--
		}
	}
	p.dismiss(c, fresh-want, &out)
	return out
}

// want returns how many processes that are not worn there shall be.
func (p *pool) want(work, slots, leaving int) int {
	if p.perTask {
		return min(work+p.least, p.most-leaving)
	}
	return min(max((work+slots-1)/slots, p.least), p.most)
}

// dismiss has up to n members end that have had nothing to do for long, or says when
// there will be one.
func (p *pool) dismiss(c census, n int, out *plan) {
	if n <= 0 {
		return
	}
	var idle []int
	for i, m := range c.members {
		if !m.worn && m.running == 0 {
			idle = append(idle, i)
		}
	}
	slices.SortStableFunc(idle, func(a, b int) int { return c.members[a].idleSince.Compare(c.members[b].idleSince) })
	for _, i := range idle[:min(n, len(idle))] {
		until := c.members[i].idleSince.Add(p.idle)
		if !until.After(c.now) {
			out.drain = append(out.drain, i)
		} else if out.next.IsZero() || until.Before(out.next) {
			out.next = until
		}
	}
}
