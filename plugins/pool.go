package plugins

import (
	"slices"
	"time"
)

// pool decides how many processes there should be and when one is replaced. It is a pure function of the census.
type pool struct {
	least, most int
	atOnce      int           // how many processes for a single task there may be besides those
	idle        time.Duration // how long a process beyond the least may be idle
	perTask     bool          // each process runs one task and ends
}

// census describes the processes and waiting tasks of a host.
type census struct {
	now        time.Time
	waiting    int       // tasks that no process has taken
	alone      int       // tasks that wait for a process of their own
	starting   int       // processes that are being started
	aloneFree  int       // processes for a single task that have not got one yet
	aloneTotal int       // all processes for a single task
	leaving    int       // processes that take no more tasks and have not ended
	members    []member  // processes that take tasks, in the order of their start
	notBefore  time.Time // when the next process may be started
}

// member is one process of a census.
type member struct {
	running, slots int
	idleSince      time.Time // meaningful if running is 0
	outdated       bool      // to be replaced
}

// plan is the next step of the host.
type plan struct {
	start, startAlone int
	drain             []int     // indexes of members to drain
	next              time.Time // when to decide again if nothing changes before; zero is never
}

// decide returns the plan for now.
//
// An outdated process goes on until another is up, so for a while there may be one more process than most.
func (p *pool) decide(c census) plan {
	var out plan
	fresh, slots, outdated := 0, 1, []int(nil)
	work := c.waiting
	for i, m := range c.members {
		slots = max(1, m.slots)
		if m.outdated {
			outdated = append(outdated, i)
			continue
		}
		fresh++
		work += m.running
	}
	want := p.want(work, slots, c.leaving)
	missing := min(want-fresh-c.starting, p.most+1-len(c.members)-c.starting-c.leaving)
	alone := min(c.alone-c.aloneFree, p.atOnce-c.aloneTotal)
	if wait := c.notBefore.After(c.now) && (missing > 0 || alone > 0); wait {
		out.next = c.notBefore
	} else {
		out.start, out.startAlone = max(0, missing), max(0, alone)
	}
	spare := len(c.members) - want
	for _, i := range outdated {
		if spare > 0 {
			out.drain = append(out.drain, i)
			spare--
		}
	}
	p.drainIdle(c, fresh-want, &out)
	return out
}

// want returns how many processes there should be that are not outdated.
func (p *pool) want(work, slots, leaving int) int {
	if p.perTask {
		return min(work+p.least, p.most-leaving)
	}
	return min(max((work+slots-1)/slots, p.least), p.most)
}

// drainIdle plans the end of up to n members that were idle for long enough, or when to check again.
func (p *pool) drainIdle(c census, n int, out *plan) {
	if n <= 0 {
		return
	}
	var idle []int
	for i, m := range c.members {
		if !m.outdated && m.running == 0 {
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
