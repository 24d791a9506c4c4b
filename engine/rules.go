package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/taskengine/taskengine/engine/policy"
	"github.com/taskengine/taskengine/storage"
)

// tellRules stores the rules of this node's types in a store to which other programs may add
// tasks. If the rules of nodes differ, those of the node that was opened last hold.
func (e *Engine) tellRules(ctx context.Context) error {
	store, ok := e.store.(storage.Ruled)
	if !ok {
		return nil
	}
	set := e.config.Policies
	rules := []storage.TypeRules{rulesOf("", policy.Set{}, policy.DefaultType(), nil)}
	for _, name := range slices.Sorted(maps.Keys(set.Types)) {
		rules = append(rules, rulesOf(name, set, set.Types[name], e.layouts[name]))
	}
	if err := store.SetRules(ctx, rules...); err != nil {
		return fmt.Errorf("engine: store the rules of the types: %w", err)
	}
	return nil
}

func rulesOf(name string, set policy.Set, p policy.Type, layout []string) storage.TypeRules {
	r := storage.TypeRules{
		Type: name, Priority: p.Priority, MaxPayload: p.MaxPayload,
		QueueTimeout: p.Timeout.Queue, TotalTimeout: p.Timeout.Total,
	}
	for _, k := range keyedBy(layout, set.Keyed(p)) {
		r.Keyed = append(r.Keyed, storage.Keyed{Limit: k.limit, Path: k.path})
	}
	return r
}
