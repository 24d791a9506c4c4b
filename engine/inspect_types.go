package engine

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/storage"
)

// TypeStatus is the state of one type.
type TypeStatus = core.TypeStatus

// Types returns the state of every type that is configured, or was paused or unpaused by
// a person, in the order of their names.
func (e *Engine) Types() (types []TypeStatus) {
	e.decide(func(c *core.Core, _ time.Time) { types = c.Types() })
	return types
}

// Bounds of what AllTypes reads from a store that is not a [storage.LiveCounter].
const (
	typesOfNewest = 1000   // tasks among which it looks for types
	typesScan     = 20_000 // rows it reads to find them
)

// AllTypes returns what Types does, and the types of tasks that are in the store, in the order
// of their names. A task may be submitted with any type, so AllTypes adds at most limit types to
// those of Types; more reports whether there may be others. A store that is a
// [storage.LiveCounter] knows the types of all tasks. For another store AllTypes finds the types
// of the tasks that are ready, and of the newest thousand that wait, run or are in error.
func (e *Engine) AllTypes(ctx context.Context, limit int) (types []TypeStatus, more bool, err error) {
	types = e.Types()
	known := make(map[string]bool, len(types))
	for _, t := range types {
		known[t.Name] = true
	}
	found, more, err := e.typesOfTasks(ctx, known, limit)
	if err != nil {
		return nil, false, err
	}
	for _, name := range found {
		types = append(types, TypeStatus{Name: name})
	}
	slices.SortFunc(types, func(a, b TypeStatus) int { return cmp.Compare(a.Name, b.Name) })
	return types, more, nil
}

// typesOfTasks returns the types of tasks in the store except the known ones.
func (e *Engine) typesOfTasks(ctx context.Context, known map[string]bool, limit int) (names []string, more bool, err error) {
	found := make(map[string]bool)
	switch s := e.store.(type) {
	case storage.LiveCounter:
		counts, err := s.Count(ctx, storage.Filter{})
		if err != nil {
			return nil, false, err
		}
		for of := range counts {
			found[of.Type] = true
		}
	default:
		if more, err = e.typesOfReady(ctx, known, limit, found); err != nil {
			return nil, false, err
		}
		if s, ok := e.store.(storage.Inspector); ok {
			f := storage.Filter{States: []task.State{task.Waiting, task.Processing, task.Error}}
			newest, _, err := s.List(ctx, f, task.ID{}, typesOfNewest, typesScan)
			if err != nil {
				return nil, false, err
			}
			for _, t := range newest {
				found[t.Type] = true
			}
		}
	}
	maps.DeleteFunc(found, func(name string, _ bool) bool { return known[name] })
	names = slices.Sorted(maps.Keys(found))
	if len(names) > limit {
		names, more = names[:limit], true
	}
	return names, more, nil
}

// typesOfReady adds the types of tasks that are ready to found, until there are limit of them
// besides the known ones. It reads one queue of each type.
func (e *Engine) typesOfReady(ctx context.Context, known map[string]bool, limit int, found map[string]bool) (more bool, err error) {
	var after task.Queue
	for n := 0; ; {
		queues, err := e.store.Queues(ctx, after, 1)
		if err != nil || len(queues) == 0 {
			return false, err
		}
		name := queues[0].Type
		if !known[name] {
			if n++; n > limit {
				return true, nil
			}
			found[name] = true
		}
		after = task.Queue{Type: name + "\x00"} // behind all groups of the type, and before every other type
	}
}
