package bench

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/taskengine/taskengine/policy"
)

// gate counts the weight of the tasks that run under one limit, for each of its values. The handlers
// call it, so a task enters after the engine has taken its slot and leaves before the slot is free: a
// sum above the limit is always a violation.
type gate struct {
	name    string
	max     int32 // 0 is without limit
	rate    policy.Rate
	running []atomic.Int32 // weights, by value
	value   func(rec *record, typ int32) int
	rep     *repetition
}

func (g *gate) enter(rec *record, typ int32) {
	v := g.value(rec, typ)
	if n := g.running[v].Add(g.weight(rec)); g.max > 0 && n > g.max {
		rec.over.Add(1)
		g.rep.note(&g.rep.overNotes, "limit %s (value %d): a weight of %d runs at once, of %d allowed, with task %v", g.name, v, n, g.max, rec.id)
	}
}

func (g *gate) leave(rec *record, typ int32) { g.running[g.value(rec, typ)].Add(-g.weight(rec)) }

func (g *gate) weight(rec *record) int32 { return int32(g.rep.s.Tasks[rec.flow].Weight) }

// newGates returns the gates of the tasks of each flow.
func newGates(rep *repetition) [][]*gate {
	s := rep.s
	limits := make(map[string]*gate)
	set := policies(s)
	for _, l := range s.Limits {
		limits[l.Name] = &gate{name: l.Name, max: int32(l.Max), rate: l.Rate, rep: rep}
		limits[l.Name].value, limits[l.Name].running = valueOf(s, set.Chain(l.Name))
	}
	all := func(*record, int32) int { return 0 }
	var slots *gate
	if s.Slots > 0 {
		slots = &gate{name: "slots", max: int32(s.Slots), running: make([]atomic.Int32, 1), value: all, rep: rep}
	}
	gates := make([][]*gate, len(s.Tasks))
	for i := range s.Tasks {
		f := &s.Tasks[i]
		if slots != nil {
			gates[i] = append(gates[i], slots)
		}
		if f.Concurrency > 0 {
			gates[i] = append(gates[i], &gate{
				name: fmt.Sprintf("concurrency of %s", f.Name), max: int32(f.Concurrency), running: make([]atomic.Int32, f.Types),
				value: func(_ *record, typ int32) int { return int(typ) }, rep: rep,
			})
		}
		for _, name := range f.Limits {
			for _, l := range set.Chain(name) {
				gates[i] = append(gates[i], limits[l.Name])
			}
		}
	}
	return gates
}

// valueOf returns the number of the value of a limit that a task counts for. A limit has a counter for
// each combination of its own value and the values of the limits above it.
func valueOf(s *Scenario, chain []policy.Limit) (func(*record, int32) int, []atomic.Int32) {
	byKey := slices.ContainsFunc(chain, func(l policy.Limit) bool { return l.Per == PerKey })
	byTenant := slices.ContainsFunc(chain, func(l policy.Limit) bool { return l.Per == PerTenant })
	keys, tenants := 1, []string{""}
	tenantOf := make([]int, len(s.Tasks))
	for i, f := range s.Tasks {
		if byKey {
			keys = max(keys, f.Keys+1)
		}
		if !slices.Contains(tenants, f.Tenant) {
			tenants = append(tenants, f.Tenant)
		}
		tenantOf[i] = slices.Index(tenants, f.Tenant)
	}
	return func(rec *record, _ int32) int {
		v := 0
		if byKey {
			v = int(rec.key) + 1
		}
		if byTenant {
			v += keys * tenantOf[rec.flow]
		}
		return v
	}, make([]atomic.Int32, keys*len(tenants))
}
