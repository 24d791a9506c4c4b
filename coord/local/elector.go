package local

import (
	"context"
	"slices"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/internal/lease"
)

// role has the requests for one role.
type role struct {
	held    *request   // guarded by cluster.mu; nil: there is no leader
	waiting []*request // guarded by cluster.mu; in the order of arrival
}

// request is a request for a role, and once granted the leadership.
type request struct {
	*lease.Lease
	node *Node
	of   string // the name of the role
}

// request queues q and grants it the role if that is free.
func (c *cluster) request(q *request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if q.node.isClosed() {
		q.Refuse(coord.ErrClosed)
		return
	}
	r := c.roles[q.of]
	if r == nil {
		r = &role{}
		c.roles[q.of] = r
	}
	r.waiting = append(r.waiting, q)
	c.grant(q.of, r)
}

// release withdraws a request or ends its leadership, and reports whether it led. It does nothing
// for a request that neither waits nor leads.
func (c *cluster) release(q *request) (held bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.roles[q.of]
	if r == nil {
		return false
	}
	if held = r.held == q; held {
		r.held = nil
	} else if i := slices.Index(r.waiting, q); i >= 0 {
		r.waiting = slices.Delete(r.waiting, i, i+1)
	}
	c.grant(q.of, r)
	return held
}

// grant grants the role to the first request if it is free, and forgets a role without requests. It
// is called with mu held.
func (c *cluster) grant(name string, r *role) {
	if r.held == nil && len(r.waiting) > 0 {
		r.held = r.waiting[0]
		r.waiting = slices.Delete(r.waiting, 0, 1)
		r.held.Grant()
	}
	if r.held == nil {
		delete(c.roles, name)
	}
}

// loseRoles ends all leaderships of n, refuses its requests if n is closed, and grants the free
// roles. It is called with mu held.
func (c *cluster) loseRoles(n *Node, why error) {
	for name, r := range c.roles {
		if r.held != nil && r.held.node == n {
			r.held.Lose(why)
			r.held = nil
		}
		if n.isClosed() {
			r.waiting = slices.DeleteFunc(r.waiting, func(q *request) bool {
				if q.node == n {
					q.Refuse(why)
				}
				return q.node == n
			})
		}
		c.grant(name, r)
	}
}

// Lead implements [coord.Elector]. The leadership ends, and the next one's begins, when fn has
// returned; or when the node is severed or closed, and then fn's context ends before the next
// leadership begins.
func (n *Node) Lead(ctx context.Context, name string, fn func(ctx context.Context) error) error {
	for ctx.Err() == nil {
		q := &request{node: n, of: name}
		held, err := lease.Lead(ctx,
			func(l *lease.Lease) { q.Lease = l; n.cluster.request(q) },
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
