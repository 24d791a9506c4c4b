package engine

import (
	"context"
	"slices"

	"github.com/taskengine/taskengine/filter"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// countScan is how many rows CountWhere reads at most.
const countScan = 1_000_000

// Counted are the numbers of tasks that a filter selects.
type Counted struct {
	Counts  map[storage.StateType]int64
	Read    int    // how many rows were read at least; zero if they were counted without that
	Index   string // the field by which an index found or counted them, as in [Found]
	Total   int64  // of how many rows they were, as in [Found]
	Partial bool   // there may be more: only the newest rows were read
}

// CountWhere returns the number of tasks that f selects per state and type. States, types and kinds of errors alone are counted as [Engine.Count]
// and [Engine.Errors] do. For other terms CountWhere reads the tasks as [Engine.Search] does, about a million at most.
func (e *Engine) CountWhere(ctx context.Context, f filter.Filter) (Counted, error) {
	c := Counted{Counts: make(map[storage.StateType]int64)}
	b, ok := f.Bounds()
	if !ok {
		return c, nil
	}
	if done, err := e.countBounds(ctx, b, &c); done || err != nil {
		return c, err
	}
	for before, more := (task.ID{}), true; more; more = !before.IsZero() {
		if c.Partial = c.Read >= countScan; c.Partial {
			break
		}
		found, err := e.Search(ctx, f, before, errorPage)
		if err != nil {
			return Counted{}, err
		}
		for _, t := range found.Tasks {
			c.Counts[storage.StateType{State: t.State, Type: t.Type}]++
		}
		before = found.Next
		c.Read, c.Index, c.Total = c.Read+found.Read, found.Index, max(c.Total, found.Total)
	}
	return c, nil
}

// countBounds counts the tasks within bounds that are exact. It reports false if the tasks have to be read.
func (e *Engine) countBounds(ctx context.Context, b filter.Bounds, c *Counted) (done bool, err error) {
	switch {
	case !b.Exact:
		return false, nil
	case b.Kinds == nil:
		return true, e.countStates(ctx, b, c)
	}
	kinds, known, err := e.countKinds(ctx, b.Types, b.Kinds)
	if err != nil || !known {
		return false, err
	}
	for _, k := range kinds {
		c.Counts[storage.StateType{State: task.Error, Type: k.Type}] += k.Rows
	}
	c.Index = storage.IndexKind
	return true, nil
}

// countStates counts the tasks of states and types.
func (e *Engine) countStates(ctx context.Context, b filter.Bounds, c *Counted) (err error) {
	if c.Counts, err = e.Count(ctx, storage.Filter{States: b.States, Types: b.Types}); err != nil {
		return err
	}
	_, live := e.store.(storage.LiveCounter)
	if len(b.States) > 0 && (live || !slices.ContainsFunc(b.States, func(s task.State) bool { return !s.Live() && s != task.Error })) {
		c.Index = storage.IndexState
	}
	if live {
		return nil
	}
	for _, n := range c.Counts {
		c.Read += int(n)
	}
	if b.States == nil && b.Types == nil {
		c.Total = int64(c.Read)
	}
	return nil
}
