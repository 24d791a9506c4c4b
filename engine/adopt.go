package engine

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

// Adopt replaces policies, and handlers by type, while the engine runs. Types, limits and handlers that are missing stay as they are.
// The policies may differ in what [policy.Set.Adopt] takes over. A handler may be replaced for a type that has one, and neither of the two
// may be a [task.Pool]. Other differences are refused with an error that wraps [ErrInvalid], and nothing is changed. Attempts that have begun keep the
// policy of their type and their handler; limits keep the changes by [Engine.SetLimit].
//
// Nodes that share a store can have different policies while they adopt them one after the other. As at the start, of a limit of the
// cluster the last maximum applies, and of rules for programs that add tasks by SQL the last ones. If these rules cannot be stored, Adopt
// returns an error, the policies are in force on this node, and the engine tries to store the rules again. One goroutine at a time calls Adopt.
func (e *Engine) Adopt(ctx context.Context, set policy.Set, handlers map[string]task.Handler) error {
	was := e.catalog.policies()
	to := policy.Set{Slots: set.Slots, Types: maps.Clone(was.Types), Limits: maps.Clone(was.Limits)}
	maps.Copy(to.Types, set.Types)
	if to.Limits == nil {
		to.Limits = make(map[string]policy.Limit)
	}
	maps.Copy(to.Limits, set.Limits)
	if problems := to.Check(); len(problems) > 0 {
		return fmt.Errorf("%w: %s", ErrInvalid, problems[0])
	}
	if kept := firstKept(was.Adopt(to), to); kept != "" {
		return fmt.Errorf("%w: %s has changes that an engine that runs cannot take over", ErrInvalid, kept)
	}
	calls, err := e.replaced(handlers)
	if err != nil {
		return err
	}
	e.tell(func(s *state, now time.Time) {
		e.handlers.calls.Store(&calls)
		e.catalog.inForce.Store(newRuleBook(to, e.catalog.layouts, e.config.Values))
		s.Adopt(now, to)
	})
	if err := e.catalog.store(ctx, e.store); err != nil {
		e.catalog.mayBeLost()
		return err
	}
	return nil
}

// firstKept returns the name of a type or limit that is not adopted as it is wanted; "" if there is none.
func firstKept(adopted, wanted policy.Set) string {
	if adopted.Slots != wanted.Slots {
		return "the number of slots"
	}
	for _, name := range slices.Sorted(maps.Keys(wanted.Types)) {
		if t, ok := adopted.Types[name]; !ok || !reflect.DeepEqual(t, wanted.Types[name]) {
			return fmt.Sprintf("type %.80q", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(wanted.Limits)) {
		if l, ok := adopted.Limits[name]; !ok || !reflect.DeepEqual(l, wanted.Limits[name]) {
			return fmt.Sprintf("limit %.80q", name)
		}
	}
	return ""
}

// replaced returns the functions that call the handlers, with some replaced.
func (e *Engine) replaced(handlers map[string]task.Handler) (map[string]task.Handler, error) {
	calls := maps.Clone(*e.handlers.calls.Load())
	placed := make(map[string]task.Handler, len(handlers))
	for _, typ := range slices.Sorted(maps.Keys(handlers)) {
		_, isPool := handlers[typ].(task.Pool)
		_, wasPool := e.handlers.pools.of[typ]
		switch _, ok := e.config.Handlers[typ]; {
		case ok && !isPool && !wasPool:
			placed[typ] = handlers[typ]
		case ok:
			return nil, fmt.Errorf("%w: the handler of type %.80q has slots, or gets some, and an engine that runs cannot replace it", ErrInvalid, typ)
		}
	}
	wrapped, err := wrapped(&e.config, placed)
	if err != nil {
		return nil, err
	}
	maps.Copy(calls, wrapped)
	return calls, nil
}
