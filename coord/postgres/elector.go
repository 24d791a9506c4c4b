package postgres

import (
	"context"

	"github.com/taskengine/taskengine/coord/internal/lease"
)

// candidate is one call of Lead that waits for a role or has it.
type candidate struct {
	*lease.Lease
	role  string
	leads bool // guarded by Coord.mu
	lost  bool // guarded by Coord.mu: it has led and does so no more
}

// Lead implements [coord.Elector]. Callers in one process get a role in the order of their
// calls; of several processes, the first that asks while it is free. The role is given up when
// fn has returned.
func (c *Coord) Lead(ctx context.Context, role string, fn func(ctx context.Context) error) error {
	if err := checkText("role", role); err != nil {
		return err
	}
	return c.inProcess.Lead(ctx, role, func(ctx context.Context) error { // ctx ends with Close, too
		for ctx.Err() == nil {
			cand := &candidate{role: role}
			held, err := lease.Lead(ctx,
				func(l *lease.Lease) { cand.Lease = l; c.addCandidate(cand) },
				func() bool { return c.removeCandidate(cand) },
				fn)
			if held {
				return err
			}
		}
		return context.Cause(ctx)
	})
}

func (c *Coord) addCandidate(cand *candidate) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.start() == nil {
		c.roles[cand.role] = cand
		c.beatSoon.Set()
	}
}

// removeCandidate ends the candidacy or the leadership of cand and reports whether it led.
func (c *Coord) removeCandidate(cand *candidate) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.roles[cand.role] == cand {
		delete(c.roles, cand.role)
		c.beatSoon.Set()
	}
	return cand.leads
}

// loseRole ends the leadership of cand. It stays a candidate until its function has returned:
// others of this process wait for that. It is called with mu held.
func (c *Coord) loseRole(cand *candidate, why error) {
	cand.leads, cand.lost = false, true
	cand.Lose(why)
}
