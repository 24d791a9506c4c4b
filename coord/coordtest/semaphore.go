package coordtest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/task"
)

// RunSemaphore runs the suite of [coord.Semaphore].
func RunSemaphore(t *testing.T, b Backend[coord.Semaphore]) {
	b.run(t, "as many permits as the limit has are held at once by different holders", permitsAtOnce)
	b.run(t, "an order that does not fit waits until permits are given back", permitsWait)
	b.run(t, "orders are served in the order in which they came", permitsInOrder)
	b.run(t, "none are granted below Least, and above it as many as there are", permitsLeast)
	b.run(t, "an order that waits for its Least is not passed by smaller ones", permitsNotPassed)
	b.run(t, "permits are given back in parts", permitsInParts)
	b.run(t, "a holder that orders more keeps what it has and its place", permitsMore)
	b.run(t, "a holder that gives permits back and wants them again comes last", permitsLast)
	b.run(t, "every order is answered, also if nothing changes", permitsAnswered)
	b.run(t, "names are independent", permitsNames)
	b.run(t, "a very long name is a name of its own", permitsLongNames)
	b.run(t, "two thousand limits are ordered in one call", permitsMany)
	b.run(t, "a holder whose context ends gives everything back", permitsEnd)
	b.run(t, "an order of an unknown holder does nothing", permitsUnknown)
	b.run(t, "an id that holds cannot hold twice", permitsTwice)
	b.run(t, "what is no name is never granted, and harms no other order", permitsNoName)
	b.run(t, "numbers below zero count as zero, and there is a highest one", permitsNumbers)
	b.run(t, "fences grow with every grant, also when nothing was held meanwhile", permitsFences)
	b.run(t, "holders are listed: those that have permits first", permitsListed)

	b.run(t, "a holder learns that others wait, and how many permits they need", permitsNeeded)
	b.run(t, "others need their Least, though it is more than their share", permitsNeededLeast)
	b.run(t, "a holder that knows that others wait learns that its share is smaller, and needed", permitsNeededLater)
	b.run(t, "a holder that needs nothing gets no news of others", permitsQuiet)
	b.run(t, "a raised Max lets more in", permitsRaised)
	b.run(t, "a lowered Max takes no permit away, and grants none above it", permitsLowered)
	b.run(t, "the Max of the highest version applies", permitsVersions)
	b.run(t, "an order that needs more than Max waits, and others pass it", permitsTooMany)
	b.run(t, "nothing is granted of a limit without permits", permitsClosed)

	b.run(t, "a severed node's permits are lost, and then free again", permitsSevered)
	b.run(t, "a holder that was lost gives nothing back", permitsLostOrders)
	b.run(t, "orders of a severed node are not served", permitsSeveredWaiter)
	b.run(t, "a severed node can hold again", permitsAgain)
	b.run(t, "a holder that ends does not end others of its node", permitsOneNode)
	b.run(t, "there are never more held than Max, though nodes are severed", permitsRandom)
}

func permitsAtOnce(e *semaphores) {
	a, b, c := hold(e, e.connect()), hold(e, e.connect()), hold(e, e.connect())
	for _, h := range []*holder{a, b, c} {
		if got := h.wants("limit", 2, 6); got.Held != 2 {
			e.Errorf("a holder got %+v, want 2 permits", got)
		}
	}
	for _, h := range []*holder{a, b, c} {
		h.has("limit", 2)
		if !h.node.Holds(h.id) {
			e.check()
			e.Error("a holder does not hold")
		}
		h.wants("limit", 0, 6)
	}
	if got := b.wants("limit", 6, 6); got.Held != 6 {
		e.Errorf("a holder got %+v of what was given back", got)
	}
}

func permitsWait(e *semaphores) {
	a, b, c := hold(e, e.connect()), hold(e, e.connect()), hold(e, e.connect())
	a.wants("limit", 2, 2)
	b.wants("limit", 1, 2)
	c.wants("limit", 1, 2)
	b.has("limit", 0)
	c.has("limit", 0)
	a.wants("limit", 0, 2)
	b.gets("limit", 1)
	c.gets("limit", 1)
}

func permitsInOrder(e *semaphores) {
	nodes := []coord.Semaphore{e.connect(), e.connect()}
	first := hold(e, nodes[0])
	last := first.wants("limit", 1, 1)
	var line []*holder
	for i := range 6 {
		h := hold(e, nodes[i%2])
		h.wants("limit", 1, 1)
		line = append(line, h)
	}
	for i, h := range append([]*holder{first}, line[:5]...) {
		h.wants("limit", 0, 1)
		got := line[i].gets("limit", 1)
		if got.Fence <= last.Fence {
			e.Errorf("a permit with the fence %d was granted after %d", got.Fence, last.Fence)
		}
		last = got
		for _, later := range line[i+1:] {
			if got, _ := later.knows("limit"); got.Held != 0 {
				e.Error("an order was served before an older one")
			}
		}
	}
}

func permitsLeast(e *semaphores) {
	a, b := hold(e, e.connect()), hold(e, e.connect())
	a.wants("limit", 3, 5)
	if got := b.asks(coord.Order{Name: "limit", Want: 4, Least: 3, Max: 5}); got.Held != 0 {
		e.Errorf("2 were free, and a holder that wants 3 at least has %d", got.Held)
	}
	b.has("limit", 0)
	a.wants("limit", 2, 5)
	b.gets("limit", 3)
	a.wants("limit", 1, 5)
	b.gets("limit", 4)
	if got := a.asks(coord.Order{Name: "limit", Want: 3, Least: 3, Max: 5}); got.Held != 1 {
		e.Errorf("nothing was free, and a holder of 1 has %d", got.Held)
	}
	b.wants("limit", 3, 5)
	a.has("limit", 1) // 2 would be less than its Least
	b.wants("limit", 2, 5)
	a.gets("limit", 3)
}

func permitsNotPassed(e *semaphores) {
	a, large, small := hold(e, e.connect()), hold(e, e.connect()), hold(e, e.connect())
	a.wants("limit", 3, 5)
	large.asks(coord.Order{Name: "limit", Want: 4, Least: 4, Max: 5})
	small.wants("limit", 1, 5)
	small.has("limit", 0)
	a.wants("limit", 1, 5)
	large.gets("limit", 4)
	small.has("limit", 0)
	a.wants("limit", 0, 5)
	small.gets("limit", 1)
}

func permitsInParts(e *semaphores) {
	a, b := hold(e, e.connect()), hold(e, e.connect())
	fence := a.wants("limit", 5, 5).Fence
	b.wants("limit", 5, 5)
	for left := 4; left >= 0; left-- {
		got := a.wants("limit", left, 5)
		if got.Held != left || left > 0 && got.Fence != fence {
			e.Errorf("a holder that keeps %d of its permits has %+v", left, got)
		}
		b.gets("limit", 5-left)
	}
}

func permitsMore(e *semaphores) {
	a, b, c := hold(e, e.connect()), hold(e, e.connect()), hold(e, e.connect())
	a.wants("limit", 3, 3)
	b.wants("limit", 1, 3)
	c.wants("limit", 1, 3)
	b.wants("limit", 2, 3)
	if got := a.wants("limit", 2, 3); got.Held != 2 {
		e.Errorf("a holder that keeps 2 permits has %+v", got)
	}
	b.gets("limit", 1)
	a.wants("limit", 1, 3)
	b.gets("limit", 2)
	c.has("limit", 0)
	if got := a.wants("limit", 2, 3); got.Held != 1 {
		e.Errorf("a holder of 1 permit that orders one more has %+v", got)
	}
	b.wants("limit", 0, 3)
	c.gets("limit", 1)
	a.gets("limit", 2)
}

func permitsLast(e *semaphores) {
	a, b := hold(e, e.connect()), hold(e, e.connect())
	first := a.wants("limit", 2, 2)
	b.wants("limit", 1, 2)
	less := coord.Order{Name: "limit", Want: 1, Max: 2}
	more := coord.Order{Name: "limit", Want: 2, Max: 2}
	a.order(less, more)
	b.gets("limit", 1)
	a.gets("limit", 1)
	b.wants("limit", 0, 2)
	if got := a.gets("limit", 2); got.Fence <= first.Fence {
		e.Errorf("permits that were granted again have the fence %d, and had %d", got.Fence, first.Fence)
	}
}

func permitsAnswered(e *semaphores) {
	a := hold(e, e.connect())
	first := a.wants("limit", 1, 2)
	for range 3 {
		if got := a.wants("limit", 1, 2); got.Held != 1 || got.Fence != first.Fence {
			e.Errorf("the same order again is answered by %+v, before by %+v", got, first)
		}
	}
	for range 3 {
		if got := a.wants("limit", 0, 2); got.Held != 0 {
			e.Errorf("giving everything back is answered by %+v", got)
		}
	}
}

func permitsNames(e *semaphores) {
	a, b := hold(e, e.connect()), hold(e, e.connect())
	a.wants("one", 1, 1)
	if got := b.wants("another", 3, 3); got.Held != 3 {
		e.Errorf("the answer is %+v", got)
	}
	b.wants("one", 1, 1)
	b.wants("another", 0, 3)
	b.has("one", 0)
	a.wants("one", 0, 1)
	b.gets("one", 1)
}

func permitsLongNames(e *semaphores) {
	a, b := hold(e, e.connect()), hold(e, e.connect())
	long := strings.Repeat("é%0A/", 2000)
	for _, name := range []string{long + "a", long + "b", "", "ä'\"\\\n{}"} {
		if got := a.wants(name, 1, 1); got.Held != 1 || got.Name != name {
			e.Errorf("an order for %.20q is answered by %+v", name, got)
		}
		b.wants(name, 1, 1)
	}
	list := holders(e, b.node, long+"b")
	if len(list) != 2 || list[0].Holder != a.id || list[1].Holder != b.id {
		e.Errorf("the holders are %+v", list)
	}
	a.wants(long+"b", 0, 1)
	b.gets(long+"b", 1)
	b.has(long+"a", 0)
}

func permitsMany(e *semaphores) {
	const many = 2000
	a, b := hold(e, e.connect()), hold(e, e.connect())
	orders := func(want int) (all []coord.Order) {
		for i := range many {
			all = append(all, coord.Order{Name: fmt.Sprint("limit/", i), Want: want, Max: 2})
		}
		return all
	}
	a.order(orders(2)...)
	for i := range many {
		a.gets(fmt.Sprint("limit/", i), 2)
	}
	b.order(orders(1)...)
	for i := range many {
		b.gets(fmt.Sprint("limit/", i), 0)
	}
	a.order(orders(1)...)
	for i := range many {
		b.gets(fmt.Sprint("limit/", i), 1)
		a.gets(fmt.Sprint("limit/", i), 1)
	}
	a.ends()
	b.order(orders(2)...)
	for i := range many {
		b.gets(fmt.Sprint("limit/", i), 2)
	}
}

func permitsEnd(e *semaphores) {
	node := e.connect()
	a, b := hold(e, node), hold(e, e.connect())
	a.order(coord.Order{Name: "one", Want: 1, Max: 1}, coord.Order{Name: "two", Want: 2, Max: 2})
	a.gets("one", 1)
	a.gets("two", 2)
	b.order(coord.Order{Name: "one", Want: 1, Max: 1}, coord.Order{Name: "two", Want: 1, Max: 2})
	b.gets("one", 0)
	waiter := hold(e, node)
	waiter.wants("one", 1, 1)
	waiter.ends()
	a.ends()
	b.gets("one", 1)
	b.gets("two", 1)
	if list := holders(e, node, "one"); len(list) != 1 || list[0].Holder != b.id {
		e.Errorf("the holders are %+v", list)
	}
	if node.Holds(a.id) {
		e.Error("a holder whose context has ended holds")
	}
}

func permitsUnknown(e *semaphores) {
	node := e.connect()
	a, b := hold(e, node), hold(e, e.connect())
	all := coord.Order{Name: "limit", Want: 1, Max: 1}
	node.Order(newID(), all)
	node.Order(b.id, all) // holds by another connection
	if node.Holds(newID()) || node.Holds(b.id) {
		e.Error("an id that does not hold by a connection holds by it")
	}
	if got := a.wants("limit", 1, 1); got.Held != 1 {
		e.Errorf("orders of unknown holders were served: %+v is left", got)
	}
}

func permitsTwice(e *semaphores) {
	node := e.connect()
	a := hold(e, node)
	a.wants("limit", 1, 1)
	for _, id := range []task.ID{a.id, {}} {
		err := node.Hold(e.Context(), id, func([]coord.Holding) { e.Error("fn was called") })
		if err == nil {
			e.Errorf("%v holds twice, or at all", id)
		}
	}
	a.has("limit", 1)
}

func permitsNoName(e *semaphores) {
	a := hold(e, e.connect())
	bad := []string{"a\x00b", "a\xffb"}
	a.order(
		coord.Order{Name: "good", Want: 1, Max: 1}, coord.Order{Name: bad[0], Want: 1, Max: 1},
		coord.Order{Name: bad[1], Want: 1, Max: 1}, coord.Order{Name: "better", Want: 1, Max: 1},
	)
	a.gets("good", 1)
	a.gets("better", 1)
	for _, name := range bad {
		a.gets(name, 0)
		a.has(name, 0)
		if list, err := a.node.Holders(e.Context(), name); len(list) != 0 {
			e.Errorf("%q has the holders %v, %v", name, list, err)
		}
	}
}

func permitsNumbers(e *semaphores) {
	a := hold(e, e.connect())
	const top = int(^uint(0) >> 1)
	for _, c := range []struct {
		order coord.Order
		held  int
	}{
		{coord.Order{Want: 2, Max: 2}, 2},
		{coord.Order{Want: -1, Max: 2}, 0},
		{coord.Order{Want: 2, Max: -5}, 0},
		{coord.Order{Want: 2, Least: -1, Max: 1}, 1},
		{coord.Order{Want: 2, Least: 5, Max: 2}, 2},
		{coord.Order{Want: top, Least: top, Max: top}, coord.MaxPermits},
		{coord.Order{Want: -top - 1, Least: -top - 1, Max: -top - 1}, 0},
	} {
		c.order.Name = "limit"
		if got := a.asks(c.order); got.Held != c.held {
			e.Errorf("the order %+v is answered by %+v", c.order, got)
		}
	}
}

func permitsFences(e *semaphores) {
	a, b := hold(e, e.connect()), hold(e, e.connect())
	last := uint64(0)
	for i := range 10 {
		h := a
		if i%3 == 0 {
			h = b
		}
		if i%4 == 3 { // as many as there are, in two grants
			h.wants("limit", 1, 3)
		}
		got := h.wants("limit", 2, 3)
		if got.Fence <= last {
			e.Errorf("a permit with the fence %d was granted after %d", got.Fence, last)
		}
		last = got.Fence
		h.wants("limit", 0, 3)
	}
}

func permitsListed(e *semaphores) {
	a, b, c, d := hold(e, e.connect()), hold(e, e.connect()), hold(e, e.connect()), hold(e, e.connect())
	first := b.wants("limit", 2, 4)
	second := a.wants("limit", 3, 4)
	d.wants("limit", 1, 4)
	c.wants("limit", 5, 4)
	want := []coord.Holder{
		{Holder: b.id, Held: 2, Want: 2, Fence: first.Fence},
		{Holder: a.id, Held: 2, Want: 3, Fence: second.Fence},
		{Holder: d.id, Want: 1},
		{Holder: c.id, Want: 5},
	}
	got := holders(e, c.node, "limit")
	for i := range got {
		got[i].Since = want[0].Since
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		e.check()
		e.Errorf("the holders are %+v, want %+v", got, want)
	}
	if list := holders(e, a.node, "another"); len(list) != 0 {
		e.Errorf("a limit that nobody uses has the holders %+v", list)
	}
}
