package enginetest

import (
	"context"
	"crypto/rand"
	"sync"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

// Network is the network among the three servers of a coordinator.
type Network interface {
	// Isolate has nothing arrive any more between one of the servers and the two others. Connections stay open.
	Isolate(server int)
	// Heal has everything arrive again.
	Heal()
}

// RunPartition tests three nodes, each of which uses another server of their coordinator, while these servers are cut off
// from each other, one after the other. Nodes reach their servers all the time.
func RunPartition(t *testing.T, c Cluster, net Network) {
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	all := &cluster{T: t, ctx: ctx, setup: shortLease, connect: c.New(t, shortLease)}
	all.ledger = newLedger(all.report)
	defer all.end()
	defer cancel()
	all.watching.Go(func() { all.watch(ctx) })
	all.partition(net)
	all.finish()
}

// The times of a round, in which one server is isolated.
const (
	isolated = 8 * time.Second // more than two leases, so that free permits and roles are granted to others
	healed   = 3 * time.Second
)

// partition checks that limits hold, that one node leads, that tasks run once at a time, tasks of at_most_once at most
// once, and that none is lost.
func (c *cluster) partition(net Network) {
	const most = 3
	set := shared(policy.Limit{Name: "few", Max: most})
	once := set.Types["mail"]
	once.Delivery = policy.AtMostOnce
	set.Types["mail"] = once
	g := c.gauge(map[string]int{"limit": most, "leader": 1})
	takes := func(d time.Duration, names ...string) handle {
		return func(ctx context.Context, _ *task.Task) ([]byte, error) {
			defer g.enter(1, names...)()
			if !wakeup(ctx, d) {
				return nil, context.Cause(ctx)
			}
			return nil, nil
		}
	}
	nodes := c.joinAll(3, set, map[string]handle{"pay": takes(100*time.Millisecond, "limit"), "mail": takes(50 * time.Millisecond)})
	ctx, stop := context.WithCancel(c.ctx)
	var working sync.WaitGroup
	defer working.Wait()
	defer stop()
	terms := make(chan struct{}, 1000)
	for _, p := range nodes {
		working.Go(func() { c.lead(ctx, p, g, terms) })
	}
	var pays, mails []task.ID
	for server := range 3 {
		net.Isolate(server)
		c.submitFor(isolated, nodes, &pays, &mails)
		net.Heal()
		c.submitFor(healed, nodes, &pays, &mails)
	}
	stop()
	nodes[0].wait(pays...)
	nodes[0].wait(mails...)
	for _, id := range pays {
		nodes[0].expect(id, task.Done)
	}
	for _, id := range mails {
		if state := nodes[0].get(id).State; c.ledger.runs(id) > 1 || state != task.Done && state != task.Error {
			c.report("task %v of at_most_once was run %d times, and is %v", id, c.ledger.runs(id), state)
		}
	}
	c.Logf("%d and %d tasks, %d terms of leaders, at most %v at once", len(pays), len(mails), len(terms), g.peaks())
}

// lead has a node be a candidate until ctx ends.
func (c *cluster) lead(ctx context.Context, p *peer, g *gauge, terms chan<- struct{}) {
	for ctx.Err() == nil {
		_ = p.Elector.Lead(ctx, "witness", func(term context.Context) error {
			defer g.enter(1, "leader")()
			terms <- struct{}{}
			wakeup(term, time.Second) // and another one leads
			return nil
		})
	}
}

// submitFor submits tasks of both types at all nodes for a time.
func (c *cluster) submitFor(d time.Duration, nodes []*peer, pays, mails *[]task.ID) {
	c.Helper()
	for end := time.Now().Add(d); time.Now().Before(end) && wakeup(c.ctx, 100*time.Millisecond); {
		for _, p := range nodes {
			*pays = append(*pays, p.submit(engine.Request{Type: "pay", OrderingKey: rand.Text(), Payload: partner("acme")})...)
			*mails = append(*mails, p.submit(engine.Request{Type: "mail", OrderingKey: rand.Text()})...)
		}
	}
}
