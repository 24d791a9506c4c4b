package cells

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/internal/limits"
	"github.com/taskengine/taskengine/task"
)

// permitCells is how many cells have the permits of all limits. More cells are changed by fewer nodes at once, and
// fewer are changed by fewer requests. Every node of a cluster must have the same number.
const permitCells = 1024

// permitCell returns the key of the cell that has the permits of a limit.
func permitCell(limit string) string {
	return fmt.Sprintf("%s%03x", permitKey, bucket(limit, permitCells))
}

// bucket returns the index of the cell of a name among a number of cells.
func bucket(name string, of uint32) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name)) // it never fails
	return h.Sum32() % of
}

// hasStandings reports whether a holder has or wants permits, as far as is known. It is called with mu held.
func (n *Node) hasStandings(id task.ID) bool {
	for _, p := range n.permits {
		if p.has(id) {
			return true
		}
	}
	return false
}

// depart makes all permits of a holder be taken back that lives no more. It is called with mu held.
func (n *Node) depart(id task.ID) {
	for key, p := range n.permits {
		if p.has(id) {
			n.gone[id] = true
			n.dirty[key] = true
		}
	}
	n.syncSoon.Set()
}

// learnPermits reports the changes in a cell of permits to the holders. It is called with mu held.
func (n *Node) learnPermits(was, c Cell) {
	now, err := parsePermits(c)
	if err != nil {
		n.options.Log.Error("permits of some limits cannot be granted", "error", err)
		delete(n.permits, c.Key)
		return
	}
	if n.isTaken(c.Key, now) && n.session != nil {
		n.lose(errTaken)
	}
	n.permits[c.Key] = now
	for name, s := range now.Limits {
		for _, st := range s.Standings {
			n.checkStanding(c.Key, name, st)
		}
	}
	for or := range n.orders[c.Key] {
		n.tellIfNew(or)
	}
	if n.full[c.Key] && len(c.Value) < len(was.Value) {
		n.dirty[c.Key] = true
	}
}

// errTaken is the cause if a node loses all that it holds because the store took permits away from a holder that lives.
var errTaken = fmt.Errorf("%w: the coordinator has not all permits any more that it has granted to this node", ErrLeaseOver)

// isTaken reports whether a holder of this node has fewer permits by the next state of a cell, and has not given them back.
// It is called with mu held.
func (n *Node) isTaken(key string, next *permits) bool {
	for or := range n.orders[key] {
		_, before := n.permits[key].standing(or.name, or.of.id)
		if before == nil || !or.of.live {
			continue
		}
		held := min(before.Held, or.keep, or.sent)
		if _, after := next.standing(or.name, or.of.id); held > 0 && (after == nil || after.Held < held) {
			return true
		}
	}
	return false
}

// checkStanding notices a standing of a holder that may be gone, and one of a holder of this node that ordered
// something else since: a request that was in doubt can be applied late. It is called with mu held.
func (n *Node) checkStanding(key, limit string, st limits.Standing) {
	h := n.holders[st.Holder]
	if h == nil {
		if !n.cells[holderKey+st.Holder.String()].Exists() && !n.gone[st.Holder] {
			n.suspect[st.Holder] = true
		}
		return
	}
	or := h.orders[limit]
	if or == nil {
		or = &ordered{of: h, key: key, name: limit, order: coord.Order{Name: limit}, sent: maxKeep}
		h.orders[limit] = or
		n.addOrdered(or)
	} else if or.order.Want == st.Want || or.sent < maxKeep {
		return
	}
	or.pending = true
	n.dirty[key] = true
}

// suspectAll looks for standings of holders that may be gone. It is called with mu held.
func (n *Node) suspectAll() {
	for key, p := range n.permits {
		for name, s := range p.Limits {
			for _, st := range s.Standings {
				n.checkStanding(key, name, st)
			}
		}
	}
}

// tellIfNew is called with mu held.
func (n *Node) tellIfNew(or *ordered) {
	now, last := n.holding(or), or.last
	if now.Held != last.Held || now.Fence != last.Fence ||
		now.Held > 0 && (now.Waiting > 0 && last.Waiting == 0 || now.Needed > 0 && now.Held > now.Share && (last.Needed == 0 || last.Held <= last.Share)) {
		or.of.tell(or)
	}
}

// holding returns the holding that the holder of or gets. It is called with mu held.
func (n *Node) holding(or *ordered) coord.Holding {
	now := coord.Holding{Name: or.order.Name, Number: or.number}
	s, st := n.permits[or.key].standing(or.name, or.of.id)
	if st == nil || or.order.Want == 0 {
		return now
	}
	now.Share, now.Waiting, now.Needed = s.Others(st)
	if now.Held = min(st.Held, or.keep, or.sent); now.Held > 0 {
		now.Fence = st.Fence
	}
	return now
}

// planPermits adds the changes of the cells that do not take all orders into account yet, or that have standings of holders
// that are gone. It is called with mu held.
func (n *Node) planPermits(p *plan) {
	for _, key := range slices.Sorted(maps.Keys(n.dirty)) {
		if p.isFull() {
			n.syncSoon.Set()
			return
		}
		delete(n.dirty, key)
		n.planCell(p, key)
	}
	clear(n.gone) // nothing of them is left, or it is in the plan
}

// planCell is called with mu held.
func (n *Node) planCell(p *plan, key string) {
	c := n.cellOf(key)
	was := n.permits[key]
	switch {
	case was == nil && c.Exists():
		return // its content is not known
	case was == nil:
		was = &permits{}
	}
	var sent []*ordered
	for or := range n.orders[key] {
		if or.pending && or.of.live {
			sent = append(sent, or)
		}
	}
	slices.SortFunc(sent, func(a, b *ordered) int { return cmp.Compare(a.turn, b.turn) })
	next, departed := n.next(was, sent)
	value := next.value()
	if why := n.isTooLarge(key, value); why != nil {
		var ok bool
		if sent, ok = n.refuseSome(was, sent, why); !ok {
			return
		}
		next, departed = n.next(was, sent)
		value = next.value()
	} else {
		delete(n.full, key)
	}
	n.commit(p, c, value, sent, departed)
}

// next returns the next state of a cell of permits with some orders, and the holders that lose all their permits by it. It is
// called with mu held.
func (n *Node) next(was *permits, sent []*ordered) (next *permits, departed []task.ID) {
	next = was.clone()
	touched := map[string]bool{}
	departed = n.takeBack(next, touched)
	for _, or := range sent {
		n.apply(next, or)
		touched[or.name] = true
	}
	now := n.options.Now()
	for _, name := range slices.Sorted(maps.Keys(touched)) {
		s := next.Limits[name]
		s.Serve(now, &next.Fence)
		if len(s.Standings) == 0 {
			delete(next.Limits, name)
		}
	}
	return next, departed
}

// takeBack removes the standings of holders that are gone, and returns these.
func (n *Node) takeBack(next *permits, touched map[string]bool) (departed []task.ID) {
	for id := range n.gone {
		for name, s := range next.Limits {
			if s.Find(id) != nil {
				s.Remove(id)
				touched[name] = true
				departed = append(departed, id)
			}
		}
	}
	return departed
}

// apply applies the latest order of a holder to the next state of a cell. It is called with mu held.
func (n *Node) apply(next *permits, or *ordered) {
	s := next.Limits[or.name]
	if s == nil {
		s = &limits.Semaphore{}
		next.Limits[or.name] = s
	}
	now := n.options.Now()
	if keep := min(or.keep, or.sent); keep < or.order.Want { // permits that were given back in between are granted to others first
		if st := s.Find(or.of.id); st != nil && st.Held > keep {
			less := or.order
			less.Want = keep
			s.Order(or.of.id, less, now)
			s.Serve(now, &next.Fence)
		}
	}
	s.Order(or.of.id, or.order, now)
}

// commit adds the change of a cell to a plan, unless it is none. It is called with mu held.
func (n *Node) commit(p *plan, c Cell, value []byte, sent []*ordered, departed []task.ID) {
	if bytes.Equal(value, c.Value) || !c.Exists() && bytes.Equal(value, new(permits).value()) {
		for _, or := range sent {
			or.sent = maxKeep
			n.answer(or, or.order)
		}
		return
	}
	orders := make([]coord.Order, len(sent))
	for i, or := range sent {
		orders[i] = or.order
		or.sent = min(or.sent, or.keep)
		or.keep, or.pending, or.refused = or.order.Want, false, false
	}
	p.add(Change{Was: c, Value: value}, func(swapped bool, err error) {
		for i, or := range sent {
			if swapped {
				or.sent = maxKeep
				n.answer(or, orders[i])
				continue
			}
			or.pending = true // if the request is in doubt, sent stays
			if err == nil {
				or.keep, or.sent = min(or.keep, or.sent), maxKeep
			}
		}
		if !swapped {
			for _, id := range departed {
				n.gone[id] = true
			}
			n.dirty[c.Key] = true
			n.syncSoon.Set()
		}
	})
}

// answer reports to the holder that the cell takes an order into account. It is called with mu held.
func (n *Node) answer(or *ordered, o coord.Order) {
	or.number = o.Number
	if or.order.Number == o.Number {
		or.pending = false
		or.keep = o.Want
		if o.Want == 0 {
			n.removeOrdered(or)
		}
	}
	or.of.tell(or)
}

// Holders implements [coord.Semaphore].
func (n *Node) Holders(ctx context.Context, name string) ([]coord.Holder, error) {
	if err := checkText("limit", name); err != nil {
		return nil, err
	}
	if n.isClosed() {
		return nil, coord.ErrClosed
	}
	cells, err := n.store.Read(ctx, permitCell(name))
	if err != nil {
		return nil, fmt.Errorf("read the holders of limit %q: %w", name, err)
	}
	p, err := parsePermits(cells[0])
	if err != nil {
		return nil, err
	}
	s := p.Limits[limits.Short(name, longestName)]
	if s == nil {
		return nil, nil
	}
	return s.Holders(), nil
}
