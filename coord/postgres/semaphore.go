package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/engine/task"
)

// permit is a request for permits, and then the permits.
type permit struct {
	of     *Coord
	name   string
	n      int
	most   int
	answer chan error    // gets nil when granted, or why it never will be; holds one
	lost   chan struct{} // closed when taken away

	id    task.ID // guarded by Coord.mu: fresh with every session
	sent  bool    // guarded by Coord.mu: the database may know of it
	known bool    // guarded by Coord.mu: the database knows of it
}

// ordersRequest and ordersAnswer are what coord_permits in schema.sql describes.
type ordersRequest struct {
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

type ordersAnswer struct {
	Alive   bool      `json:"alive"`
	Granted []task.ID `json:"granted"`
	Refused []task.ID `json:"refused"`
}

// Acquire implements [coord.Semaphore]. A request that no longer fits because a newer
// one gave a lower limit fails like one that came after it. One that waits when the
// session is lost is made anew, and so comes after those of other nodes.
func (c *Coord) Acquire(ctx context.Context, name string, n, limit int) (coord.Permit, error) {
	if err := fits(name, n, limit); err != nil {
		return nil, err
	}
	if err := checkText("limit", name); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p := &permit{of: c, name: name, n: n, most: limit, answer: make(chan error, 1), lost: make(chan struct{})}
	if err := c.line(p); err != nil {
		return nil, err
	}
	select {
	case err := <-p.answer:
		if err != nil {
			return nil, err
		}
		return p, nil
	case <-ctx.Done():
		p.Release()
		return nil, ctx.Err()
	}
}

func fits(name string, n, limit int) error {
	switch {
	case n < 1:
		return fmt.Errorf("limit %q: %d permits asked for, want 1 or more", name, n)
	case n > limit:
		return fmt.Errorf("limit %q: %d permits asked for, but the limit is %d", name, n, limit)
	}
	return nil
}

// line makes p wait in line.
func (c *Coord) line(p *permit) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.use(); err != nil {
		return err
	}
	c.waiting = append(c.waiting, p)
	c.orders.ring()
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
		return // released, lost or refused
	}
	if p.sent {
		c.drops = append(c.drops, p.id)
		c.orders.ring()
	}
}

// losePermits is called with mu held.
func (c *Coord) losePermits(why error) {
	for _, p := range c.held {
		close(p.lost)
	}
	clear(c.held)
	c.drops = nil
	if c.isClosed() {
		for _, p := range c.waiting {
			p.answer <- why
		}
		c.waiting = nil
	}
	for _, p := range c.waiting {
		p.id, p.sent, p.known = task.ID{}, false, false
	}
}

// keepOrdering brings the database and the requests for permits together until Close.
func (c *Coord) keepOrdering() {
	if !c.begin() {
		return
	}
	retry := backoff{most: c.slowest}
	poll := backoff{most: c.slowest}
	for !c.isClosed() {
		q, ok := c.nextOrders()
		if !ok {
			c.out.worked("asking for permits") // there is nothing that does not
			c.rest(time.Hour, c.orders)
			poll.reset()
			continue
		}
		var a ordersAnswer
		if err := c.call("coord_permits", q, &a); err != nil {
			c.out.failed("asking for permits", err)
			c.rest(retry.next(), nil)
			continue
		}
		c.out.worked("asking for permits")
		retry.reset()
		if c.takeOrders(q, a) {
			poll.reset()
		}
		c.rest(c.nextPoll(&poll), c.orders)
	}
}

// nextPoll returns when to look after those who wait, should nobody ring.
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

// nextOrders says what the database should know, and reports whether there is anything.
func (c *Coord) nextOrders() (ordersRequest, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.session.open || len(c.waiting)+len(c.drops) == 0 {
		return ordersRequest{}, false
	}
	c.session.order++
	q := ordersRequest{Session: c.session.id, Order: c.session.order, Drops: slices.Clone(c.drops)}
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

// takeOrders applies the answer, and reports whether it changed anything.
func (c *Coord) takeOrders(q ordersRequest, a ordersAnswer) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session.id != q.Session {
		return false // lost meanwhile
	}
	if !a.Alive {
		c.beats.ring()
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
			p.answer <- nil
		case refused[p.id]:
			p.answer <- fmt.Errorf("limit %q: %d permits asked for, but the limit is less now", p.name, p.n)
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
