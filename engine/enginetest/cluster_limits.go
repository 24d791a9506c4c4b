package enginetest

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

// shared returns policies of two types: "pay" is under the first of these limits of the cluster, and "mail"
// under none.
func shared(limits ...policy.Limit) policy.Set {
	set := types(50, nil, "pay", "mail")
	for _, l := range limits {
		l.Cluster = true
		set.Limits[l.Name] = l
	}
	pay := set.Types["pay"]
	pay.Limits = []string{limits[0].Name}
	set.Types["pay"] = pay
	return set
}

// held is a handler that counts in a gauge the tasks that run, in all and of their partner, until a gate is
// opened. A task does not count any more when its context has ended.
func (g *gauge) held(gate <-chan struct{}) handle {
	return func(ctx context.Context, t *task.Task) ([]byte, error) {
		defer g.enter(1, "all", partnerOf(t))()
		return until(gate)(ctx, t)
	}
}

func payTo(partners ...string) func(int) engine.Request {
	return func(i int) engine.Request {
		return engine.Request{Type: "pay", OrderingKey: rand.Text(), Payload: partner(partners[i%len(partners)])}
	}
}

// sharedLimitScenarios are about limits of the cluster.
var sharedLimitScenarios = []clusterScenario{
	{"a limit of the cluster holds over all nodes, and all of it is used", longLease, func(c *cluster) {
		const most = 4
		g, gate := c.gauge(map[string]int{"all": most, "acme": most}), make(chan struct{})
		nodes := c.joinAll(3, shared(policy.Limit{Name: "few", Max: most}), map[string]handle{"pay": g.held(gate), "mail": done})
		ids := c.spread(nodes, 60, payTo("acme"))
		nodes[0].eventually("the limit is used up", func() bool { return g.running("all") == most })
		nodes[1].ranOnce(c.spread(nodes, 30, ofType("mail"))...)
		close(gate)
		nodes[2].ranOnce(ids...)
		c.haveAllRun(ids, nodes...)
	}},
	{"limits of three levels hold over all nodes for each value and in all", longLease, func(c *cluster) {
		limits := map[string]int{"all": 6, "acme": 3, "beta": 2, "gamma": 1, "delta": 1, "eps": 1}
		g, gate := c.gauge(limits), make(chan struct{})
		nodes := c.joinAll(3, shared(
			policy.Limit{Name: "partner", Of: "payouts", Max: 1, Per: "payload.partner", Overrides: map[string]int{"acme": 3, "be*": 2}},
			policy.Limit{Name: "payouts", Of: "money", Max: 6},
			policy.Limit{Name: "money", Max: 8},
		), map[string]handle{"pay": g.held(gate)})
		ids := c.spread(nodes, 100, payTo("acme", "beta", "gamma", "delta", "eps"))
		nodes[0].eventually("the limit of all partners is used up", func() bool { return g.running("all") == 6 })
		close(gate)
		nodes[1].ranOnce(ids...)
	}},
	{"a rate of the cluster holds over all nodes", longLease, func(c *cluster) {
		const tasks, burst, perSecond = 60, 5, 40
		nodes := c.joinAll(3, shared(policy.Limit{Name: "slow", Rate: policy.Rate{Count: perSecond, Per: time.Second, Burst: burst}}), map[string]handle{"pay": done})
		begin := time.Now()
		ids := c.spread(nodes, tasks, payTo("acme"))
		nodes[0].ranOnce(ids...)
		if took, least := time.Since(begin), (tasks-burst)*time.Second/perSecond; took < least {
			c.Errorf("%d tasks took %v; the rate allows %v", tasks, took, least)
		}
		c.haveAllRun(ids, nodes...)
	}},
	{"a rate of the cluster holds by the times at which attempts begin, also after a stall of the store", longLease, stalledRateOfCluster},
	{"a limit that is changed on one node is changed on all, up, down and back", longLease, func(c *cluster) {
		g, gate := c.gauge(map[string]int{"all": 6, "acme": 6}), make(chan struct{})
		nodes := c.joinAll(3, shared(policy.Limit{Name: "few", Max: 2}), map[string]handle{"pay": g.held(gate)})
		ids := c.spread(nodes, 30, payTo("acme"))
		runs := func(want int) {
			c.Helper()
			nodes[0].eventually(fmt.Sprint(want, " run"), func() bool { return g.running("all") == want })
		}
		runs(2)
		c.setMax(nodes[1], 6)
		runs(6)
		c.setMax(nodes[2], 1)
		if running := g.running("all"); running != 6 {
			c.Errorf("%d run after the limit was lowered: what runs goes on", running)
		}
		if err := nodes[0].UnsetLimit(c.ctx, "few", "", nil); err != nil {
			c.Fatal(err)
		}
		c.haveMax(2)
		close(gate)
		nodes[0].ranOnce(ids...)
	}},
	{"a value that is paused starts nothing on any node, and the others go on", longLease, func(c *cluster) {
		nodes := c.joinAll(3, shared(policy.Limit{Name: "partner", Max: 3, Per: "payload.partner"}), map[string]handle{"pay": done})
		if _, err := nodes[0].SetLimit(c.ctx, engine.LimitSetting{Limit: "partner", Value: "acme", Paused: true}, nil); err != nil {
			c.Fatal(err)
		}
		for _, p := range nodes {
			p.eventually("the value is paused", func() bool {
				l, err := p.Limit(c.ctx, "partner", "acme")
				return err == nil && l.Paused
			})
		}
		paused, others := c.spread(nodes, 20, payTo("acme")), c.spread(nodes, 40, payTo("beta", "gamma"))
		nodes[1].ranOnce(others...)
		if ran := c.ledger.total(); ran != len(others) {
			c.Errorf("%d tasks of a paused value were run", ran-len(others))
		}
		if err := nodes[2].UnsetLimit(c.ctx, "partner", "acme", nil); err != nil {
			c.Fatal(err)
		}
		nodes[1].ranOnce(paused...)
	}},
	{"a value of a fair limit that comes late is not kept waiting by the backlog of another on any node", longLease, fairOverNodes},
	{"a changed limit stays so though all nodes are restarted", longLease, func(c *cluster) {
		g, gate := c.gauge(map[string]int{"all": 3, "acme": 3}), make(chan struct{})
		set, three := shared(policy.Limit{Name: "few", Max: 1}), 3
		for _, p := range c.joinAll(2, set, nil) {
			if p.name == "node 1" {
				if _, err := p.SetLimit(c.ctx, engine.LimitSetting{Limit: "few", Max: &three, By: "me"}, nil); err != nil {
					c.Fatal(err)
				}
			}
			p.leave()
		}
		c.join(set, map[string]handle{"pay": g.held(gate)}, nil)
		c.join(set, map[string]handle{"pay": g.held(gate)}, nil)
		nodes := c.living()
		c.meet()
		ids := c.spread(nodes, 20, payTo("acme"))
		nodes[0].eventually("the changed limit is used up", func() bool { return g.running("all") == three })
		all, err := nodes[1].LimitSettings(c.ctx)
		if err != nil || len(all) != 1 || all[0].By != "me" || all[0].Node != "node 1" {
			c.Errorf("the settings are %+v, %v", all, err)
		}
		close(gate)
		nodes[0].ranOnce(ids...)
	}},
	{"why of a limit names the nodes that hold it, on every node", longLease, func(c *cluster) {
		g, gate := c.gauge(map[string]int{"all": 3, "acme": 3}), make(chan struct{})
		nodes := c.joinAll(3, shared(policy.Limit{Name: "few", Max: 3}), map[string]handle{"pay": g.held(gate)})
		ids := c.spread(nodes, 30, payTo("acme"))
		for _, p := range nodes {
			p.eventually("it names who holds all permits", func() bool {
				why, err := p.WhyLimit(c.ctx, "few", "")
				held := 0
				for _, n := range why.Nodes {
					held += n.Held
				}
				return err == nil && why.NodesProblem == "" && held == 3 && len(why.Nodes) == len(nodes)
			})
		}
		close(gate)
		nodes[0].ranOnce(ids...)
	}},
}

// fairOverNodes adds a value that waits behind a large backlog of another. Each node takes turns among the tasks that
// it starts: before its task number k of the late value begin at most k of the backlog, and the tasks that it was starting.
func fairOverNodes(c *cluster) {
	const backlog, late, most = 2400, 45, 6
	gate, set := make(chan struct{}), shared(
		policy.Limit{Name: "partner", Of: "few", Per: "payload.partner", Fair: true},
		policy.Limit{Name: "few", Max: most},
	)
	for range 3 {
		c.join(set, nil, func(p *peer) {
			p.config.QueueLookAhead = backlog // so that one can see when the nodes know all tasks
			p.config.Handlers["pay"] = c.ledger.watch(p.name, until(gate))
		})
	}
	c.meet()
	nodes, known := c.peers, 0
	isLate := make(map[task.ID]bool)
	submit := func(count int, value string) {
		for _, p := range nodes {
			for _, id := range p.submit(repeat(count/len(nodes), payTo(value))...) {
				isLate[id] = value == "late"
			}
		}
		known += count
		nodes[0].eventually("the nodes know all tasks", func() bool {
			sum := 0
			for _, p := range nodes {
				s := p.Stats()
				sum += s.Running + s.Waiting
			}
			return sum == known
		})
	}
	submit(backlog, "early")
	nodes[0].eventually("the limit is used up", func() bool { return c.ledger.running() == most })
	submit(late, "late")
	close(gate)
	begun := func() (count int) {
		for _, id := range c.ledger.sequence() {
			if isLate[id] {
				count++
			}
		}
		return count
	}
	nodes[0].eventually("all of the late value have begun", func() bool { return begun() == late })
	c.setMax(nodes[0], backlog)
	nodes[0].eventually("all have begun", func() bool { return c.ledger.total() == known })
	before, of := make(map[string]int), make(map[string]int) // by node: of the backlog, and of the late value
	for _, id := range c.ledger.sequence()[most:] {
		on := c.ledger.nodes(id)[0]
		if !isLate[id] {
			before[on]++
			continue
		}
		if of[on]++; before[on] > of[on]+2*most { // attempts that are granted together begin in any order
			c.Errorf("on %s %d of the backlog began before number %d of the late value", on, before[on], of[on])
		}
	}
	c.Logf("of the late value began %v", of)
}

// permitScenarios are about limits of the cluster when nodes are lost.
var permitScenarios = []clusterScenario{
	{"the permits of a node that is killed are free for the others", shortLease, func(c *cluster) {
		set, never := shared(policy.Limit{Name: "few", Max: 2}), make(chan struct{})
		g := c.gauge(map[string]int{"all": 2, "acme": 2})
		a := c.join(set, map[string]handle{"pay": g.held(never)}, nil)
		first := a.submit(repeat(2, payTo("acme"))...)
		a.eventually("it holds all permits", func() bool { return g.running("all") == 2 })
		b := c.join(set, map[string]handle{"pay": g.held(closed())}, nil)
		c.meet()
		ids := append(first, b.submit(repeat(10, payTo("acme"))...)...)
		a.kill()
		for _, id := range ids {
			b.expect(id, task.Done)
		}
	}},
	{"a node without permits starts nothing under a limit of the cluster, and everything else, and goes on by itself", shortLease, func(c *cluster) {
		set := shared(policy.Limit{Name: "few", Max: 2})
		g := c.gauge(map[string]int{"all": 2, "acme": 2})
		stopped, never := make(chan error, 10), make(chan struct{})
		a := c.join(set, map[string]handle{"mail": done, "pay": func(ctx context.Context, t *task.Task) ([]byte, error) {
			if c.ledger.total() > 2 {
				return g.held(closed())(ctx, t)
			}
			_, err := g.held(never)(ctx, t)
			stopped <- err
			return nil, err
		}}, nil)
		ids := a.submit(repeat(2, payTo("acme"))...)
		a.eventually("it holds all permits", func() bool { return g.running("all") == 2 })
		a.ToLimits.Cut()
		for range ids {
			receive(a.node, "it stops what needs permits", stopped)
		}
		before := c.ledger.total()
		more := a.submit(repeat(5, payTo("acme"))...)
		mails := a.submit(repeat(20, ofType("mail"))...)
		a.ranOnce(mails...)
		if ran := c.ledger.total() - before; ran != len(mails) {
			c.report("%d tasks were started without a permit", ran-len(mails))
		}
		if !a.IsMember() {
			c.Log("it is no member any more: the machine is slow")
		}
		a.ToLimits.Heal()
		for _, id := range append(ids, more...) {
			a.expect(id, task.Done)
		}
	}},
	{"a limit of the cluster holds while one node after the other is cut off from what grants it", shortLease, func(c *cluster) {
		const most = 3
		g := c.gauge(map[string]int{"all": most, "acme": most})
		nodes := c.joinAll(3, shared(policy.Limit{Name: "few", Max: most}), map[string]handle{"pay": func(ctx context.Context, t *task.Task) ([]byte, error) {
			rest := make(chan struct{})
			timer := time.AfterFunc(20*time.Millisecond, func() { close(rest) })
			defer timer.Stop()
			return g.held(rest)(ctx, t)
		}})
		ids := c.spread(nodes, 30, payTo("acme"))
		for i, p := range nodes {
			other := nodes[(i+1)%len(nodes)]
			before := c.ledger.begunOn(other.name)
			p.ToLimits.Cut()
			ids = append(ids, c.spread(nodes, 60, payTo("acme"))...)
			other.eventually("the other nodes go on", func() bool { return c.ledger.begunOn(other.name) > before+3 })
			before = c.ledger.begunOn(p.name)
			p.ToLimits.Heal()
			ids = append(ids, c.spread(nodes, 60, payTo("acme"))...)
			p.eventually("it goes on by itself", func() bool { return c.ledger.begunOn(p.name) > before+3 })
		}
		for _, id := range ids {
			nodes[0].expect(id, task.Done)
		}
	}},
	{"a rate of the cluster holds while a node is cut off from what grants it, and the node goes on by itself", shortLease, func(c *cluster) {
		const tasks, burst, perSecond = 60, 5, 40
		set := shared(policy.Limit{Name: "slow", Rate: policy.Rate{Count: perSecond, Per: time.Second, Burst: burst}})
		nodes := c.joinAll(2, set, map[string]handle{"pay": done, "mail": done})
		a, b := nodes[0], nodes[1]
		a.ToLimits.Cut()
		begin := time.Now()
		ids := c.spread(nodes, tasks, payTo("acme"))
		b.eventually("the other node runs its own", func() bool { return c.ledger.begunOn(b.name) > 10 })
		mails := c.spread(nodes, 20, ofType("mail"))
		b.ranOnce(mails...)
		c.haveAllRun(mails, a, b)
		for _, id := range ids {
			if slices.Contains(c.ledger.nodes(id), a.name) {
				c.report("a task was started without a token")
			}
		}
		a.ToLimits.Heal()
		a.ranOnce(ids...)
		if took, least := time.Since(begin), (tasks-burst)*time.Second/perSecond; took < least {
			c.Errorf("%d tasks took %v; the rate allows %v", tasks, took, least)
		}
		c.haveAllRun(ids, a, b)
	}},
	{"a change of a limit that a node missed while it was cut off from the coordinator reaches it afterwards", shortLease, func(c *cluster) {
		nodes := c.joinAll(2, shared(policy.Limit{Name: "few", Max: 2}), nil)
		nodes[0].ToCoordinator.Cut()
		five := 5
		if _, err := nodes[1].SetLimit(c.ctx, engine.LimitSetting{Limit: "few", Max: &five}, nil); err != nil {
			c.Fatal(err)
		}
		nodes[0].eventually("it has noticed that it is cut off", func() bool { return !nodes[0].IsMember() })
		nodes[0].ToCoordinator.Heal()
		c.haveMax(five)
	}},
}

// setMax sets the maximum of the limit "few" at a node, and waits until all nodes have it.
func (c *cluster) setMax(at *peer, most int) {
	c.Helper()
	if _, err := at.SetLimit(c.ctx, engine.LimitSetting{Limit: "few", Max: &most}, nil); err != nil {
		c.Fatal(err)
	}
	c.haveMax(most)
}

// haveMax waits until all nodes have this maximum of the limit "few".
func (c *cluster) haveMax(most int) {
	c.Helper()
	for _, p := range c.living() {
		p.eventually("every node has the limit", func() bool {
			l, err := p.Limit(c.ctx, "few", "")
			return err == nil && l.Max == most
		})
	}
}

// closed returns a gate that is open.
func closed() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}
