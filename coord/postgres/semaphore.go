package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/internal/lease"
	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/internal/wakeup"
)

// permit is a request for n permits, and once granted the permits.
type permit struct {
	*lease.Lease
	of   *Coord
	name string
	n    int
	most int
	lost chan struct{} // closed when the permits are taken away

	id    task.ID // guarded by Coord.mu: fresh with every session
	sent  bool    // guarded by Coord.mu: the database may have it
	known bool    // guarded by Coord.mu: the database has it
}

// permitsRequest and permitsAnswer are what coord_permits in schema.sql describes.
type permitsRequest struct {
	Session task.ID   `json:"session"`
	Order   int64     `json:"order"`
	Asks    []ask     `json:"asks,omitempty"`
	Drops   []task.ID `json:"drops,omitempty"`
	Waiting []task.ID `json:"waiting,omitempty"`
}

type ask struct {
	ID   task.ID `json:"id"`
	Name string  `json:"name"`
	N    int     `json:"n"`
	Most int     `json:"most"`
}

type permitsAnswer struct {
	Alive   bool      `json:"alive"`
	Granted []task.ID `json:"granted"`
	Refused []task.ID `json:"refused"`
}

// Acquire implements [coord.Semaphore]. A waiting request that does not fit into a newer, lower
// limit is refused like one that comes after it. A request that waits when the session is lost
// is made again, and so comes after those of other nodes.
func (c *Coord) Acquire(ctx context.Context, name string, n, limit int) (coord.Permit, error) {
	if err := lease.CheckPermits(name, n, limit); err != nil {
		return nil, err
	}
	if err := checkText("limit", name); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p := &permit{of: c, name: name, n: n, most: limit, lost: make(chan struct{})}
	p.Lease = lease.New(func(error) { close(p.lost) })
	if err := c.enqueue(p); err != nil {
		return nil, err
	}
	if err := p.Wait(ctx); err != nil {
		p.Release()
		return nil, err
	}
	return p, nil
}

// enqueue appends p to the waiting requests.
func (c *Coord) enqueue(p *permit) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.start(); err != nil {
		return err
	}
	c.waiting = append(c.waiting, p)
	c.permitsSoon.Set()
	return nil
}

// Lost implements [coord.Permit].
func (p *permit) Lost() <-chan struct{} { return p.lost }

// Release implements [coord.Permit]. It does not wait for the database.
func (p *permit) Release() {
	c := p.of
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.waiting, p)
	switch {
	case i >= 0:
		c.waiting = slices.Delete(c.waiting, i, i+1)
	case c.held[p.id] == p:
		delete(c.held, p.id)
	default:
		return // it was released, lost or refused
	}
	if p.sent {
		c.drops = append(c.drops, p.id)
		c.permitsSoon.Set()
	}
}

// losePermits is called with mu held.
func (c *Coord) losePermits(why error) {
	for _, p := range c.held {
		p.Lose(why)
	}
	clear(c.held)
	c.drops = nil
	if c.isClosed() {
		for _, p := range c.waiting {
			p.Refuse(why)
		}
		c.waiting = nil
	}
	for _, p := range c.waiting {
		p.id, p.sent, p.known = task.ID{}, false, false
	}
}

// permitLoop tells the database of requests for permits and applies its answers until Close.
func (c *Coord) permitLoop() {
	if !c.waitStart() {
		return
	}
	retry := backoff{most: c.maxPause}
	poll := backoff{most: c.maxPause}
	for !c.isClosed() {
		q, ok := c.nextPermits()
		if !ok {
			c.outage.worked("asking for permits") // nothing waits, so nothing fails
			c.sleep(time.Hour, c.permitsSoon)
			poll.reset()
			continue
		}
		var a permitsAnswer
		if err := c.call("coord_permits", q, &a); err != nil {
			c.outage.failed("asking for permits", err)
			c.sleep(retry.next(), wakeup.Signal{})
			continue
		}
		c.outage.worked("asking for permits")
		retry.reset()
		if c.applyPermits(q, a) {
			poll.reset()
		}
		c.sleep(c.nextPoll(&poll), c.permitsSoon)
	}
}

// nextPoll returns when to ask again for the permits that are waited for if nothing is notified.
func (c *Coord) nextPoll(poll *backoff) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case len(c.waiting) == 0:
		return time.Hour
	case c.listening:
		return c.lease / 3
	}
	return poll.next()
}

// nextPermits returns what must be changed in the database, and reports whether there is anything.
func (c *Coord) nextPermits() (permitsRequest, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.session.open || len(c.waiting)+len(c.drops) == 0 {
		return permitsRequest{}, false
	}
	c.session.order++
	q := permitsRequest{Session: c.session.id, Order: c.session.order, Drops: slices.Clone(c.drops)}
	for _, p := range c.waiting {
		if p.id.IsZero() {
			p.id = newID()
		}
		if !p.known {
			p.sent = true
			q.Asks = append(q.Asks, ask{p.id, p.name, p.n, p.most})
		}
		q.Waiting = append(q.Waiting, p.id)
	}
	return q, true
}

// applyPermits applies the answer, and reports whether it changed anything.
func (c *Coord) applyPermits(q permitsRequest, a permitsAnswer) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session.id != q.Session {
		return false // this session was lost meanwhile
	}
	if !a.Alive {
		c.beatSoon.Set()
		return false
	}
	c.drops = slices.DeleteFunc(c.drops, func(id task.ID) bool { return slices.Contains(q.Drops, id) })
	granted, refused := setOf(a.Granted), setOf(a.Refused)
	asked := setOf(q.Waiting)
	c.waiting = slices.DeleteFunc(c.waiting, func(p *permit) bool {
		p.known = p.known || asked[p.id]
		switch {
		case granted[p.id]:
			c.held[p.id] = p
			p.Grant()
		case refused[p.id]:
			p.Refuse(fmt.Errorf("limit %q: %d permits asked for, but the limit is lower now", p.name, p.n))
		default:
			return false
		}
		return true
	})
	return len(q.Drops)+len(a.Granted)+len(a.Refused) > 0
}

func setOf(ids []task.ID) map[task.ID]bool {
	set := make(map[task.ID]bool, len(ids))
	for _, id := range ids {
		set[id] = true
	}
	return set
}
