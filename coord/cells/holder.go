package cells

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/internal/lease"
	"github.com/taskengine/taskengine/coord/internal/limits"
	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/task"
)

// holder is one call of Hold. Its cell exists as long as it lives, and after the removal of its cell it never lives
// again: so all nodes may take back its permits.
type holder struct {
	id      task.ID
	changed wakeup.Signal // set when live or news has changed
	lost    chan error    // receives why the holder has lost everything; holds one
	gone    chan struct{} // closed when the store has nothing of the holder any more

	sent   bool                // guarded by Node.mu: its cell may be there
	live   bool                // guarded by Node.mu: its cell is there
	orders map[string]*ordered // guarded by Node.mu: by the name of the limit in its cell
	news   []*ordered          // guarded by Node.mu: limits with a holding to report; each once
}

// ordered is a limit with the orders of a holder. All of it is guarded by Node.mu.
type ordered struct {
	of      *holder
	key     string      // of the cell of the limit
	name    string      // of the limit, as it is in the cell
	order   coord.Order // the latest
	keep    int         // the lowest Want since the request under way was made, and of the latest order
	sent    int         // the lowest Want in the request under way or in doubt; maxKeep if there is none
	number  uint64      // of the latest order that the cell takes into account
	turn    uint64      // the number of the latest order among the orders of the node
	pending bool        // the latest order is not in the cell yet, as far as is known
	telling bool        // whether it is in of.news
	refused bool        // the cell has no room for it

	last coord.Holding // the last report to the holder
}

// maxKeep is more than the permits of any limit.
const maxKeep = coord.MaxPermits + 1

// Hold implements [coord.Semaphore]. An id that holds already is refused. At the end Hold waits for at most a third of
// the lease until everything is given back. If that takes longer, it is given back when the store can be used again, or
// when the lease is over.
func (n *Node) Hold(ctx context.Context, id task.ID, fn func([]coord.Holding)) error {
	h := &holder{
		id: id, changed: wakeup.New(), lost: make(chan error, 1), gone: make(chan struct{}), orders: map[string]*ordered{},
	}
	if err := n.addHolder(h); err != nil {
		return err
	}
	defer n.removeHolder(h)
	for first := true; ; {
		select {
		case <-ctx.Done():
			return nil
		case why := <-h.lost:
			return why
		case <-h.changed.C():
			news, live := n.takeNews(h)
			if live && first && ctx.Err() == nil {
				first = false
				fn(nil)
			}
			if len(news) > 0 && ctx.Err() == nil {
				fn(news)
			}
		}
	}
}

// Holds implements [coord.Semaphore].
func (n *Node) Holds(id task.ID) bool {
	now := time.Now()
	_, most := lease.Suspended()
	n.mu.Lock()
	defer n.mu.Unlock()
	h := n.holders[id]
	return h != nil && h.live && n.session.holds(now, most)
}

// Order implements [coord.Semaphore]. Many orders share a request, and orders that come while a request is under way are
// in the next one.
func (n *Node) Order(id task.ID, orders ...coord.Order) {
	n.mu.Lock()
	defer n.mu.Unlock()
	h := n.holders[id]
	if h == nil {
		return
	}
	for _, o := range orders {
		o.Want, o.Least, o.Max = limits.Clamp(o.Want, o.Least, o.Max, coord.MaxPermits)
		if !limits.IsName(o.Name) {
			n.options.Log.Error("no permits are granted: the name of the limit is not valid UTF-8 without NUL", "limit", fmt.Sprintf("%q", o.Name))
			h.tell(&ordered{of: h, order: o, number: o.Number})
			continue
		}
		name := limits.Short(o.Name, longestName)
		or := h.orders[name]
		if or == nil {
			or = &ordered{of: h, key: permitCell(o.Name), name: name, keep: o.Want, sent: maxKeep}
			h.orders[name] = or
			n.addOrdered(or)
		}
		n.turn++
		or.order, or.keep, or.pending, or.turn = o, min(or.keep, o.Want), true, n.turn
		n.dirty[or.key] = true
	}
	n.syncSoon.Set()
}

// addOrdered is called with mu held.
func (n *Node) addOrdered(or *ordered) {
	if n.orders[or.key] == nil {
		n.orders[or.key] = map[*ordered]bool{}
	}
	n.orders[or.key][or] = true
}

// removeOrdered forgets an order of a holder. It is called with mu held.
func (n *Node) removeOrdered(or *ordered) {
	delete(or.of.orders, or.name)
	delete(n.orders[or.key], or)
	if len(n.orders[or.key]) == 0 {
		delete(n.orders, or.key)
	}
}

// tell queues a report of or to its holder. It is called with Node.mu held.
func (h *holder) tell(or *ordered) {
	if !or.telling {
		or.telling = true
		h.news = append(h.news, or)
		h.changed.Set()
	}
}

func (n *Node) addHolder(h *holder) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.start(); err != nil {
		return err
	}
	if h.id.IsZero() || n.holders[h.id] != nil {
		return errHolds(h.id)
	}
	n.holders[h.id] = h
	n.syncSoon.Set()
	return nil
}

func errHolds(id task.ID) error {
	return fmt.Errorf("hold permits as %v: the id must be new with every call", id)
}

// removeHolder gives back the permits of h, unless it has lost them, and waits until they are back.
func (n *Node) removeHolder(h *holder) {
	n.mu.Lock()
	if n.holders[h.id] != h {
		n.mu.Unlock()
		return
	}
	n.forgetHolder(h)
	if !h.sent {
		n.mu.Unlock()
		return
	}
	n.ended = append(n.ended, h)
	n.depart(h.id)
	n.syncSoon.Set()
	wait := n.lease / 3
	n.mu.Unlock()
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-h.gone:
	case <-t.C:
	}
}

// forgetHolder removes h and its orders from the node. It is called with mu held.
func (n *Node) forgetHolder(h *holder) {
	delete(n.holders, h.id)
	for _, or := range h.orders {
		delete(n.orders[or.key], or)
		if len(n.orders[or.key]) == 0 {
			delete(n.orders, or.key)
		}
	}
}

// usesPermits reports whether a holder has permits. It is called with mu held.
func (n *Node) usesPermits() bool {
	for _, h := range n.holders {
		for _, or := range h.orders {
			if n.holding(or).Held > 0 {
				return true
			}
		}
	}
	return false
}

// loseHolders ends all holders that have a cell; after Close it ends all holders. It is called with mu held.
func (n *Node) loseHolders(why error) {
	for _, h := range n.holders {
		if h.sent || n.isClosed() {
			n.forgetHolder(h)
			h.lost <- why
		}
	}
	for _, h := range n.ended {
		close(h.gone)
	}
	n.ended = nil
}

// takeNews returns the holdings to report to h, and whether h lives.
func (n *Node) takeNews(h *holder) (news []coord.Holding, live bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.holders[h.id] != h || !h.live {
		return nil, false
	}
	for _, or := range h.news {
		or.telling = false
		or.last = n.holding(or)
		news = append(news, or.last)
	}
	h.news = nil
	return news, true
}

// planHolders makes the cells of new holders, and removes the cells of holders that have given everything back. It is
// called with mu held.
func (n *Node) planHolders(p *plan) {
	again := func(bool, error) { n.syncSoon.Set() }
	for id, h := range n.holders {
		if h.live {
			continue
		}
		switch c := n.cellOf(holderKey + id.String()); {
		case c.Exists() && h.sent:
			h.live = true
			h.changed.Set()
			for _, or := range h.orders {
				n.dirty[or.key] = true
			}
		case c.Exists():
			n.forgetHolder(h)
			h.lost <- errHolds(id)
		default:
			h.sent = true
			p.add(Change{Was: c, Value: []byte(p.session.id.String()), Ephemeral: true}, again)
		}
	}
	kept := n.ended[:0]
	for _, h := range n.ended {
		switch c := n.cellOf(holderKey + h.id.String()); {
		case !c.Exists():
			close(h.gone)
			continue
		case !n.hasStandings(h.id):
			p.add(Change{Was: c}, again)
		default:
			n.depart(h.id)
		}
		kept = append(kept, h)
	}
	n.ended = kept
}

// learnHolder is called with mu held.
func (n *Node) learnHolder(part string, now Cell) {
	id, err := task.ParseID(part)
	if err != nil {
		return
	}
	n.learnStray(now, string(now.Value))
	if now.Exists() {
		delete(n.suspect, id)
		return
	}
	if h := n.holders[id]; h != nil && h.live && n.session != nil {
		n.lose(ErrLeaseOver)
	}
	if n.hasStandings(id) {
		n.suspect[id] = true
	}
}

// settleSuspects decides about the holders that have or want permits, and may be gone, after their cells were read. It
// is called with mu held.
func (n *Node) settleSuspects(cells []Cell) {
	for _, c := range cells {
		part, isHolder := strings.CutPrefix(c.Key, holderKey)
		if !isHolder {
			continue
		}
		id, err := task.ParseID(part)
		if err != nil || !n.suspect[id] {
			continue
		}
		delete(n.suspect, id)
		if !c.Exists() {
			n.depart(id)
		}
	}
}
