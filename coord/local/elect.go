package local

import (
	"context"
	"slices"

	"github.com/taskengine/taskengine/coord"
)

// role is a duty that somebody does or waits for.
type role struct {
	leader  *candidate   // guarded by cluster.mu; never nil
	waiting []*candidate // guarded by cluster.mu; in the order of coming
}

// candidate is one turn of waiting for a role and having it.
type candidate struct {
	node    *Node
	role    string
	elected chan struct{}           // closed when it became the leader
	end     context.CancelCauseFunc // ends the context of its leadership
}

// Lead implements [coord.Elector]. The leadership ends, and the next one's begins, when
// fn has returned; or when the node is severed or closed, and then fn's context ends
// before the next one's begins.
func (n *Node) Lead(ctx context.Context, name string, fn func(ctx context.Context) error) error {
	for ctx.Err() == nil {
		held, err := n.leadOnce(ctx, name, fn)
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

// leadOnce waits for one leadership, calls fn unless the wait was in vain, and reports
// whether it still held the leadership afterwards.
func (n *Node) leadOnce(ctx context.Context, name string, fn func(context.Context) error) (held bool, err error) {
	reign, end := context.WithCancelCause(ctx)
	c := &candidate{node: n, role: name, elected: make(chan struct{}), end: end}
	defer func() {
		end(nil)
		held = n.cluster.stepDown(c)
	}()
	n.cluster.stand(c)
	select {
	case <-c.elected:
		if reign.Err() == nil {
			err = fn(reign)
		}
	case <-ctx.Done():
	case <-n.closed:
	}
	return false, err
}

// stand makes cand a candidate, unless its node is closed.
func (c *cluster) stand(cand *candidate) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cand.node.isClosed() {
		return
	}
	if r := c.roles[cand.role]; r != nil {
		r.waiting = append(r.waiting, cand)
		return
	}
	c.roles[cand.role] = &role{leader: cand}
	close(cand.elected)
}

// stepDown ends the candidacy or the leadership of cand and reports whether it led.
func (c *cluster) stepDown(cand *candidate) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.roles[cand.role]
	if r == nil {
		return false
	}
	if r.leader == cand {
		c.succeed(cand.role, r)
		return true
	}
	if i := slices.Index(r.waiting, cand); i >= 0 {
		r.waiting = slices.Delete(r.waiting, i, i+1)
	}
	return false
}

// succeed makes the next one who waits the leader and reports whether there was one. It
// is called with mu held.
func (c *cluster) succeed(name string, r *role) bool {
	if len(r.waiting) == 0 {
		delete(c.roles, name)
		return false
	}
	r.leader = r.waiting[0]
	r.waiting = slices.Delete(r.waiting, 0, 1)
	close(r.leader.elected)
	return true
}

// loseRoles is called with mu held.
func (c *cluster) loseRoles(n *Node, why error) {
	for name, r := range c.roles {
		for r.leader.node == n {
			r.leader.end(why)
			if !c.succeed(name, r) {
				break
			}
		}
	}
}
