package postgres

import "context"

// candidate is one turn of waiting for a role and having it.
type candidate struct {
	role    string
	elected chan struct{}           // closed when it leads
	end     context.CancelCauseFunc // ends the context of its leadership
	leads   bool                    // guarded by Coord.mu
	lost    bool                    // guarded by Coord.mu: led, and does no more
}

// Lead implements [coord.Elector]. On one node a role goes to its callers in the order of
// coming; among nodes, to the first one that asks when it is free. It is given up when fn
// has returned.
func (c *Coord) Lead(ctx context.Context, role string, fn func(ctx context.Context) error) error {
	if err := checkText("role", role); err != nil {
		return err
	}
	return c.near.Lead(ctx, role, func(ctx context.Context) error {
		for ctx.Err() == nil {
			held, err := c.leadOnce(ctx, role, fn)
			if held {
				return err
			}
		}
		return context.Cause(ctx)
	})
}

// leadOnce waits for one leadership, calls fn unless the wait was in vain, and reports
// whether it still held the leadership afterwards.
func (c *Coord) leadOnce(ctx context.Context, role string, fn func(context.Context) error) (held bool, err error) {
	reign, end := context.WithCancelCause(ctx)
	cand := &candidate{role: role, elected: make(chan struct{}), end: end}
	defer func() {
		end(nil)
		held = c.stepDown(cand)
	}()
	c.stand(cand)
	select {
	case <-cand.elected:
		if reign.Err() == nil {
			err = fn(reign)
		}
	case <-ctx.Done(): // closed, too
	}
	return false, err
}

func (c *Coord) stand(cand *candidate) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.use() == nil {
		c.roles[cand.role] = cand
		c.beats.ring()
	}
}

// stepDown ends the candidacy or the leadership of cand and reports whether it led.
func (c *Coord) stepDown(cand *candidate) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.roles[cand.role] == cand {
		delete(c.roles, cand.role)
		c.beats.ring()
	}
	return cand.leads
}
