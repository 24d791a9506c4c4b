package local

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/task"
)

// holder is a call of Hold.
type holder struct {
	id      task.ID
	node    *Node
	orders  map[string]*ordered // guarded by cluster.mu: by the limit's name
	news    []*ordered          // guarded by cluster.mu: limits with a holding to report
	changed wakeup.Signal       // set when news has something
	lost    chan error          // receives why the holder has lost everything; holds one
}

// Hold implements [coord.Semaphore]. An id that is a holder's already is refused.
func (n *Node) Hold(ctx context.Context, id task.ID, fn func([]coord.Holding)) error {
	h := &holder{id: id, node: n, orders: map[string]*ordered{}, changed: wakeup.New(), lost: make(chan error, 1)}
	if err := n.cluster.addHolder(h); err != nil {
		return err
	}
	defer n.cluster.removeHolder(h)
	if ctx.Err() == nil {
		fn(nil)
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case why := <-h.lost:
			return why
		case <-h.changed.C():
			if news := n.cluster.takeNews(h); len(news) > 0 && ctx.Err() == nil {
				fn(news)
			}
		}
	}
}

// Holds implements [coord.Semaphore].
func (n *Node) Holds(id task.ID) bool {
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	h := n.cluster.holders[id]
	return h != nil && h.node == n
}

func (c *cluster) addHolder(h *holder) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h.node.isClosed() {
		return coord.ErrClosed
	}
	if c.holders[h.id] != nil || h.id.IsZero() {
		return fmt.Errorf("hold permits as %v: the id must be new with every call", h.id)
	}
	c.holders[h.id] = h
	return nil
}

func (c *cluster) removeHolder(h *holder) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.holders[h.id] == h {
		delete(c.holders, h.id)
		c.giveBack(h)
	}
}

// giveBack takes all permits and orders of holders that were removed. It is called with mu held.
func (c *cluster) giveBack(hs ...*holder) {
	names := map[string]bool{}
	for _, h := range hs {
		for name := range h.orders {
			c.semaphores[name].Remove(h.id)
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		c.serve(name, c.semaphores[name])
	}
}

// loseHolders is called with mu held.
func (c *cluster) loseHolders(n *Node, why error) {
	var lost []*holder
	for id, h := range c.holders {
		if h.node == n {
			delete(c.holders, id)
			h.lost <- why
			lost = append(lost, h)
		}
	}
	c.giveBack(lost...)
}

// tell queues a report of or to its holder. It is called with mu held.
func (c *cluster) tell(or *ordered) {
	if !or.telling {
		or.telling = true
		or.of.news = append(or.of.news, or)
		or.of.changed.Set()
	}
}

// takeNews returns the holdings to report to h, or nothing if it has lost its permits.
func (c *cluster) takeNews(h *holder) []coord.Holding {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.holders[h.id] != h {
		return nil
	}
	news := make([]coord.Holding, 0, len(h.news))
	for _, or := range h.news {
		or.telling = false
		news = append(news, c.holding(or))
	}
	h.news = nil
	return news
}

// holding returns the holding that the holder of or gets. It is called with mu held.
func (c *cluster) holding(or *ordered) coord.Holding {
	now := coord.Holding{Name: or.name, Number: or.number}
	if or.of.orders[or.name] != or {
		return now
	}
	s := c.semaphores[or.name]
	st := s.Find(or.of.id)
	now.Share, now.Waiting, now.Needed = s.Others(st)
	or.knowsWaiting, or.knowsNeeded = now.Waiting > 0, now.Needed > 0 && st.Held > now.Share
	if st.Held > 0 {
		now.Held, now.Fence = st.Held, st.Fence
	}
	return now
}
