package cells

import (
	"context"

	"github.com/taskengine/taskengine/coord/internal/lease"
)

// candidate is one call of Lead that waits for a role or has it.
type candidate struct {
	*lease.Lease
	role  string
	leads bool // guarded by Node.mu
	lost  bool // guarded by Node.mu: it has led and does so no more
}

// Lead implements [coord.Elector]. Callers in one process get a role in the order of their calls; of several
// processes that use the same store of tasks, the first that asks while it is free. The role is given up when fn has
// returned.
func (n *Node) Lead(ctx context.Context, role string, fn func(ctx context.Context) error) error {
	if err := checkText("role", role); err != nil {
		return err
	}
	if n.options.Store != "" {
		role = n.options.Store + "/" + role
	}
	return n.inProcess.Lead(ctx, role, func(ctx context.Context) error { // ctx ends with Close, too
		for ctx.Err() == nil {
			cand := &candidate{role: role}
			held, err := lease.Lead(ctx,
				func(l *lease.Lease) { cand.Lease = l; n.addCandidate(cand) },
				func() bool { return n.removeCandidate(cand) },
				fn)
			if held {
				return err
			}
		}
		return context.Cause(ctx)
	})
}

func (n *Node) addCandidate(cand *candidate) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.start() == nil {
		n.roles[cand.role] = cand
		n.syncSoon.Set()
	}
}

// removeCandidate ends the candidacy or the leadership of cand and reports whether it led.
func (n *Node) removeCandidate(cand *candidate) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.roles[cand.role] == cand {
		delete(n.roles, cand.role)
		n.syncSoon.Set()
	}
	return cand.leads
}

// planRoles requests roles, grants the roles that the session has, and gives up roles that no candidate wants. It is called
// with mu held.
func (n *Node) planRoles(p *plan) {
	again := func(bool, error) { n.syncSoon.Set() }
	for role, cand := range n.roles {
		c := n.cellOf(roleKey + escape(role))
		switch {
		case cand.leads || cand.lost:
		case !c.Exists():
			p.add(Change{Was: c, Value: []byte(p.session.id.String()), Ephemeral: true}, again)
		case string(c.Value) == p.session.id.String():
			cand.leads = true
			cand.Grant()
		}
	}
	for role := range p.session.roles {
		if cand := n.roles[role]; cand == nil || cand.lost {
			p.add(Change{Was: n.cellOf(roleKey + escape(role))}, again)
		}
	}
}

// learnRole notes whether the session has a role. If it lost the role, the leadership of the candidate ends. It
// is called with mu held.
func (n *Node) learnRole(role string, now Cell) {
	s := n.session
	if s == nil {
		return
	}
	if string(now.Value) == s.id.String() {
		s.roles[role] = true
		return
	}
	delete(s.roles, role)
	if cand := n.roles[role]; cand != nil && cand.leads {
		n.lose(ErrLeaseOver) // the session is over, or a person has removed the cell
	}
}

// loseRoles is called with mu held.
func (n *Node) loseRoles(why error) {
	for _, cand := range n.roles {
		if cand.leads {
			cand.leads, cand.lost = false, true // it stays a candidate until its function has returned: others of this process wait for that
			cand.Lose(why)
		}
	}
}
