package life

import (
	"context"
	"maps"
	"slices"

	"github.com/taskengine/taskengine/policy"
)

// edited returns the policies of the plan with other values that an engine adopts while it runs. They allow nothing that the plan does not
// allow, so that every check of a life holds for them.
func (w *world) edited() policy.Set {
	set := w.plan.set
	to := policy.Set{Slots: set.Slots, Types: maps.Clone(set.Types), Limits: maps.Clone(set.Limits)}
	for _, name := range slices.Sorted(maps.Keys(to.Limits)) {
		l := to.Limits[name]
		if l.Max > 0 {
			l.Max = 1 + w.roll(l.Max)
		}
		if l.Fair {
			l.Shares = map[string]int{"0": 1 + w.roll(3), "1": 2}
		}
		to.Limits[name] = l
	}
	for _, name := range slices.Sorted(maps.Keys(to.Types)) {
		p := to.Types[name]
		if p.Concurrency > 0 {
			p.Concurrency = 1 + w.roll(p.Concurrency)
		}
		p.Priority, p.Retention.Cancelled = uint8(w.roll(3)), w.span(0, p.Retention.Cancelled)
		to.Types[name] = p
	}
	return to
}

// adopt has a node adopt policies.
func (w *world) adopt(n *node, set policy.Set) {
	if err := n.e.Load().Adopt(context.Background(), set, nil); err != nil {
		w.fail("%s does not adopt policies: %v", n.name, err)
		return
	}
	w.say(n, "adopts policies")
}
