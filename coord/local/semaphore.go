package local

import (
	"context"
	"fmt"
	"slices"

	"github.com/taskengine/taskengine/coord"
)

// limit is a semaphore that somebody holds permits of or waits for.
type limit struct {
	max     int              // guarded by cluster.mu: the newest one given
	used    int              // guarded by cluster.mu: the sum of n over held
	held    map[*permit]bool // guarded by cluster.mu
	waiting []*permit        // guarded by cluster.mu; in the order of coming
}

// permit is a request for permits, and then the permits.
type permit struct {
	node   *Node
	name   string
	n      int
	answer chan error    // gets nil when granted, or why it never will be; holds one
	lost   chan struct{} // closed when taken away
}

// Acquire implements [coord.Semaphore]. A request that no longer fits because a newer
// one gave a lower limit fails like one that came after it.
func (n *Node) Acquire(ctx context.Context, name string, count, most int) (coord.Permit, error) {
	if err := fits(name, count, most); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p := &permit{node: n, name: name, n: count, answer: make(chan error, 1), lost: make(chan struct{})}
	n.cluster.request(p, most)
	select {
	case err := <-p.answer:
		if err != nil {
			return nil, err
		}
		return p, nil
	case <-ctx.Done():
		n.cluster.giveBack(p)
		return nil, ctx.Err()
	case <-n.closed:
		n.cluster.giveBack(p)
		return nil, coord.ErrClosed
	}
}

// Lost implements [coord.Permit].
func (p *permit) Lost() <-chan struct{} { return p.lost }

// Release implements [coord.Permit].
func (p *permit) Release() { p.node.cluster.giveBack(p) }

func fits(name string, count, most int) error {
	switch {
	case count < 1:
		return fmt.Errorf("limit %q: %d permits asked for, want 1 or more", name, count)
	case count > most:
		return fmt.Errorf("limit %q: %d permits asked for, but the limit is %d", name, count, most)
	}
	return nil
}

// request queues p and grants what can be granted.
func (c *cluster) request(p *permit, most int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.node.isClosed() {
		p.answer <- coord.ErrClosed
		return
	}
	l := c.limits[p.name]
	if l == nil {
		l = &limit{held: map[*permit]bool{}}
		c.limits[p.name] = l
	}
	if most < l.max {
		l.waiting = slices.DeleteFunc(l.waiting, func(w *permit) bool {
			err := fits(w.name, w.n, most)
			if err != nil {
				w.answer <- err
			}
			return err != nil
		})
	}
	l.max = most
	l.waiting = append(l.waiting, p)
	c.grant(p.name, l)
}

// giveBack withdraws a request, or returns what was granted; it does nothing for a
// permit that is neither waiting nor held.
func (c *cluster) giveBack(p *permit) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.limits[p.name]
	if l == nil {
		return
	}
	if l.held[p] {
		delete(l.held, p)
		l.used -= p.n
	} else if i := slices.Index(l.waiting, p); i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
	}
	c.grant(p.name, l)
}

// grant serves those who wait, the first one first, and forgets a limit that nobody
// uses. It is called with mu held.
func (c *cluster) grant(name string, l *limit) {
	for len(l.waiting) > 0 && l.waiting[0].n <= l.max-l.used {
		p := l.waiting[0]
		l.waiting = slices.Delete(l.waiting, 0, 1)
		l.held[p] = true
		l.used += p.n
		p.answer <- nil
	}
	if len(l.held)+len(l.waiting) == 0 {
		delete(c.limits, name)
	}
}

// losePermits is called with mu held.
func (c *cluster) losePermits(n *Node) {
	for name, l := range c.limits {
		for p := range l.held {
			if p.node == n {
				delete(l.held, p)
				l.used -= p.n
				close(p.lost)
			}
		}
		if n.isClosed() {
			l.waiting = slices.DeleteFunc(l.waiting, func(p *permit) bool { return p.node == n })
		}
		c.grant(name, l)
	}
}
