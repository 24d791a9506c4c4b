//go:build !race

package table

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

// model is a naive table: it answers every question by looking at everything. It has no rates and no
// windows.
type model struct {
	policies policy.Set
	closed   map[string]bool
	pools    map[string]string // by type
	slots    map[string]int    // of each pool
	live     policy.Live
	waiting  map[task.Queue][]task.Trigger
	running  map[task.Queue]int
	turns    turnsOfModel
	counted  map[task.Queue]counted // the results of counters since live and slots were changed
}

// counted has the limits that count for a queue.
type counted struct{ tree, across []counter }

// counters returns the limits that count for a queue, with their sizes.
func (m *model) counters(l task.Queue) (tree, across []counter) {
	c, ok := m.counted[l]
	if !ok {
		tree, across = m.count(l)
		c = counted{slices.Clip(tree), slices.Clip(across)} // later appends do not change them
		if m.counted == nil {
			m.counted = make(map[task.Queue]counted)
		}
		m.counted[l] = c
	}
	return c.tree, c.across
}

func (m *model) count(l task.Queue) (tree, across []counter) {
	typ := m.policies.Types[l.Type]
	values := task.GroupValues(l.Group, len(m.policies.Keyed(typ)))
	for i, name := range typ.Limits {
		var chain []counter
		id, limits := "", m.policies.Chain(name)
		own := values[:countKeyed(limits)]
		values = values[len(own):]
		for _, limit := range slices.Backward(limits) {
			id = limit.Name + "/" + id
			if limit.Fair {
				chain = append(chain, counter{id: "values of " + id, isGroup: true})
			}
			value := ""
			if limit.Per != "" {
				value, own = own[len(own)-1], own[:len(own)-1]
				id = value + "=" + id
			}
			now := limit.For(value, m.live)
			c := counter{id: id, max: now.Max, paused: now.Paused}
			if limit.Fair {
				c.largest = m.policies.LargestWeight(limit.Name)
				c.quantum = limit.ShareFor(value) * c.largest
			}
			chain = append(chain, c)
		}
		if i == 0 {
			tree = chain
		} else {
			across = append(across, chain...)
		}
	}
	root := counter{id: "root", max: m.policies.Slots}
	if typ.Slotless {
		root = counter{id: "slotless"}
	}
	tree = append([]counter{root}, tree...)
	if pool, ok := m.pools[l.Type]; ok {
		across = append(across, counter{id: "pool " + pool, max: m.slots[pool], pool: true})
	}
	own := counter{id: "own " + l.Type, max: typ.Concurrency}
	if len(m.policies.Keyed(typ)) > 0 {
		return tree, append(across, own)
	}
	return append(tree, own), across
}

type counter struct {
	id     string
	max    int
	pool   bool // 0 is no slot, and a task takes one whatever its weight
	paused bool

	isGroup          bool // the values below it take turns
	quantum, largest int  // of a value of a fair limit
}

func (c counter) cost(weight int) int {
	if c.pool {
		return 1
	}
	return weight
}

func (m *model) used() map[string]int {
	used := make(map[string]int)
	for l, n := range m.running {
		tree, across := m.counters(l)
		for _, c := range append(tree, across...) {
			used[c.id] += n * c.cost(m.policies.Types[l.Type].Weight)
		}
	}
	return used
}

type claim struct {
	trigger task.Trigger
	rank    task.Rank // its place
	weight  int
	tree    []counter
}

// best returns the trigger to book.
func (m *model) best() (task.Trigger, bool) {
	claims := m.bests()
	if len(claims) == 0 {
		return task.Trigger{}, false
	}
	return slices.MinFunc(claims, func(a, b claim) int { return a.rank.Compare(b.rank) }).trigger, true
}

// bests returns the best claim below each root. The order is strict at every limit of the tree: while the first
// task below a limit does not fit, it blocks the others there.
func (m *model) bests() []claim {
	used := m.used()
	fits := func(c counter, weight int) bool {
		return !c.paused && (c.max == 0 && !c.pool || used[c.id]+c.cost(weight) <= c.max)
	}
	var claims []claim
	for l, ts := range m.waiting {
		if len(ts) == 0 || m.closed[l.Type] {
			continue
		}
		tree, across := m.counters(l)
		weight := m.policies.Types[l.Type].Weight
		if slices.ContainsFunc(across, func(c counter) bool { return !fits(c, weight) }) {
			continue
		}
		head := slices.MinFunc(ts, func(a, b task.Trigger) int { return m.place(a).Compare(m.place(b)) })
		claims = append(claims, claim{head, m.place(head), weight, tree})
	}
	for depth := 12; depth >= 0; depth-- {
		first := make(map[string]claim)
		var rest []claim
		for _, c := range claims {
			if depth >= len(c.tree) {
				rest = append(rest, c)
				continue
			}
			id := c.tree[depth].id
			old, ok := first[id]
			if !ok || !c.tree[depth].isGroup && c.rank.Compare(old.rank) < 0 || c.tree[depth].isGroup && m.turns.goesFirst(c, old, depth+1) {
				first[id] = c
			}
		}
		for _, c := range first {
			if fits(c.tree[depth], c.weight) {
				rest = append(rest, c)
			}
		}
		claims = rest
	}
	return claims
}

func testPolicies(rng *rand.Rand) policy.Set {
	limits := map[string]policy.Limit{
		"total":   {Name: "total", Max: 3 + rng.IntN(8)},
		"payouts": {Name: "payouts", Of: "total", Max: 1 + rng.IntN(6)},
		"partner": {Name: "partner", Of: "payouts", Max: 1 + rng.IntN(3), Per: "payload.p", Overrides: map[string]int{"b": 4}},
		"tenant":  {Name: "tenant", Max: 1 + rng.IntN(4), Per: "payload.t"},
		"audit":   {Name: "audit", Max: 2 + rng.IntN(3)},
	}
	typ := func(weight, concurrency int, limits ...string) policy.Type {
		t := policy.DefaultType()
		t.Weight, t.Concurrency, t.Limits = weight, concurrency, limits
		return t
	}
	slotless := typ(1, rng.IntN(3))
	slotless.Slotless = true
	return policy.Set{
		Slots:  rng.IntN(12), // 0 is without limit
		Limits: limits,
		Types: map[string]policy.Type{
			"free":   typ(1, 0),
			"single": typ(1, 1),
			"heavy":  typ(2, 0, "total"),
			"payout": typ(1, 2, "partner"),
			"refund": typ(1, 0, "partner", "tenant"),
			"report": typ(1, 3, "total", "audit", "tenant"),
			"bulk":   typ(1, 0, "payouts"),
			"aside":  slotless,
			"check":  typ(1, 0, "audit"),             // its tree cuts across report
			"visit":  typ(1, 0, "tenant", "partner"), // the trees of others cut across it
		},
	}
}

func randomQueue(rng *rand.Rand, set policy.Set) task.Queue {
	names := slices.Sorted(maps.Keys(set.Types))
	name := names[rng.IntN(len(names))]
	values := make([]string, len(set.Keyed(set.Types[name])))
	for i := range values {
		values[i] = string(rune('a' + rng.IntN(4)))
	}
	return task.Queue{Type: name, Group: task.GroupOf(values...)}
}

// edited returns policies with other values that a table adopts, without rates.
func edited(rng *rand.Rand, set policy.Set) policy.Set {
	to := policy.Set{Slots: set.Slots, Types: maps.Clone(set.Types), Limits: maps.Clone(set.Limits)}
	for _, name := range slices.Sorted(maps.Keys(to.Limits)) {
		l := to.Limits[name]
		l.Max = 2 + rng.IntN(6)
		if l.Per != "" {
			l.Overrides = map[string]int{string(rune('a' + rng.IntN(4))): 2 + rng.IntN(4)}
		}
		if l.Fair {
			l.Shares = map[string]int{string(rune('a' + rng.IntN(4))): 1 + rng.IntN(3)}
		}
		to.Limits[name] = l
	}
	for _, name := range slices.Sorted(maps.Keys(to.Types)) {
		p := to.Types[name]
		p.Concurrency = 1 + rng.IntN(4)
		to.Types[name] = p
	}
	return set.Adopt(to)
}

// changes returns random changes of limits by operators, without rates.
func changes(rng *rand.Rand, set policy.Set) policy.Overrides {
	all := make(policy.Overrides)
	for _, name := range slices.Sorted(maps.Keys(set.Limits)) {
		keys := []string{""}
		if set.Limits[name].Per != "" {
			keys = []string{"", "a", "b", "c", "a*", "c*"}
		}
		all[name] = make(map[string]policy.Override)
		for range rng.IntN(len(keys) + 1) {
			o := policy.Override{Paused: rng.IntN(6) == 0}
			if n := rng.IntN(8); n < 6 {
				o.Max = &n
			}
			all[name][keys[rng.IntN(len(keys))]] = o
		}
	}
	return all
}

// claim reports whether tr would be booked at once: whether it is the best below its root if it is added. Otherwise it
// returns the best.
func (m *model) claim(tr task.Trigger) (task.Trigger, bool) {
	if len(m.waiting[tr.Queue]) > 0 {
		return task.Trigger{}, false
	}
	m.waiting[tr.Queue] = []task.Trigger{tr}
	best, _ := m.best()
	ok := slices.ContainsFunc(m.bests(), func(c claim) bool { return c.trigger == tr })
	delete(m.waiting, tr.Queue)
	return best, ok
}

func (m *model) book(tr task.Trigger) {
	ts := m.waiting[tr.Queue]
	m.waiting[tr.Queue] = slices.DeleteFunc(ts, func(o task.Trigger) bool { return o == tr })
	if len(m.waiting[tr.Queue]) == 0 {
		delete(m.waiting, tr.Queue)
	}
	m.wait(nil)
	m.start(tr.Queue)
}

// len returns the number of triggers in a table without bounds. It has none of closed types.
func (m *model) len() int {
	n := 0
	for l, ts := range m.waiting {
		if !m.closed[l.Type] {
			n += len(ts)
		}
	}
	return n
}

// finishScan passes to a new table that the store is empty.
func finishScan(tab *Table) {
	tab.TakeScan()
	tab.Scanned(nil, true)
}

// tally has the counts of check for a limit.
type tally struct{ used, children int }

// tallies is a tally of each limit of a table.
type tallies struct {
	of   map[*node]*tally
	rest []tally // to hand out, so that they take one allocation
}

func (c *tallies) at(n *node) *tally {
	got := c.of[n]
	if got == nil {
		if len(c.rest) == 0 {
			c.rest = make([]tally, 32)
		}
		got, c.rest = &c.rest[0], c.rest[1:]
		c.of[n] = got
	}
	return got
}

func (c *tallies) checkChildren(tb testing.TB, n *node) {
	if got, want := n.children.Len(), c.at(n).children; got != want {
		tb.Helper()
		tb.Fatalf("limit %s%s lists %d children, counted %d", n.name, n.value, got, want)
	}
}

// check fails if the table violates one of its invariants. It returns the number of booked tasks. Tests call it after
// every step: it has to be fast.
func (t *Table) check(tb testing.TB) (running int) {
	tb.Helper()
	size, idle, kinds := 0, 0, make(map[*kind]int, len(t.kinds))
	limits := len(t.nodes) + len(t.groups) + len(t.pools) + 2
	counted := tallies{of: make(map[*node]*tally, limits), rest: make([]tally, limits)}
	for _, q := range t.queues {
		size += q.len()
		running += q.running
		kinds[q.kind] += q.len()
		if q.running == 0 && !q.isPermanent() {
			idle++
		}
		if q.kind.closed && q.any {
			tb.Fatalf("queue %v is closed and holds triggers", q.name)
		}
		if q.running != 0 {
			for n := q.parent; n != nil; n = n.parent {
				counted.at(n).used += q.running * q.kind.policy.Weight
			}
			for _, n := range q.across {
				counted.at(n).used += q.running * n.cost(q.kind.policy.Weight)
			}
		}
		if q.offered {
			counted.at(q.parent).children++
			if q.parkedOn != nil {
				tb.Fatalf("queue %v is listed and parked", q.name)
			}
		}
		if t.queues[q.name] != q || q.kind.queues[q.index] != q {
			tb.Fatalf("queue %v is not where it should be", q.name)
		}
	}
	if size != t.size {
		tb.Fatalf("size %d; counted %d", t.size, size)
	}
	if idle != t.idle {
		tb.Fatalf("%d queues are idle, counted %d", t.idle, idle)
	}
	for _, k := range t.order {
		if k.size != kinds[k] {
			tb.Fatalf("type %s has %d triggers, counted %d", k.name, k.size, kinds[k])
		}
	}
	for _, n := range t.nodes {
		if n.offered {
			counted.at(n.parent).children++
		}
		if used := counted.at(n).used; n.used != used {
			tb.Fatalf("limit %s%s: used %d, counted %d", n.name, n.value, n.used, used)
		}
		if n.max > 0 && n.permits == nil && t.overrides == 0 && n.used > n.max {
			tb.Fatalf("limit %s%s: used %d of %d", n.name, n.value, n.used, n.max)
		}
	}
	totals := make(map[string]Total, len(t.totals))
	for _, n := range t.nodes {
		sum := totals[n.name]
		sum.Used += n.used
		if p := n.permits; p != nil {
			sum.Held, sum.Wanted = sum.Held+p.counted.Held, sum.Wanted+p.counted.Wanted
			if !p.dirty && (p.held != p.counted.Held || p.ordered.Want != p.counted.Wanted) {
				tb.Fatalf("limit %s%s: %d permits of %d, counted %+v", n.name, n.value, p.held, p.ordered.Want, p.counted)
			}
		}
		totals[n.name] = sum
	}
	for name := range t.totals {
		if got := t.Total(name); got != totals[name] {
			tb.Fatalf("limit %s takes %+v, counted %+v", name, got, totals[name])
		}
	}
	for _, n := range t.groups {
		if n.offered {
			counted.at(n.parent).children++
		}
	}
	for name, n := range t.pools {
		if used := counted.at(n).used; n.used != used {
			tb.Fatalf("pool %s: used %d, counted %d", name, n.used, used)
		}
	}
	for _, n := range t.nodes {
		counted.checkChildren(tb, n)
	}
	for _, n := range t.groups {
		counted.checkChildren(tb, n)
	}
	counted.checkChildren(tb, t.root)
	counted.checkChildren(tb, t.slotless)
	return running
}
