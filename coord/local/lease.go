package local

import (
	"context"
	"slices"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/internal/lease"
)

// resource names something that nodes take leases of.
type resource struct {
	kind resourceKind
	name string
}

type resourceKind uint8

const (
	role  resourceKind = iota // has one unit: the leadership
	limit                     // has as many units as the newest request says: its permits
)

// units are those of one resource that is requested or held.
type units struct {
	size    int               // guarded by cluster.mu
	used    int               // guarded by cluster.mu: the sum of n over held
	held    map[*request]bool // guarded by cluster.mu
	waiting []*request        // guarded by cluster.mu; in the order of arrival
}

// request is a request for n units of a resource, and once granted the units.
type request struct {
	*lease.Lease
	node *Node
	of   resource
	n    int
}

// request queues q and grants what is free. The resource has size units from now on; waiting
// requests for more than that are refused.
func (c *cluster) request(q *request, size int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if q.node.isClosed() {
		q.Refuse(coord.ErrClosed)
		return
	}
	u := c.resources[q.of]
	if u == nil {
		u = &units{held: map[*request]bool{}}
		c.resources[q.of] = u
	}
	if size < u.size {
		u.waiting = slices.DeleteFunc(u.waiting, func(w *request) bool {
			err := lease.CheckPermits(w.of.name, w.n, size)
			if err != nil {
				w.Refuse(err)
			}
			return err != nil
		})
	}
	u.size = size
	u.waiting = append(u.waiting, q)
	c.grant(q.of, u)
}

// release withdraws a request or returns its units, and reports whether they were held. It
// does nothing for a request that is neither waiting nor held.
func (c *cluster) release(q *request) (held bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	u := c.resources[q.of]
	if u == nil {
		return false
	}
	if held = u.held[q]; held {
		delete(u.held, q)
		u.used -= q.n
	} else if i := slices.Index(u.waiting, q); i >= 0 {
		u.waiting = slices.Delete(u.waiting, i, i+1)
	}
	c.grant(q.of, u)
	return held
}

// grant grants waiting requests in order while they fit, and forgets a resource without
// requests. It is called with mu held.
func (c *cluster) grant(of resource, u *units) {
	for len(u.waiting) > 0 && u.waiting[0].n <= u.size-u.used {
		q := u.waiting[0]
		u.waiting = slices.Delete(u.waiting, 0, 1)
		u.held[q] = true
		u.used += q.n
		q.Grant()
	}
	if len(u.held)+len(u.waiting) == 0 {
		delete(c.resources, of)
	}
}

// loseLeases takes all units of n away, refuses its requests if n is closed, and grants what
// became free. It is called with mu held.
func (c *cluster) loseLeases(n *Node, why error) {
	for of, u := range c.resources {
		for q := range u.held {
			if q.node == n {
				delete(u.held, q)
				u.used -= q.n
				q.Lose(why)
			}
		}
		if n.isClosed() {
			u.waiting = slices.DeleteFunc(u.waiting, func(q *request) bool {
				if q.node == n {
					q.Refuse(why)
				}
				return q.node == n
			})
		}
		c.grant(of, u)
	}
}

// Lead implements [coord.Elector]. The leadership ends, and the next one's begins, when fn has
// returned; or when the node is severed or closed, and then fn's context ends before the next
// leadership begins.
func (n *Node) Lead(ctx context.Context, name string, fn func(ctx context.Context) error) error {
	for ctx.Err() == nil {
		q := &request{node: n, of: resource{role, name}, n: 1}
		held, err := lease.Lead(ctx,
			func(l *lease.Lease) { q.Lease = l; n.cluster.request(q, 1) },
			func() bool { return n.cluster.release(q) },
			fn)
		switch {
		case ctx.Err() != nil:
		case held:
			return err
		case n.isClosed():
			return coord.ErrClosed
		}
	}
	return ctx.Err()
}

// permits are held permits of a limit.
type permits struct {
	*request
	lost chan struct{} // closed when the permits are taken away
}

// Acquire implements [coord.Semaphore]. A waiting request that does not fit into a newer,
// lower limit is refused like one that comes after it.
func (n *Node) Acquire(ctx context.Context, name string, count, most int) (coord.Permit, error) {
	if err := lease.CheckPermits(name, count, most); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	lost := make(chan struct{})
	q := &request{lease.New(func(error) { close(lost) }), n, resource{limit, name}, count}
	n.cluster.request(q, most)
	if err := q.Wait(ctx); err != nil {
		n.cluster.release(q)
		return nil, err
	}
	return permits{q, lost}, nil
}

// Lost implements [coord.Permit].
func (p permits) Lost() <-chan struct{} { return p.lost }

// Release implements [coord.Permit].
func (p permits) Release() { p.node.cluster.release(p.request) }
