package local

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/internal/limits"
	"github.com/taskengine/taskengine/engine/task"
)

// semaphore is a limit of which somebody has or wants permits.
type semaphore struct {
	most      int         // guarded by cluster.mu
	version   uint64      // guarded by cluster.mu: of most
	standings []*standing // guarded by cluster.mu: those that wait are in the order of their places
}

// standing is what a holder has and wants of a limit. All of it is guarded by cluster.mu.
type standing struct {
	of                      *holder
	name                    string
	number                  uint64 // of the latest order
	held, want, least       int
	fence                   uint64
	since                   time.Time
	toldWaiting, toldNeeded bool // whether the holder was told last that others wait, and that they need some of what it has above its share
	telling                 bool // whether it is in of.news
}

// Order implements [coord.Semaphore].
func (n *Node) Order(id task.ID, orders ...coord.Order) {
	c := n.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.holders[id]
	if h == nil || h.node != n {
		return
	}
	for _, o := range orders {
		st := h.orders[o.Name]
		if st == nil {
			st = &standing{of: h, name: o.Name}
		}
		st.number = o.Number
		c.tell(st)
		if limits.IsName(o.Name) {
			c.apply(st, o)
		}
	}
}

// apply replaces the order of st, and serves those who wait. It is called with mu held.
func (c *cluster) apply(st *standing, o coord.Order) {
	want, least, most := limits.Clamp(o.Want, o.Least, o.Max, coord.MaxPermits)
	s := c.semaphores[st.name]
	if s == nil {
		s = &semaphore{}
		c.semaphores[st.name] = s
	}
	if o.Version >= s.version {
		s.most, s.version = most, o.Version
	}
	waited := st.waits()
	st.held, st.want, st.least = min(st.held, want), want, least
	switch {
	case want == 0:
		s.remove(st)
		delete(st.of.orders, st.name)
	case !waited:
		s.remove(st)
		s.standings = append(s.standings, st)
		st.of.orders[st.name] = st
		if st.held == 0 {
			st.since = time.Now()
		}
	}
	c.serve(st.name, s)
}

// waits reports whether the holder has less than it wants.
func (st *standing) waits() bool { return st.held < st.want }

// waits reports whether st can get some of what it wants.
func (s *semaphore) waits(st *standing) bool { return st.waits() && st.least <= s.most }

// remove is called with cluster.mu held.
func (s *semaphore) remove(st *standing) {
	if i := slices.Index(s.standings, st); i >= 0 {
		s.standings = slices.Delete(s.standings, i, i+1)
	}
}

// held returns how many permits are held. It is called with cluster.mu held.
func (s *semaphore) held() (sum int) {
	for _, st := range s.standings {
		sum += st.held
	}
	return sum
}

// serve grants free permits in the order of the places, tells holders of what is new, and forgets a
// semaphore of which nothing is held or wanted. It is called with mu held.
func (c *cluster) serve(name string, s *semaphore) {
	free := s.most - s.held()
	for _, st := range s.standings {
		if !s.waits(st) {
			continue
		}
		n := min(st.want-st.held, free)
		if n <= 0 || st.held+n < st.least {
			break
		}
		free -= n
		c.fence++
		st.held, st.fence, st.since = st.held+n, c.fence, time.Now()
		c.tell(st)
	}
	for _, st := range s.standings {
		if st.held > 0 {
			share, waiting, needed := s.others(st)
			if waiting > 0 && !st.toldWaiting || needed > 0 && st.held > share && !st.toldNeeded {
				c.tell(st)
			}
		}
	}
	if len(s.standings) == 0 {
		delete(c.semaphores, name)
	}
}

// others returns what st is told of the others: see [coord.Holding]. It is called with cluster.mu held.
func (s *semaphore) others(st *standing) (share, waiting, needed int) {
	holders := 0
	for _, o := range s.standings {
		if o.held > 0 || s.waits(o) {
			holders++
		}
	}
	share = s.most / max(holders, 1)
	for _, o := range s.standings {
		if o != st && s.waits(o) {
			waiting += o.want - o.held
			needs := share
			if o.held == 0 {
				needs = max(share, o.least)
			}
			needed += max(0, min(o.want, needs)-o.held)
		}
	}
	return share, waiting, needed + max(0, s.held()-s.most)
}

// Holders implements [coord.Semaphore].
func (n *Node) Holders(_ context.Context, name string) ([]coord.Holder, error) {
	c := n.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	if n.isClosed() {
		return nil, coord.ErrClosed
	}
	s := c.semaphores[name]
	if s == nil {
		return nil, nil
	}
	var have, wait []coord.Holder
	for _, st := range s.standings {
		h := coord.Holder{Holder: st.of.id, Held: st.held, Want: st.want, Fence: st.fence, Since: st.since}
		if st.held > 0 {
			have = append(have, h)
		} else {
			h.Fence = 0
			wait = append(wait, h)
		}
	}
	slices.SortFunc(have, func(a, b coord.Holder) int { return cmp.Compare(a.Fence, b.Fence) })
	return append(have, wait...), nil
}
