package postgres

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/internal/lease"
	"github.com/taskengine/taskengine/coord/internal/limits"
	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/task"
)

// holder is one call of Hold.
type holder struct {
	id      task.ID
	changed wakeup.Signal // set when live or news has changed
	lost    chan error    // receives why the holder has lost everything; holds one
	gone    chan struct{} // closed when the database has nothing of the holder any more

	live   bool                 // guarded by Coord.mu: it holds by the session
	sent   bool                 // guarded by Coord.mu: the database may have something of it
	orders map[string]*standing // guarded by Coord.mu: by the key of the limit's name
	news   []*standing          // guarded by Coord.mu: limits with a holding to report; each once
}

// standing has the orders and the permits of a holder at a limit. All of it is guarded by Coord.mu.
type standing struct {
	of      *holder
	key     string
	order   coord.Order   // the latest
	keep    int           // the lowest Want since the newest request was made, and in it
	queued  bool          // whether it is in Coord.orders
	now     coord.Holding // the holding to report
	telling bool          // whether it is in of.news
}

// Hold implements [coord.Semaphore]. An id that holds by this connection already is refused. At the
// end Hold waits for at most a third of the lease until the database has taken everything back. If
// that takes longer, it is taken back when the database can be used again, or when the lease is over.
func (c *Coord) Hold(ctx context.Context, id task.ID, fn func([]coord.Holding)) error {
	h := &holder{
		id: id, changed: wakeup.New(), lost: make(chan error, 1), gone: make(chan struct{}), orders: map[string]*standing{},
	}
	if err := c.addHolder(h); err != nil {
		return err
	}
	defer c.removeHolder(h)
	for first := true; ; {
		select {
		case <-ctx.Done():
			return nil
		case why := <-h.lost:
			return why
		case <-h.changed.C():
			news, live := c.takeNews(h)
			if live && first && ctx.Err() == nil {
				first = false
				fn(nil)
			}
			if len(news) > 0 && ctx.Err() == nil {
				fn(news)
			}
		}
	}
}

// Order implements [coord.Semaphore]. Many orders share a request, and orders that come while a request
// is under way are in the next one.
func (c *Coord) Order(id task.ID, orders ...coord.Order) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.holders[id]
	if h == nil {
		return
	}
	for _, o := range orders {
		o.Want, o.Least, o.Max = limits.Clamp(o.Want, o.Least, o.Max, coord.MaxPermits)
		if !limits.IsName(o.Name) {
			c.log.Error("no permits are granted: the name of the limit is not valid UTF-8 without NUL", "limit", fmt.Sprintf("%q", o.Name))
			h.tell(&standing{of: h, order: o, now: coord.Holding{Name: o.Name, Number: o.Number}})
			continue
		}
		st := h.orders[keyOf(o.Name)]
		if st == nil {
			st = &standing{of: h, key: keyOf(o.Name), keep: o.Want}
			h.orders[st.key] = st
		}
		st.order, st.keep = o, min(st.keep, o.Want)
		st.now.Name = o.Name
		st.clamp()
		c.queue(st)
	}
	c.ordersSoon.Set()
}

// clamp limits the reported permits of st to the number that the holder keeps. It is called with Coord.mu held.
func (st *standing) clamp() {
	if st.now.Held = min(st.now.Held, st.keep); st.now.Held == 0 {
		st.now.Fence = 0
	}
}

// queue adds st to the standings with orders to send. It is called with mu held.
func (c *Coord) queue(st *standing) {
	if !st.queued {
		st.queued = true
		c.orders = append(c.orders, st)
	}
}

// tell queues a report of st to its holder. It is called with Coord.mu held.
func (h *holder) tell(st *standing) {
	if !st.telling {
		st.telling = true
		h.news = append(h.news, st)
		h.changed.Set()
	}
}

// Holds implements [coord.Semaphore].
func (c *Coord) Holds(id task.ID) bool {
	now := time.Now()
	_, most := lease.Suspended()
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.holders[id]
	return h != nil && h.live && c.session.holds(now, most)
}

// Holders implements [coord.Semaphore]. The times are by the database's clock.
func (c *Coord) Holders(ctx context.Context, name string) ([]coord.Holder, error) {
	if err := checkText("limit", name); err != nil {
		return nil, err
	}
	if c.isClosed() {
		return nil, coord.ErrClosed
	}
	var list []coord.Holder
	err := c.within(ctx, c.lease/lockShare, func(tx pgx.Tx) (err error) {
		rows, _ := tx.Query(ctx, c.sql(`SELECT holder::text, held, wanted, CASE WHEN held > 0 THEN fence ELSE 0 END, since FROM {schema}.permit
			WHERE name = $1::text ORDER BY held = 0, CASE WHEN held > 0 THEN fence ELSE place END`), keyOf(name))
		list, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (h coord.Holder, err error) {
			var id string
			if err = row.Scan(&id, &h.Held, &h.Want, &h.Fence, &h.Since); err != nil {
				return h, err
			}
			h.Holder, err = task.ParseID(id)
			return h, err
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the holders of limit %q: %w", name, err)
	}
	return list, nil
}

// longName is the length in bytes above which a name is not stored as it is: an index of PostgreSQL takes
// entries of up to 2704 bytes.
const longName = 1000

// keyOf returns the form of a name in the database.
func keyOf(name string) string {
	if len(name) <= longName {
		return name
	}
	return fmt.Sprintf("%s#%x", strings.ToValidUTF8(name[:longName], ""), sha256.Sum256([]byte(name)))
}

func (c *Coord) addHolder(h *holder) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.start(); err != nil {
		return err
	}
	if h.id.IsZero() || c.holders[h.id] != nil {
		return fmt.Errorf("hold permits as %v: the id must be new with every call", h.id)
	}
	c.holders[h.id] = h
	if c.session.open {
		h.live = true
		h.changed.Set()
	}
	return nil
}

// openHolders makes the holders live that waited for a session. It is called with mu held.
func (c *Coord) openHolders() {
	for _, h := range c.holders {
		h.live = true
		h.changed.Set()
	}
	c.ordersSoon.Set()
}

// removeHolder gives back the permits of h, unless it has lost them, and waits until they are back.
func (c *Coord) removeHolder(h *holder) {
	c.mu.Lock()
	if c.holders[h.id] != h {
		c.mu.Unlock()
		return
	}
	delete(c.holders, h.id)
	if !h.sent {
		c.mu.Unlock()
		return
	}
	c.ended = append(c.ended, h)
	c.ordersSoon.Set()
	c.mu.Unlock()
	t := time.NewTimer(c.lease / 3)
	defer t.Stop()
	select {
	case <-h.gone:
	case <-t.C:
	}
}

// usesPermits reports whether a holder has permits. It is called with mu held.
func (c *Coord) usesPermits() bool {
	for _, h := range c.holders {
		for _, st := range h.orders {
			if st.now.Held > 0 {
				return true
			}
		}
	}
	return false
}

// loseHolders ends all holders that the session had; after Close it ends all holders. It is
// called with mu held.
func (c *Coord) loseHolders(why error) {
	for id, h := range c.holders {
		if h.live || c.isClosed() {
			delete(c.holders, id)
			h.lost <- why
		}
	}
	for _, h := range c.ended {
		close(h.gone)
	}
	c.ended, c.news, c.unsure, c.sureTo = nil, false, false, ""
}

// takeNews returns the holdings to report to h, and whether h lives.
func (c *Coord) takeNews(h *holder) (news []coord.Holding, live bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.holders[h.id] != h || !h.live {
		return nil, false
	}
	for _, st := range h.news {
		st.telling = false
		news = append(news, st.now)
	}
	h.news = nil
	return news, true
}
