package enginetest

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

// memberScenarios are about nodes that come and go.
var memberScenarios = []clusterScenario{
	{"a task runs on a node that handles its type, wherever it was submitted", longLease, func(c *cluster) {
		set := types(20, nil, "mail", "pdf")
		c.join(set, nil, nil)
		mails := c.join(set, map[string]handle{"mail": done}, nil)
		pdfs := c.join(set, map[string]handle{"pdf": done}, nil)
		c.meet()
		for typ, p := range map[string]*peer{"mail": mails, "pdf": pdfs} {
			ids := c.spread(c.peers, 12, ofType(typ))
			c.peers[0].ranOnce(ids...)
			for _, id := range ids {
				if on := c.ledger.nodes(id); on[0] != p.name {
					c.Errorf("a task of type %s ran on %s", typ, on[0])
				}
			}
		}
	}},
	{"a node that joins takes its share of what waits, and nothing runs twice", longLease, func(c *cluster) {
		set := types(20, nil, "mail")
		a := c.join(set, map[string]handle{"mail": done}, nil)
		if err := a.Pause(c.ctx, "mail"); err != nil {
			c.Fatal(err)
		}
		ids := a.submit(repeat(100, ofType("mail"))...)
		b := c.join(set, map[string]handle{"mail": done}, nil)
		c.meet()
		if err := b.Unpause(c.ctx, "mail"); err != nil {
			c.Fatal(err)
		}
		b.ranOnce(ids...)
		c.haveAllRun(ids, a, b)
	}},
	{"a node that leaves ends what it runs, others do the rest, and nothing runs twice", longLease, func(c *cluster) {
		gate := make(chan struct{})
		set := types(2, nil, "long", "short")
		a := c.join(set, map[string]handle{"long": until(gate), "short": done}, nil)
		last := a.submit(repeat(2, ofType("long"))...)
		a.eventually("it is full", func() bool { return c.ledger.total() == 2 })
		waiting := a.submit(repeat(30, ofType("short"))...)
		b := c.join(set, map[string]handle{"short": done}, nil)
		c.meet()
		left := make(chan struct{})
		go func() { defer close(left); a.leave() }()
		b.ranOnce(waiting...) // a is full, and drains
		select {
		case <-left:
			c.Error("it left though its tasks run")
		default:
		}
		close(gate)
		receive(b.node, "the node leaves", left)
		b.ranOnce(last...)
	}},
	{"the tasks of a node that is killed run elsewhere, and those of at_most_once wait for a person", shortLease, func(c *cluster) {
		set := types(20, nil, "mail", "pay")
		pay := set.Types["pay"]
		pay.Delivery = policy.AtMostOnce
		set.Types["pay"] = pay
		never := make(chan struct{})
		a := c.join(set, map[string]handle{"mail": until(never), "pay": until(never)}, nil)
		mails, pays := a.submit(repeat(10, ofType("mail"))...), a.submit(repeat(10, ofType("pay"))...)
		a.eventually("all run", func() bool { return c.ledger.total() == 20 })
		b := c.join(set, map[string]handle{"mail": done, "pay": done}, nil)
		a.kill()
		for _, id := range mails {
			if t := b.expect(id, task.Done); c.ledger.runs(id) < 2 {
				c.Errorf("a task was run %d times: %+v", c.ledger.runs(id), t)
			}
		}
		for _, id := range pays {
			if b.expect(id, task.Error); c.ledger.runs(id) != 1 {
				c.Errorf("a task that may run once was run %d times", c.ledger.runs(id))
			}
		}
	}},
	{"signals that tasks on a node that is killed have sent are taken once each", shortLease, signalsOfKilled},
	{"random trees with signals end as their model says, though nodes are killed and one is cut off", shortLease, forestOfKilled},
	{"the duty to recover tasks moves to another node as often as the one that has it is killed", shortLease, func(c *cluster) {
		set, never := types(20, nil, "mail"), make(chan struct{})
		var victim atomic.Pointer[peer]
		for range 3 {
			c.join(set, nil, func(p *peer) {
				p.config.Handlers["mail"] = c.ledger.watch(p.name, func(ctx context.Context, t *task.Task) ([]byte, error) {
					if victim.Load() != p || t.Attempt > 1 {
						return nil, nil
					}
					return until(never)(ctx, t)
				})
			})
		}
		c.meet()
		last := c.peers[2]
		for _, p := range c.peers[:2] { // the first one has the duty first
			victim.Store(p)
			var ids []task.ID
			for len(ids) == 0 || !slices.Equal(c.ledger.nodes(ids[len(ids)-1]), []string{p.name}) {
				ids = append(ids, last.submit(ofType("mail")(len(ids)))...)
				last.eventually("it runs", func() bool { return c.ledger.runs(ids[len(ids)-1]) > 0 })
			}
			p.kill()
			for _, id := range ids {
				last.expect(id, task.Done)
			}
		}
	}},
}

// cutScenarios are about nodes with a network that is cut.
var cutScenarios = []clusterScenario{
	{"a node that is cut off from the coordinator stops its tasks, which run elsewhere, and comes back as another incarnation", shortLease, func(c *cluster) {
		stopped := make(chan struct{}, 10)
		set := types(20, nil, "mail")
		a := c.join(set, map[string]handle{"mail": func(ctx context.Context, t *task.Task) ([]byte, error) {
			if string(t.Payload) == "long" {
				<-ctx.Done()
				stopped <- struct{}{}
			}
			return nil, ctx.Err()
		}}, nil)
		before := a.Incarnation()
		long := a.submit(engine.Request{Type: "mail", Payload: []byte("long")})
		a.eventually("it runs", func() bool { return c.ledger.total() == 1 })
		b := c.join(set, map[string]handle{"mail": done}, nil)
		c.meet()
		a.ToCoordinator.Cut()
		receive(a.node, "its handler is stopped", stopped)
		b.expect(long[0], task.Done)
		for _, id := range a.submit(repeat(20, ofType("mail"))...) { // it can reach the store
			b.expect(id, task.Done)
			if on := c.ledger.nodes(id); on[len(on)-1] != b.name {
				c.Errorf("a task ran on %v, of which one is cut off", on)
			}
		}
		if a.IsMember() {
			c.Error("a node that is cut off is a member")
		}
		a.ToCoordinator.Heal()
		a.eventually("it is a member again", a.IsMember)
		if a.Incarnation() == before {
			c.Error("it came back as what it was before")
		}
		c.meet()
		ids := c.spread(c.peers, 40, ofType("mail"))
		b.wait(ids...)
		c.haveAllRun(ids, a, b)
	}},
	{"what a node ran while it was cut off from the store is saved afterwards, and its tasks run then", longLease, func(c *cluster) {
		gate := make(chan struct{})
		set := types(40, nil, "mail", "long")
		set.Types["long"] = func(p policy.Type) policy.Type { p.Delivery = policy.AtMostOnce; return p }(set.Types["long"])
		a := c.join(set, map[string]handle{"mail": done, "long": until(gate)}, nil)
		long := a.submit(repeat(5, ofType("long"))...)
		a.eventually("all run", func() bool { return c.ledger.total() == 5 })
		b := c.join(set, map[string]handle{"mail": done}, nil)
		c.meet()
		a.ToStore.Cut()
		close(gate) // its handlers end, and it cannot save that
		a.eventually("its handlers have ended", func() bool { return c.ledger.running() == 0 })
		ids := b.submit(repeat(40, ofType("mail"))...)
		b.eventually("those of the other node have run", func() bool { return c.ledger.total() > 10 })
		a.ToStore.Heal()
		b.ranOnce(append(ids, long...)...)
		c.haveAllRun(ids, a, b)
	}},
	{"tasks whose hints are lost are found, and after a cut of the bus everything is looked at again", longLease, func(c *cluster) {
		set := types(20, nil, "mail")
		woken := make(chan struct{}, 1000)
		a := c.join(set, nil, nil)
		b := c.join(set, map[string]handle{"mail": done}, func(p *peer) { p.config.Coordinator.Bus = listening{p.Bus, woken} })
		c.meet()
		b.ToBus.Cut()
		b.ranOnce(a.submit(repeat(10, ofType("mail"))...)...)
		for len(woken) > 0 {
			<-woken
		}
		b.ToBus.Heal()
		receive(b.node, "it learns that it may have missed hints", woken)
		b.ranOnce(a.submit(repeat(10, ofType("mail"))...)...)
	}},
}

// listening is a bus that reports when its subscriber learns that hints may have been lost.
type listening struct {
	coord.Bus
	woken chan struct{}
}

// Subscribe implements [coord.Bus].
func (l listening) Subscribe(ctx context.Context, fn func([]task.Hint)) error {
	return l.Bus.Subscribe(ctx, func(hints []task.Hint) {
		for _, h := range hints {
			if h == coord.WakeAll() {
				l.woken <- struct{}{}
			}
		}
		fn(hints)
	})
}
