package coordtest

import (
	"fmt"
	"sync"

	"pgregory.net/rapid"

	"github.com/taskengine/taskengine/coord"
)

// account counts what holders believe to have of one limit. A holder lowers its entry before it gives
// permits back, and raises it when it learns that it has more. So the sum over the holders that still
// hold is never more than the semaphore has granted, and that never more than the largest Max.
type account struct {
	mu    sync.Mutex
	most  int             // guarded by mu: the highest Max that was ordered
	held  map[*holder]int // guarded by mu
	wrong string          // guarded by mu: the first mistake
}

// lower notes an order before it is made.
func (a *account) lower(h *holder, o coord.Order) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.most = max(a.most, o.Max)
	a.held[h] = min(a.held[h], o.Want)
}

// raise notes that a holder learned its permits.
func (a *account) raise(h *holder, held int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.held[h] = held
	sum := 0
	for o, n := range a.held {
		if n > 0 && o.node.Holds(o.id) {
			sum += n
		}
	}
	if sum > a.most && a.wrong == "" {
		a.wrong = fmt.Sprintf("%d permits are held, and Max was at most %d", sum, a.most)
	}
}

// crowd is a random number of holders of a few limits with new names.
type crowd struct {
	e        *semaphores
	t        *rapid.T
	nodes    []coord.Semaphore
	holders  []*holder
	names    []string
	accounts map[string]*account
	most     int    // Max of the highest version
	version  uint64 // of most
	severs   int    // how often a node may still be severed
}

// permitsRandom lets holders of three nodes order at random, and severs nodes.
func permitsRandom(e *semaphores) {
	nodes := []coord.Semaphore{e.connect(), e.connect(), e.connect()}
	round := 0
	e.random(func(t *rapid.T) {
		round++
		c := &crowd{e: e, t: t, nodes: nodes, accounts: map[string]*account{}, most: 3, version: 1}
		switch { // where time is not simulated, the end of a lease takes seconds
		case e.Bubble:
			c.severs = 30
		case round%16 == 0:
			c.severs = 1
		}
		for i := range rapid.IntRange(1, 3).Draw(t, "limits") {
			name := fmt.Sprintf("limit %d/%d", round, i)
			c.names = append(c.names, name)
			c.accounts[name] = &account{held: map[*holder]int{}}
		}
		for range rapid.IntRange(2, 4).Draw(t, "holders") {
			c.join()
		}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			c.step()
		}
		c.settle()
	})
}

func (c *crowd) join() {
	var h *holder
	h = holdAs(c.e, rapid.SampledFrom(c.nodes).Draw(c.t, "node"), newID(), func(t coord.Holding) { c.accounts[t.Name].raise(h, t.Held) })
	h.orders = func(o coord.Order) { c.accounts[o.Name].lower(h, o) }
	c.holders = append(c.holders, h)
}

func (c *crowd) step() {
	switch n := rapid.IntRange(0, 19).Draw(c.t, "step"); {
	case n == 0 && c.severs > 0:
		c.severs--
		c.sever()
	case n <= 1:
		c.leave()
	case n <= 3:
		c.most, c.version = rapid.IntRange(0, 8).Draw(c.t, "max"), c.version+1
	case n <= 5:
		c.e.settle()
	default:
		c.order()
	}
}

func (c *crowd) order() {
	h := rapid.SampledFrom(c.holders).Draw(c.t, "holder")
	var orders []coord.Order
	for range rapid.IntRange(1, 3).Draw(c.t, "orders") {
		o := coord.Order{Name: rapid.SampledFrom(c.names).Draw(c.t, "limit"), Max: c.most, Version: c.version}
		o.Want = rapid.IntRange(0, 6).Draw(c.t, "want")
		o.Least = rapid.IntRange(0, o.Want).Draw(c.t, "least")
		orders = append(orders, o)
	}
	h.order(orders...)
}

func (c *crowd) leave() {
	i := rapid.IntRange(0, len(c.holders)-1).Draw(c.t, "leaves")
	c.holders[i].leaves()
	c.holders = append(c.holders[:i:i], c.holders[i+1:]...)
	c.join()
}

func (c *crowd) sever() {
	node := rapid.SampledFrom(c.holders).Draw(c.t, "severed").node
	var stay, lost []*holder
	for _, h := range c.holders {
		if h.node == node {
			lost = append(lost, h)
		} else {
			stay = append(stay, h)
		}
	}
	sever(c.e, lost...)
	for _, h := range lost {
		h.loses()
	}
	c.holders = stay
	for range lost {
		c.join()
	}
}

// settle ends the round: the holders agree with the semaphore, nothing was ever wrong,
// and in the end all permits are free.
func (c *crowd) settle() {
	last := c.holders[0]
	for _, name := range c.names {
		c.e.eventually("the holders to know what they have", func() bool { return c.agree(name) })
		c.accounts[name].mu.Lock()
		wrong := c.accounts[name].wrong
		c.accounts[name].mu.Unlock()
		if wrong != "" && !c.e.lapsed.Load() {
			c.t.Fatal(wrong)
		}
	}
	for _, h := range c.holders[1:] {
		h.leaves()
	}
	for _, name := range c.names {
		last.order(coord.Order{Name: name, Want: 5, Least: 5, Max: 5, Version: c.version + 1})
		last.gets(name, 5)
	}
	last.leaves()
}

// agree reports whether the holders of a limit agree with the semaphore.
func (c *crowd) agree(name string) bool {
	list := holders(c.e, c.nodes[0], name)
	known := map[string]int{}
	for _, h := range list {
		known[h.Holder.String()] = h.Held
	}
	for _, h := range c.holders {
		h.mu.Lock()
		o := h.limits[name]
		same := o == nil || o.isNew && o.last.Held == known[h.id.String()]
		h.mu.Unlock()
		if !same && h.node.Holds(h.id) {
			return false
		}
		delete(known, h.id.String())
	}
	return len(known) == 0
}
