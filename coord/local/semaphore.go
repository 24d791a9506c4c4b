package local

import (
	"context"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/internal/limits"
	"github.com/taskengine/taskengine/task"
)

// ordered is a limit of which a holder has ordered permits. All of it is guarded by cluster.mu.
type ordered struct {
	of                        *holder
	name                      string
	number                    uint64 // of the latest order
	knowsWaiting, knowsNeeded bool   // whether the last report to the holder said that others wait, and that they need some of its permits above its share
	telling                   bool   // whether it is in of.news
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
		or := h.orders[o.Name]
		if or == nil {
			or = &ordered{of: h, name: o.Name}
		}
		or.number = o.Number
		c.tell(or)
		if limits.IsName(o.Name) {
			c.apply(or, o)
		}
	}
}

// apply replaces the order of or, and serves the waiting holders. It is called with mu held.
func (c *cluster) apply(or *ordered, o coord.Order) {
	s := c.semaphores[or.name]
	if s == nil {
		s = &limits.Semaphore{}
		c.semaphores[or.name] = s
	}
	s.Order(or.of.id, o, time.Now())
	if s.Find(or.of.id) == nil {
		delete(or.of.orders, or.name)
	} else {
		or.of.orders[or.name] = or
	}
	c.serve(or.name, s)
}

// serve grants free permits, reports changes to holders, and forgets a semaphore without holders. It is
// called with mu held.
func (c *cluster) serve(name string, s *limits.Semaphore) {
	for _, id := range s.Serve(time.Now(), &c.fence) {
		c.tell(c.holders[id].orders[name])
	}
	for i := range s.Standings {
		st := &s.Standings[i]
		if st.Held == 0 {
			continue
		}
		or := c.holders[st.Holder].orders[name]
		share, waiting, needed := s.Others(st)
		if waiting > 0 && !or.knowsWaiting || needed > 0 && st.Held > share && !or.knowsNeeded {
			c.tell(or)
		}
	}
	if len(s.Standings) == 0 {
		delete(c.semaphores, name)
	}
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
	return s.Holders(), nil
}
