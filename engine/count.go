package engine

import (
	"context"
	"errors"
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
		c.Read, c.Index = c.Read+found.Read, found.Index
	}
	return c, nil
}

// countBounds counts the tasks within bounds that are exact. It reports false if the tasks have to be read.
func (e *Engine) countBounds(ctx context.Context, b filter.Bounds, c *Counted) (done bool, err error) {
	switch {
	case !b.Exact:
		return false, nil
	case b.Kinds == nil:
		c.Counts, err = e.Count(ctx, storage.Filter{States: b.States, Types: b.Types})
		if len(b.States) > 0 {
			c.Index = storage.IndexState
		}
		return true, err
	}
	s, ok := e.store.(storage.KindCounter)
	if !ok {
		return false, nil
	}
	kinds, complete, err := s.CountKinds(ctx, b.Types, mostKinds)
	if err != nil || !complete {
		if errors.Is(err, errors.ErrUnsupported) {
			err = nil
		}
		return false, err
	}
	for _, k := range kinds {
		if slices.ContainsFunc(b.Kinds, func(r task.KindRange) bool { return r.Has(k.Kind) }) {
			c.Counts[storage.StateType{State: task.Error, Type: k.Type}] += k.Rows
		}
	}
	c.Index = storage.IndexKind
	return true, nil
}
