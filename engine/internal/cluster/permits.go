package cluster

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/internal/ratelog"
	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/task"
)

// permits carries the orders and draws of the core to the coordinator of limits of the cluster.
type permits struct {
	ordered wakeup.Signal // there are orders to be sent, or a holder to send them for
	drawn   wakeup.Signal // there are draws to be made

	mu     sync.Mutex
	holder task.ID                // guarded by mu: the id that holds the permits of this node; zero while it holds none
	losses uint32                 // guarded by mu: how often the permits were lost
	orders map[string]coord.Order // guarded by mu: the latest order of each limit that was not sent
	draws  []coord.Draw           // guarded by mu: not made yet
}

func newPermits() permits {
	return permits{ordered: wakeup.New(), drawn: wakeup.New(), orders: make(map[string]coord.Order)}
}

// Order passes orders and draws on to the coordinator. It does not wait, and may be called with the
// engine's lock held. It does not keep the slices.
func (k *Cluster) Order(orders []coord.Order, draws []coord.Draw) {
	p := &k.permits
	p.mu.Lock()
	for _, o := range orders {
		p.orders[o.Name] = o
	}
	p.draws = append(p.draws, draws...)
	p.mu.Unlock()
	if len(orders) > 0 {
		p.ordered.Set()
	}
	if len(draws) > 0 {
		p.drawn.Set()
	}
}

// HoldsPermits reports whether the node holds its permits at this moment, so that no other node can
// have them.
func (k *Cluster) HoldsPermits() bool {
	k.permits.mu.Lock()
	holder := k.permits.holder
	k.permits.mu.Unlock()
	return !holder.IsZero() && k.semaphore.Holds(holder)
}

// holdLoop makes the node a holder of permits. When the node has lost them, tasks under limits of the
// cluster are stopped, and the node becomes another holder.
func (k *Cluster) holdLoop(ctx context.Context) {
	var failures ratelog.Limiter
	for {
		holder := k.nextHolder()
		err := k.semaphore.Hold(ctx, holder, func(all []coord.Holding) { k.hold(holder, all) })
		if ctx.Err() != nil {
			return
		}
		if failures.Allow() {
			k.log.Error("the node has lost its permits; nothing starts under limits of the cluster until it gets others", "error", err)
		}
		k.losePermits()
		if wakeup.Sleep(ctx, rejoinAfter) != nil {
			return
		}
	}
}

// nextHolder returns the id of another holder: that of the incarnation at first, and after each loss one
// that is derived from it.
func (k *Cluster) nextHolder() task.ID {
	k.permits.mu.Lock()
	defer k.permits.mu.Unlock()
	return coord.Derived(k.Incarnation(), k.permits.losses)
}

// MemberOfHolder returns the name of the node that holds permits under an id, or "" if it is not known.
func (k *Cluster) MemberOfHolder(holder task.ID) string {
	for _, m := range slices.Concat(k.view.Load().members, k.PeerMembers()) {
		if m.Uses(holder) {
			return m.Name
		}
	}
	return ""
}

// hold passes the permits of this node to the core.
func (k *Cluster) hold(holder task.ID, all []coord.Holding) {
	p := &k.permits
	p.mu.Lock()
	isNew := p.holder != holder
	p.holder = holder
	p.mu.Unlock()
	if isNew {
		p.ordered.Set()
	}
	if len(all) == 0 {
		return
	}
	k.engine.Decide(func(c *core.Core, now time.Time) { c.Permits(now, all) })
}

// losePermits passes the loss of the permits to the core. The resulting orders are for the next holder,
// and replace all unsent orders.
func (k *Cluster) losePermits() {
	p := &k.permits
	k.engine.Decide(func(c *core.Core, now time.Time) {
		p.mu.Lock()
		p.holder = task.ID{}
		p.losses++
		clear(p.orders)
		p.mu.Unlock()
		c.LosePermits(now)
	})
}

// orderLoop sends the orders of the core.
func (k *Cluster) orderLoop(ctx context.Context) {
	for {
		select {
		case <-k.permits.ordered.C():
		case <-ctx.Done():
			return
		}
		if holder, orders := k.permits.takeOrders(); len(orders) > 0 {
			k.semaphore.Order(holder, orders...)
		}
	}
}

// takeOrders returns the unsent orders and their holder. There are none without a holder.
func (p *permits) takeOrders() (holder task.ID, orders []coord.Order) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.holder.IsZero() {
		return task.ID{}, nil
	}
	orders = slices.AppendSeq(orders, maps.Values(p.orders))
	clear(p.orders)
	return p.holder, orders
}

// drawLoop makes the draws of the core.
func (k *Cluster) drawLoop(ctx context.Context) {
	var failures ratelog.Limiter
	for {
		select {
		case <-k.permits.drawn.C():
		case <-ctx.Done():
			return
		}
		k.permits.mu.Lock()
		draws := k.permits.draws
		k.permits.draws = nil
		k.permits.mu.Unlock()
		if len(draws) == 0 {
			continue
		}
		drawn, err := k.draw(ctx, draws)
		if err != nil && ctx.Err() == nil && failures.Allow() {
			k.log.Warn("the node cannot draw tokens of rates of the cluster; nothing starts under them until it can", "error", err)
		}
		k.engine.Decide(func(c *core.Core, now time.Time) { c.Drawn(now, draws, drawn) })
	}
}

// redrawAfter is how long the core waits before it draws again after the coordinator has failed.
const redrawAfter = time.Second

// draw makes draws, and returns the drawn tokens: none with an error.
func (k *Cluster) draw(ctx context.Context, draws []coord.Draw) ([]coord.Drawn, error) {
	ctx, cancel := context.WithTimeout(ctx, k.Lease())
	defer cancel()
	drawn, err := k.rates.Draw(ctx, draws...)
	if err != nil {
		return slices.Repeat([]coord.Drawn{{Next: redrawAfter}}, len(draws)), err
	}
	return drawn, nil
}
