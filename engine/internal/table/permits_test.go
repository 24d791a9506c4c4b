//go:build !race

package table

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

// coordinator grants permits as a coord.Semaphore does: in the order of the orders, none below Least.
type coordinator struct {
	limits map[string]*coordinated
	place  int
}

type coordinated struct {
	max     int
	version uint64
	parts   map[*party]*part
}

type part struct {
	held, want, least, place int
	number                   uint64 // of the latest order
}

// party is a node: a table, its tasks, and its connection to the coordinator.
type party struct {
	number  int
	table   *Table
	slots   map[int]Slot    // by the number of the task
	lost    map[int]bool    // tasks that ran when the permits were lost
	orders  []coord.Order   // on their way
	answers []coord.Holding // on their way
}

func (c *coordinator) take(p *party, o coord.Order) {
	l := c.limits[o.Name]
	if l == nil {
		l = &coordinated{parts: map[*party]*part{}}
		c.limits[o.Name] = l
	}
	if o.Version >= l.version {
		l.max, l.version = o.Max, o.Version
	}
	at := l.parts[p]
	if at == nil {
		at = &part{}
		l.parts[p] = at
	}
	waited := at.want > at.held
	at.want, at.least, at.number = o.Want, o.Least, o.Number
	if gave := at.held > o.Want; gave || !waited {
		c.place++
		at.place = c.place
	}
	at.held = min(at.held, o.Want)
	if o.Want == 0 {
		delete(l.parts, p)
	}
}

func (l *coordinated) used() (n int) {
	for _, at := range l.parts {
		n += at.held
	}
	return n
}

// grant serves the waiting nodes, and returns the ones that got permits.
func (l *coordinated) grant() (served []*party) {
	waiting := slices.SortedFunc(maps.Keys(l.parts), func(a, b *party) int { return l.parts[a].place - l.parts[b].place })
	for _, p := range waiting {
		at := l.parts[p]
		if at.held >= at.want {
			continue
		}
		room := l.max - l.used()
		if room <= 0 || at.held+room < at.least {
			break
		}
		at.held = min(at.want, at.held+room) // so the sum stays within max, unless that was lowered
		served = append(served, p)
	}
	return served
}

func (l *coordinated) holding(name string, p *party) coord.Holding {
	h := coord.Holding{Name: name, Share: l.max / max(1, len(l.parts)), Needed: max(0, l.used()-l.max)}
	for other, at := range l.parts {
		if other == p {
			h.Held, h.Number = at.held, at.number
		} else if at.held < at.want {
			h.Waiting += at.want - at.held
			h.Needed += max(0, min(at.want, max(h.Share, at.least, 1))-at.held)
		}
	}
	return h
}

// randomOverrides returns overrides under which every task fits.
func randomOverrides(rng *rand.Rand) policy.Overrides {
	few := func(least int) policy.Override { return policy.Override{Max: new(least + rng.IntN(4))} }
	return policy.Overrides{
		"total":   {"": few(3)},
		"audit":   {"": few(2)},
		"partner": {"": few(1), "a": few(1)},
		"tenant":  {"b*": few(1)},
	}
}

// tell sends the nodes that have permits or wait for some their holdings, except one node.
func (l *coordinated) tell(name string, except *party) {
	for _, p := range slices.SortedFunc(maps.Keys(l.parts), func(a, b *party) int { return a.number - b.number }) {
		if p != except {
			p.answers = append(p.answers, l.holding(name, p))
		}
	}
}

// receive has the coordinator take the next order of p, and sends the answers.
func (c *coordinator) receive(p *party) {
	o := p.orders[0]
	p.orders = p.orders[1:]
	c.take(p, o)
	l := c.limits[o.Name]
	l.grant()
	l.tell(o.Name, p)
	h := l.holding(o.Name, p)
	h.Number = o.Number
	p.answers = append(p.answers, h)
}

// deliver gives the next answer to the table of p.
func (p *party) deliver(now int64) {
	p.table.Hold(now, p.answers[0])
	p.answers = p.answers[1:]
}

// absorb sends the orders of the table.
func (p *party) absorb() {
	orders, draws := p.table.TakeOrders(nil, nil)
	p.orders = append(p.orders, orders...)
	if len(draws) > 0 {
		panic("a draw without a rate")
	}
}

// lose takes all permits of p away.
func (c *coordinator) lose(p *party, now int64) {
	for _, name := range slices.Sorted(maps.Keys(c.limits)) {
		if l := c.limits[name]; l.parts[p] != nil {
			delete(l.parts, p)
			l.grant()
			l.tell(name, p)
		}
	}
	p.orders, p.answers = nil, nil
	p.table.LosePermits(now)
	for id := range p.slots {
		p.lost[id] = true
	}
	p.absorb()
}

func clusterPolicies(rng *rand.Rand) policy.Set {
	typ := func(weight int, limits ...string) policy.Type {
		t := policy.DefaultType()
		t.Weight, t.Limits = weight, limits
		return t
	}
	return policy.Set{
		Limits: map[string]policy.Limit{
			"total":   {Name: "total", Max: 3 + rng.IntN(5), Cluster: true},
			"payouts": {Name: "payouts", Of: "total", Max: 3 + rng.IntN(3), Cluster: rng.IntN(4) > 0},
			"partner": {Name: "partner", Of: "payouts", Max: 1 + rng.IntN(3), Per: "payload.p", Cluster: true},
			"tenant":  {Name: "tenant", Max: 1 + rng.IntN(3), Per: "payload.t", Cluster: true},
			"audit":   {Name: "audit", Max: 2 + rng.IntN(3), Cluster: true},
		},
		Types: map[string]policy.Type{
			"heavy":  typ(3, "total"),
			"payout": typ(1, "partner"),
			"refund": typ(1, "partner", "tenant"),
			"report": typ(2, "total", "audit"),
			"check":  typ(1, "audit"),
			"visit":  typ(1, "tenant", "partner"),
			"free":   typ(1),
		},
	}
}

func TestPermitsAreNeverExceededAndEveryTaskRuns(t *testing.T) {
	for seed := range uint64(max(10, seeds/20)) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { livePermits(t, seed) })
	}
}

func livePermits(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 7))
	set := clusterPolicies(rng)
	types := slices.Sorted(maps.Keys(set.Types))
	c := &coordinator{limits: map[string]*coordinated{}}
	now := int64(1e18)
	var parties []*party
	for i := range 1 + rng.IntN(4) {
		p := &party{number: i, table: New(Config{Capacity: 1 << 20, QueueCapacity: 1 << 20, Policies: set, Permits: true}), slots: map[int]Slot{}, lost: map[int]bool{}}
		p.table.ahead = rng.IntN(4)
		finishScan(p.table)
		parties = append(parties, p)
	}
	queues := map[int]task.Queue{}
	tasks := 0
	version, live, heard := uint64(0), map[uint64]policy.Overrides{}, map[*party]uint64{}
	check := func() { // no node uses more permits than the coordinator knows of
		for _, p := range parties {
			used := map[string]int{}
			for id, s := range p.slots {
				if !p.lost[id] {
					s.eachPermits(func(n *node, weight int) { used[n.permits.name] += weight })
				}
			}
			for name, n := range used {
				if l := c.limits[name]; l == nil || l.parts[p] == nil || l.parts[p].held < n {
					t.Fatalf("node %d uses %d permits of %s, and has %+v", p.number, n, name, l)
				}
			}
		}
	}
	left := func() (n int) {
		for _, p := range parties {
			n += p.table.Len() + len(p.slots)
		}
		return n
	}
	steps := 0
	step := func(p *party, busy bool) {
		switch op := rng.IntN(10); {
		case op < 2 && busy:
			q := task.Queue{Type: types[rng.IntN(len(types))]}
			values := make([]string, len(set.Keyed(set.Types[q.Type])))
			for i := range values {
				values[i] = string(rune('a' + rng.IntN(3)))
			}
			q.Group = task.GroupOf(values...)
			tasks++
			queues[tasks] = q
			tr := task.Trigger{Ref: task.Ref{ID: task.ID{byte(tasks), byte(tasks >> 8)}, Version: 1}, Queue: q, Rank: task.Rank{Seq: uint64(tasks)}}
			if slot, ok := p.table.Claim(now, q, tr.Rank); ok {
				p.slots[tasks] = slot
			} else {
				p.table.Add(now, tr)
			}
		case op < 4:
			if tr, slot, ok := p.table.Book(now); ok {
				p.slots[int(tr.Seq)] = slot
			}
		case op < 6 && len(p.slots) > 0:
			ids := slices.Sorted(maps.Keys(p.slots))
			id := ids[rng.IntN(len(ids))]
			if slot := p.slots[id]; rng.IntN(8) == 0 {
				p.table.Return(now, slot)
			} else {
				p.table.Free(now, slot)
			}
			delete(p.slots, id)
			delete(p.lost, id)
		case op < 8 && len(p.orders) > 0:
			for range 1 + rng.IntN(len(p.orders)) {
				c.receive(p)
			}
		case op < 9 && len(p.answers) > 0:
			for range 1 + rng.IntN(len(p.answers)) {
				p.deliver(now)
			}
		default:
			now += int64(rng.IntN(5e7))
			if rng.IntN(50) == 0 || !busy && rng.IntN(4) == 0 && left() == 0 {
				now += idleTime
			}
			if at, ok := p.table.Wake(); ok && at <= now {
				p.table.Advance(now)
			}
			switch {
			case busy && rng.IntN(200) == 0:
				c.lose(p, now)
			case busy && rng.IntN(100) == 0:
				version++
				live[version] = randomOverrides(rng)
			case heard[p] < version:
				heard[p] += 1 + uint64(rng.IntN(int(version-heard[p])))
				p.table.Override(now, heard[p], live[heard[p]].Live())
			}
		}
		p.absorb()
		if steps++; steps%16 == 0 {
			p.table.check(t)
		}
		check()
	}
	for range 1500 {
		step(parties[rng.IntN(len(parties))], true)
	}
	for n := 0; left() > 0; n++ {
		if n > 200_000 {
			for _, p := range parties {
				t.Logf("node %d: %d slots, %d waiting, %d orders, %d answers", p.number, len(p.slots), p.table.Len(), len(p.orders), len(p.answers))
				for name, n := range p.table.permits {
					t.Logf("  %s used %d max %d %+v", name, n.used, n.max, *n.permits)
				}
				for _, q := range p.table.queues {
					t.Logf("  queue %v: %d, parked %v", q.name, q.len(), q.parkedOn != nil)
				}
			}
			for name, l := range c.limits {
				for p, at := range l.parts {
					t.Logf("%s of %d: node %d %+v", name, l.max, p.number, *at)
				}
			}
			t.Fatalf("%d tasks are left, which nothing starts", left())
		}
		step(parties[rng.IntN(len(parties))], false)
	}
	for n := 0; n < 100_000 && slices.ContainsFunc(slices.Collect(maps.Values(c.limits)), func(l *coordinated) bool { return l.used() > 0 }); n++ {
		step(parties[rng.IntN(len(parties))], false)
	}
	for name, l := range c.limits {
		if l.used() > 0 {
			t.Fatalf("%d permits of %s were not given back", l.used(), name)
		}
	}
	now += 2 * idleTime
	for _, p := range parties {
		p.table.Advance(now)
		p.absorb()
		for name, n := range p.table.permits {
			if n.permits.held > 0 || n.users == 0 {
				t.Fatalf("node %d keeps the limit %s, which it does not use: %+v", p.number, name, *n.permits)
			}
		}
	}
}

// eachPermits calls fn with each limit of the cluster that a slot counts for.
func (s Slot) eachPermits(fn func(n *node, weight int)) {
	weight := s.queue.kind.policy.Weight
	for n := &s.queue.node; n != nil; n = n.parent {
		if n.permits != nil {
			fn(n, weight)
		}
	}
	for _, n := range s.queue.across {
		if n.permits != nil {
			fn(n, weight)
		}
	}
}
