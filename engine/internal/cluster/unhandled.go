package cluster

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// Bounds of each read of the monitor from a store that does not count while rows change.
const (
	maxUnhandled = 100 // types that no node handles
	maxCounted   = 100 // ready tasks of each
)

// Unhandled is a type with ready tasks that no node runs.
type Unhandled struct {
	Type  string
	Tasks int64  // how many are ready
	More  bool   // there may be more of them
	Value string // why no node runs the tasks of one value, if nodes run other tasks of the type; else ""
}

// count formats the number of tasks.
func (u Unhandled) count() string {
	if u.More {
		return fmt.Sprintf("%d or more", u.Tasks)
	}
	return fmt.Sprint(u.Tasks)
}

// EachReadyType calls visit with the first queue of each type with ready tasks, in the order of the
// types, until visit returns false or an error. Its cost grows with the number of types, not of tasks.
func EachReadyType(ctx context.Context, store storage.Tasks, visit func(first task.Queue) (more bool, err error)) error {
	for after, more := (task.Queue{}), true; more; {
		queues, err := store.Queues(ctx, after, 1)
		if err != nil || len(queues) == 0 {
			return err
		}
		if more, err = visit(queues[0]); err != nil {
			return err
		}
		after = task.Queue{Type: queues[0].Type + "\x00"} // behind all groups of the type, and before every other type
	}
	return nil
}

// findUnhandled returns the types with ready tasks that no node runs, by name: at most maxUnhandled of
// each store, the first ones.
func findUnhandled(ctx context.Context, store storage.Tasks, isRun func(typ string) bool) (found []Unhandled, err error) {
	err = EachReadyType(ctx, store, func(first task.Queue) (bool, error) {
		if isRun(first.Type) {
			return true, nil
		}
		u, err := countReady(ctx, store, first)
		found = append(found, u)
		return len(found) < maxUnhandled, err
	})
	return found, err
}

// maxValues is how many queues of a type the monitor looks at that has values with nodes of their own.
const maxValues = 10_000

// findUnplaced adds to found the types that nodes run, with the tasks of values that no node runs: of
// each type and each store at most maxCounted tasks, in the first maxValues queues.
func (k *Cluster) findUnplaced(ctx context.Context, v *view, found []Unhandled) ([]Unhandled, error) {
	for _, typ := range slices.Sorted(maps.Keys(k.config.Places)) {
		if !v.isRun(typ) || k.areAllRun(v, typ) {
			continue
		}
		u, err := k.countUnplaced(ctx, v, typ)
		if err != nil {
			return nil, err
		}
		if u.Tasks > 0 {
			found = append(found, u)
		}
	}
	slices.SortFunc(found, func(a, b Unhandled) int { return cmp.Compare(a.Type, b.Type) })
	return found, nil
}

// countUnplaced counts the ready tasks of a type with values that no node runs.
func (k *Cluster) countUnplaced(ctx context.Context, v *view, typ string) (Unhandled, error) {
	u := Unhandled{Type: typ}
	after := task.Queue{Type: typ} // the first queue that there may be
	queues := []task.Queue{after}
	for seen := 0; ; {
		for _, q := range queues {
			if q.Type != typ {
				return u, nil
			}
			if k.isQueueRun(v, q) {
				continue
			}
			page, err := k.store.Ready(ctx, storage.ReadyQuery{Queue: q, Limit: maxCounted - int(u.Tasks)})
			if err != nil {
				return u, err
			}
			if u.Tasks += int64(len(page)); u.Value == "" && len(page) > 0 {
				u.Value = k.unplacedValue(v, q)
			}
			if u.Tasks >= maxCounted {
				u.More = true
				return u, nil
			}
		}
		if seen += len(queues); seen > maxValues {
			u.More = true
			return u, nil
		}
		var err error
		if queues, err = k.store.Queues(ctx, after, pollPage); err != nil || len(queues) == 0 {
			return u, err
		}
		after = queues[len(queues)-1]
	}
}

// areAllRun reports whether nodes run the tasks of all values of a type.
func (k *Cluster) areAllRun(v *view, typ string) bool {
	for _, key := range k.config.Places[typ] {
		if !slices.ContainsFunc(v.members, func(m coord.Member) bool {
			return slices.Contains(m.Handlers, typ) && slices.Contains(m.Selectors, key)
		}) {
			return false
		}
	}
	return true
}

// countReady counts the ready tasks of the type of a queue, which is the first one of the type.
func countReady(ctx context.Context, store storage.Tasks, first task.Queue) (Unhandled, error) {
	u := Unhandled{Type: first.Type}
	for q := first; ; {
		page, err := store.Ready(ctx, storage.ReadyQuery{Queue: q, Limit: maxCounted - int(u.Tasks)})
		if err != nil {
			return u, err
		}
		if u.Tasks += int64(len(page)); u.Tasks >= maxCounted {
			u.More = true
			return u, nil
		}
		next, err := store.Queues(ctx, q, 1)
		if err != nil || len(next) == 0 || next[0].Type != u.Type {
			return u, err
		}
		q = next[0]
	}
}

// unhandledOf returns the types in counts that no node runs, sorted.
func unhandledOf(counts map[storage.StateType]int64, isRun func(typ string) bool) (found []Unhandled) {
	for of, tasks := range counts {
		if of.State == task.Submitted && !isRun(of.Type) {
			found = append(found, Unhandled{Type: of.Type, Tasks: tasks})
		}
	}
	slices.SortFunc(found, func(a, b Unhandled) int { return cmp.Compare(a.Type, b.Type) })
	return found
}
