package coordtest

import (
	"sync/atomic"

	"github.com/taskengine/taskengine/coord"
)

func permitsSevered(e *semaphores) {
	node := e.connect()
	a, more, b := hold(e, node), hold(e, node), hold(e, e.connect())
	var early atomic.Bool // permits were granted while their last holder was sure of them
	c := holdAs(e, e.connect(), newID(), func(t coord.Holding) {
		if t.Held > 0 && (node.Holds(a.id) || node.Holds(more.id)) {
			early.Store(true)
		}
	})
	a.wants("limit", 1, 3)
	more.wants("limit", 1, 3)
	b.wants("limit", 1, 3)
	c.asks(coord.Order{Name: "limit", Want: 2, Least: 2, Max: 3})
	c.has("limit", 0)
	sever(e, a, more)
	c.gets("limit", 2)
	if early.Load() && e.Overlap == 0 {
		e.Error("permits were granted while the holder that lost them was sure of them")
	}
	a.loses()
	more.loses()
	b.has("limit", 1)
	c.has("limit", 2)
	if !b.node.Holds(b.id) || !c.node.Holds(c.id) {
		e.check()
		e.Error("holders of other nodes do not hold any more")
	}
}

func permitsLostOrders(e *semaphores) {
	node := e.connect()
	a, b, c := hold(e, node), hold(e, e.connect()), hold(e, e.connect())
	a.wants("limit", 2, 2)
	b.wants("limit", 1, 2)
	sever(e, a)
	b.gets("limit", 1)
	a.loses()
	c.wants("limit", 1, 2)
	c.gets("limit", 1)
	for want := range 3 {
		node.Order(a.id, coord.Order{Name: "limit", Number: 9, Want: want, Max: 9, Version: 9})
	}
	again := hold(e, node)
	if got := again.wants("limit", 1, 2); got.Held != 0 {
		e.Errorf("after orders of a holder that was lost, a third one got %+v of two permits", got)
	}
	b.has("limit", 1)
	c.has("limit", 1)
}

func permitsSeveredWaiter(e *semaphores) {
	node := e.connect()
	a, waiter, b := hold(e, e.connect()), hold(e, node), hold(e, e.connect())
	a.wants("limit", 2, 2)
	waiter.asks(coord.Order{Name: "limit", Want: 2, Least: 2, Max: 2})
	b.wants("limit", 1, 2)
	sever(e, waiter)
	waiter.loses()
	a.wants("limit", 1, 2) // too few for the first one
	b.gets("limit", 1)
}

func permitsAgain(e *semaphores) {
	node := e.connect()
	last := uint64(0)
	for range 3 {
		h := hold(e, node)
		h.wants("limit", 2, 2)
		if got := h.gets("limit", 2); got.Fence <= last {
			e.Errorf("a permit with the fence %d was granted after %d", got.Fence, last)
		} else {
			last = got.Fence
		}
		sever(e, h)
		h.loses()
	}
	hold(e, node).wants("limit", 1, 2)
}

func permitsOneNode(e *semaphores) {
	node := e.connect()
	a, b, c := hold(e, node), hold(e, node), hold(e, node)
	a.wants("limit", 1, 2)
	b.wants("limit", 1, 2)
	c.wants("limit", 1, 2)
	a.ends()
	c.gets("limit", 1)
	b.has("limit", 1)
	if !node.Holds(b.id) || node.Holds(a.id) {
		e.check()
		e.Error("the end of one holder ended another")
	}
}
