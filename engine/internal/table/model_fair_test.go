//go:build !race

package table

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

// turnsOfModel has the turns of the values that wait, by counter.id.
type turnsOfModel struct {
	last   int
	values map[string]*turnOfModel
}

type turnOfModel struct{ at, credit int }

// goesFirst reports whether a goes before b, which are of two values of a group. depth is that of the
// values in the tree.
func (m *turnsOfModel) goesFirst(a, b claim, depth int) bool {
	if p, q := a.rank.Priority, b.rank.Priority; p != q {
		return p < q
	}
	at := func(c claim) int {
		if turn, ok := m.values[c.tree[depth].id]; ok {
			return turn.at
		}
		return math.MaxInt
	}
	return at(a) < at(b)
}

// wait gives the values that begin to wait their turns, and drops the turns of values that do not wait any
// more. If several begin at once, they do so in the order of the table, which read them.
func (m *model) wait(tab *Table) {
	waiting := make(map[string]counter)
	for q, ts := range m.waiting {
		if len(ts) > 0 && !m.closed[q.Type] {
			for _, c := range m.values(q) {
				waiting[c.id] = c
			}
		}
	}
	maps.DeleteFunc(m.turns.values, func(id string, _ *turnOfModel) bool { _, ok := waiting[id]; return !ok })
	var fresh []string
	for id := range waiting {
		if m.turns.values[id] == nil {
			fresh = append(fresh, id)
		}
	}
	if tab != nil {
		slices.SortFunc(fresh, func(a, b string) int { return int(tab.turnOf(m, a)) - int(tab.turnOf(m, b)) })
	}
	for _, id := range fresh {
		m.turns.last++
		if m.turns.values == nil {
			m.turns.values = make(map[string]*turnOfModel)
		}
		m.turns.values[id] = &turnOfModel{m.turns.last, waiting[id].quantum}
	}
}

// turnOf returns the turn of a value, named as in the model, in the order of its group.
func (t *Table) turnOf(m *model, id string) uint64 {
	for name, q := range t.queues {
		i := 0
		for _, c := range slices.Backward(m.values(name)) {
			if c.id == id {
				return q.values[i].fair.at
			}
			i++
		}
	}
	return 0
}

// values returns the values of fair limits that count for a queue, nearest last.
func (m *model) values(q task.Queue) (values []counter) {
	tree, _ := m.counters(q)
	for _, c := range tree {
		if c.quantum > 0 {
			values = append(values, c)
		}
	}
	return values
}

// start starts a task.
func (m *model) start(q task.Queue) {
	m.running[q]++
	for _, c := range slices.Backward(m.values(q)) {
		turn := m.turns.values[c.id]
		if turn == nil {
			continue
		}
		if turn.credit -= m.policies.Types[q.Type].Weight; turn.credit < c.largest {
			m.turns.last++
			turn.at, turn.credit = m.turns.last, turn.credit+c.quantum
		}
	}
}

// fits reports whether all limits of a task have room for it.
func (m *model) fits(tr task.Trigger) bool {
	used, weight := m.used(), m.policies.Types[tr.Type].Weight
	tree, across := m.counters(tr.Queue)
	return !m.closed[tr.Type] && !slices.ContainsFunc(slices.Concat(tree, across), func(c counter) bool {
		return c.paused || (c.max > 0 || c.pool) && used[c.id]+c.cost(weight) > c.max
	})
}

// fairPolicies has fair limits, at one level or at two.
func fairPolicies(rng *rand.Rand) policy.Set {
	set := testPolicies(rng)
	partner := set.Limits["partner"]
	partner.Fair, partner.Shares = true, map[string]int{"b": 1 + rng.IntN(3), "c*": 2}
	set.Limits["partner"] = partner
	set.Limits["team"] = policy.Limit{Name: "team", Of: "partner", Max: 1 + rng.IntN(2), Per: "payload.team", Fair: rng.IntN(2) == 0}
	add := func(name string, weight int, limits ...string) {
		t := policy.DefaultType()
		t.Weight, t.Limits = weight, limits
		set.Types[name] = t
	}
	delete(set.Types, "visit")
	add("payout", 1, "partner")
	add("refund", 1, "partner")
	add("member", 1, "team")
	if rng.IntN(2) == 0 {
		partner.Max, partner.Overrides = 3, nil
		payouts := set.Limits["payouts"]
		payouts.Max = 3 + rng.IntN(3)
		set.Limits["partner"], set.Limits["payouts"] = partner, payouts
		add("large", 3, "partner")
		set.Slots = 0
	}
	return set
}

func TestBooksValuesInTurnsLikeTheNaiveModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(seeds / 4) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			followModel(t, seed, plan{policies: fairPolicies, noPools: true, override: seed%4 == 0})
		})
	}
}

// crossedPolicies has a fair limit and limits that cut across its values.
func crossedPolicies(rng *rand.Rand) policy.Set {
	set := fairPolicies(rng)
	for name, t := range testPolicies(rng).Types {
		if name != "visit" {
			t.Weight = 1
			set.Types[name] = t
		}
	}
	delete(set.Types, "large")
	return set
}

func TestBooksOfCrossedValuesWhatCouldRun(t *testing.T) {
	t.Parallel()
	for seed := range uint64(seeds / 4) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			followModel(t, seed, plan{policies: crossedPolicies, anyOrder: true, override: seed%4 == 0})
		})
	}
}
