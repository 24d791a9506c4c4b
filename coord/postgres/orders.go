package postgres

import (
	"slices"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/internal/retry"
	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/task"
)

// maxOrders is how many orders are in one request at most.
const maxOrders = 1000

// ordersRequest and ordersAnswer are described at coord_orders in functions.sql.
type ordersRequest struct {
	Session  task.ID      `json:"session"`
	Number   int64        `json:"number"`
	Known    int64        `json:"known"`
	Settings int64        `json:"settings"`
	Channel  *string      `json:"channel"`
	Orders   []orderEntry `json:"orders"`
	Ended    []task.ID    `json:"ended,omitempty"`
	All      bool         `json:"all"`
	After    string       `json:"after"`
	Names    int          `json:"names"`

	sent []*standing // by Orders
}

type orderEntry struct {
	I       int     `json:"i"`
	Holder  task.ID `json:"holder"`
	Name    string  `json:"name"`
	Keep    int     `json:"keep"`
	Wanted  int     `json:"wanted"`
	AtLeast int     `json:"at_least"`
	Most    int     `json:"most"`
	Version int64   `json:"version"`

	number uint64 // of the order
}

type ordersAnswer struct {
	Alive    bool           `json:"alive"`
	Holdings []holdingEntry `json:"holdings"`
	After    *string        `json:"after"`
	Ending   bool           `json:"ending"`
	News     bool           `json:"news"`
}

type holdingEntry struct {
	Holder  task.ID `json:"holder"`
	Name    string  `json:"name"`
	Held    int     `json:"held"`
	Fence   uint64  `json:"fence"`
	Share   int     `json:"share"`
	Waiting int     `json:"waiting"`
	Needed  int     `json:"needed"`
}

// orderLoop sends orders to the database and reports its answers to the holders, until Close.
func (c *Coord) orderLoop() {
	if !c.waitStart() {
		return
	}
	again := retry.Backoff{Most: c.maxPause}
	poll := retry.Backoff{Most: c.maxPause}
	// The transaction of a request locks its limits, for which other nodes wait no longer than that.
	patience := c.lease / lockShare
	batch := retry.NewBatch(maxOrders)
	for !c.isClosed() {
		q, ok := c.nextOrders(batch.Size())
		if !ok {
			c.outage.Worked("ordering permits") // nothing is to be sent, so nothing fails
			c.awaitOrders(&poll)
			continue
		}
		var a ordersAnswer
		start := time.Now()
		err := c.call("coord_orders", q, &a)
		batch.Took(time.Since(start), patience, max(len(q.sent), len(a.Holdings)))
		if err != nil {
			c.outage.Failed("ordering permits", err)
			c.requeue(q)
			c.sleep(again.Next(), wakeup.Signal{})
			continue
		}
		c.outage.Worked("ordering permits")
		again.Reset()
		if c.applyOrders(q, a) {
			poll.Reset()
		}
	}
}

// awaitOrders waits until there may be something to send. Without notifications it asks for news again
// and again while something is waited for. Other news is reported with a heartbeat.
func (c *Coord) awaitOrders(poll *retry.Backoff) {
	if !c.mustPoll() {
		poll.Reset()
		c.sleep(time.Hour, c.ordersSoon)
		return
	}
	c.sleep(poll.Next(), c.ordersSoon)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.news = c.session.open
}

// mustPoll reports whether holders wait for permits and notifications do not arrive.
func (c *Coord) mustPoll() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.listening || !c.session.open {
		return false
	}
	for _, h := range c.holders {
		for _, st := range h.orders {
			if st.now.Held < st.order.Want {
				return true
			}
		}
	}
	return false
}

// nextOrders returns the next request, with up to most orders, and reports whether there is one to make.
func (c *Coord) nextOrders(most int) (ordersRequest, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.session.open || len(c.orders) == 0 && len(c.ended) == 0 && !c.news && !c.unsure {
		return ordersRequest{}, false
	}
	c.session.order++
	q := ordersRequest{Session: c.session.id, Number: c.session.order, Known: c.session.answered, Settings: c.newestSetting(), Orders: []orderEntry{}}
	q.All, q.After, q.Names = c.unsure, c.sureTo, most
	if c.listen != nil {
		q.Channel = &c.own
	}
	c.news, c.unsure, c.sureTo = false, false, ""
	for _, h := range c.ended {
		q.Ended = append(q.Ended, h.id)
	}
	n := 0
	for ; n < len(c.orders) && len(q.sent) < most; n++ {
		st := c.orders[n]
		st.queued = false
		if c.holders[st.of.id] != st.of { // it has ended, or was lost
			continue
		}
		o := st.order
		q.Orders = append(q.Orders, orderEntry{
			I: n, Holder: st.of.id, Name: st.key, Keep: st.keep, Wanted: o.Want, AtLeast: o.Least, Most: o.Max,
			Version: int64(min(o.Version, 1<<62)), number: o.Number,
		})
		q.sent = append(q.sent, st)
		st.keep, st.of.sent = o.Want, true
	}
	c.orders = slices.Delete(c.orders, 0, n)
	return q, true
}

// requeue queues the orders of a request again that failed or has an unknown outcome. The lost
// answer may have had news, too.
func (c *Coord) requeue(q ordersRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session.id != q.Session {
		return // this session was lost
	}
	c.unsure, c.sureTo = true, ""
	later := c.orders
	c.orders = nil
	for i, st := range q.sent {
		st.keep = min(st.keep, q.Orders[i].Keep)
		if !st.queued {
			c.queue(st)
		}
	}
	c.orders = append(c.orders, later...)
}

// applyOrders applies the answer, and reports whether it had any holdings.
func (c *Coord) applyOrders(q ordersRequest, a ordersAnswer) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session.id != q.Session {
		return false // this session was lost
	}
	if !a.Alive {
		c.lose(ErrLeaseOver)
		return false
	}
	c.session.answered = q.Number
	c.news = c.news || a.News
	c.unsure, c.sureTo = a.After != nil, ""
	if a.After != nil {
		c.sureTo = *a.After
	}
	if !a.Ending {
		for _, h := range c.ended[:len(q.Ended)] { // newer ones were appended
			close(h.gone)
		}
		c.ended = slices.Delete(c.ended, 0, len(q.Ended))
	}
	for i, st := range q.sent {
		st.now = coord.Holding{Name: st.order.Name, Number: q.Orders[i].number}
		st.of.tell(st)
	}
	for _, e := range a.Holdings {
		c.applyHolding(e)
	}
	for _, st := range q.sent {
		if st.order.Want == 0 && !st.queued && st.of.orders[st.key] == st {
			delete(st.of.orders, st.key)
		}
	}
	return len(a.Holdings) > 0
}

// applyHolding is called with mu held.
func (c *Coord) applyHolding(e holdingEntry) {
	h := c.holders[e.Holder]
	if h == nil {
		return
	}
	st := h.orders[e.Name]
	if st == nil {
		return
	}
	before := st.now
	st.now.Held, st.now.Fence, st.now.Share, st.now.Waiting, st.now.Needed = e.Held, e.Fence, e.Share, e.Waiting, e.Needed
	st.clamp()
	if st.now != before {
		h.tell(st)
	}
}
