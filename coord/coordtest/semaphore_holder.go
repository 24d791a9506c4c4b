package coordtest

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/task"
)

type semaphores = env[coord.Semaphore]

// holder is one call of Hold.
type holder struct {
	e      *semaphores
	node   coord.Semaphore
	id     task.ID
	cut    atomic.Bool // the test is about to sever its node
	result chan error  // the result of Hold
	end    context.CancelFunc
	orders func(coord.Order)   // called under mu with every order before it is made; nil: nothing
	heard  func(coord.Holding) // called under mu with every holding that counts; nil: nothing

	mu     sync.Mutex
	number uint64              // guarded by mu: of the latest order
	limits map[string]*ordered // guarded by mu
}

// ordered has the orders of a holder for a limit, and the holdings that it got.
type ordered struct {
	latest coord.Order
	last   coord.Holding // the newest holding that takes the latest order into account, or an earlier one
	isNew  bool          // whether last is of the latest order
	calls  int           // of holdings that are of the latest order
}

// newID returns an id that was never used.
func newID() (id task.ID) {
	_, _ = rand.Read(id[:]) // it never fails
	return id
}

// hold starts a holder and waits until it lives.
func hold(e *semaphores, node coord.Semaphore) *holder {
	e.Helper()
	return holdAs(e, node, newID(), nil)
}

func holdAs(e *semaphores, node coord.Semaphore, id task.ID, heard func(coord.Holding)) *holder {
	e.Helper()
	h := &holder{e: e, node: node, id: id, result: make(chan error, 1), heard: heard, limits: map[string]*ordered{}}
	ctx, end := context.WithCancel(e.Context())
	h.end = end
	lives := make(chan struct{})
	calls := 0 // of fn
	var one alone
	e.start(func(context.Context) {
		defer end()
		err := node.Hold(ctx, id, func(news []coord.Holding) {
			defer one.enter(e.T, "fn of Hold")()
			if calls++; calls == 1 {
				if len(news) > 0 {
					e.Errorf("the first call of fn has the holdings %v", news)
				}
				close(lives)
			}
			h.listen(news)
		})
		if err != nil && !h.cut.Load() {
			e.lapse()
		}
		h.result <- err
	})
	receive(e, "the first call of fn", lives)
	return h
}

// listen is fn of Hold.
func (h *holder) listen(news []coord.Holding) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range news {
		o := h.limits[t.Name]
		switch {
		case o == nil:
			h.e.Errorf("a holder got news of %q, which it has not ordered", t.Name)
			continue
		case t.Number > o.latest.Number:
			h.e.Errorf("a holding is of order %d, and the latest is %d", t.Number, o.latest.Number)
		case t.Number < o.latest.Number:
			continue // it is from before, and there will be another
		}
		if t.Held > max(0, o.latest.Want) || t.Held < 0 || t.Share < 0 || t.Waiting < 0 || t.Needed < 0 || (t.Held == 0) != (t.Fence == 0) {
			h.e.Errorf("after the order %+v the holding is %+v", o.latest, t)
		}
		o.last, o.isNew = t, true
		o.calls++
		if h.heard != nil {
			h.heard(t)
		}
	}
}

// order orders, and gives the orders numbers.
func (h *holder) order(orders ...coord.Order) {
	h.mu.Lock()
	for i := range orders {
		o := &orders[i]
		h.number++
		o.Number = h.number
		if h.orders != nil {
			h.orders(*o)
		}
		if h.limits[o.Name] == nil {
			h.limits[o.Name] = &ordered{}
		}
		h.limits[o.Name].latest = *o
		h.limits[o.Name].isNew = false
		h.limits[o.Name].calls = 0
	}
	h.mu.Unlock()
	h.node.Order(h.id, orders...)
}

// wants orders permits of a limit, and returns the answer.
func (h *holder) wants(name string, want, most int) coord.Holding {
	h.e.Helper()
	return h.asks(coord.Order{Name: name, Want: want, Max: most})
}

// asks makes an order, and returns the answer.
func (h *holder) asks(o coord.Order) coord.Holding {
	h.e.Helper()
	h.order(o)
	return h.await(o.Name, "the answer to an order", func(coord.Holding) bool { return true })
}

// knows returns the holding of the latest order of h for a limit, and how many holdings h got.
func (h *holder) knows(name string) (last coord.Holding, calls int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	o := h.limits[name]
	if o == nil || !o.isNew {
		return coord.Holding{Held: -1}, 0
	}
	return o.last, o.calls
}

// await waits for a holding that takes the latest order into account.
func (h *holder) await(name, what string, ok func(coord.Holding) bool) (last coord.Holding) {
	h.e.Helper()
	h.e.eventually(what, func() bool {
		var calls int
		last, calls = h.knows(name)
		return calls > 0 && ok(last)
	})
	return last
}

// gets waits until h learns that it has a number of permits.
func (h *holder) gets(name string, held int) coord.Holding {
	h.e.Helper()
	return h.await(name, fmt.Sprintf("%d permits of %s", held, name), func(t coord.Holding) bool { return t.Held == held })
}

// has fails unless h has a number of permits, and it stays so.
func (h *holder) has(name string, held int) {
	h.e.Helper()
	h.e.settle()
	if last, _ := h.knows(name); last.Held != held {
		h.e.check()
		h.e.Errorf("a holder has %d permits of %s, want %d", last.Held, name, held)
	}
}

// ends ends the holder and waits until its permits are given back.
func (h *holder) ends() {
	h.e.Helper()
	h.end()
	if err := receive(h.e, "Hold to return", h.result); err != nil {
		h.e.check()
		h.e.Errorf("Hold returned %v after its context had ended", err)
	}
}

// leaves ends the holder. Its node may be severed before that is done.
func (h *holder) leaves() {
	h.cut.Store(true)
	h.end()
}

// loses waits until the holder has lost everything.
func (h *holder) loses() {
	h.e.Helper()
	if err := receive(h.e, "Hold to return", h.result); err == nil {
		h.e.Error("Hold returned nil though the node was severed")
	}
	if h.node.Holds(h.id) {
		h.e.Error("a holder that has lost its permits holds")
	}
}

// sever severs the node of holders.
func sever(e *semaphores, hs ...*holder) {
	for _, h := range hs {
		h.cut.Store(true)
	}
	e.Sever(e.T, hs[0].node)
}

// holders returns a limit's holders, without times.
func holders(e *semaphores, node coord.Semaphore, name string) []coord.Holder {
	e.Helper()
	list, err := node.Holders(e.Context(), name)
	if err != nil {
		e.Fatal(err)
	}
	for i := range list {
		if list[i].Since.IsZero() {
			e.Errorf("nobody knows since when %+v", list[i])
		}
	}
	return slices.Clone(list)
}
