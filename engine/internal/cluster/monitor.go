package cluster

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/storage"
)

const (
	// foldEvery is how often the monitor makes the store fold its notes while there are any.
	foldEvery = 5 * time.Second
	// watchEvery is how often it counts the tasks.
	watchEvery = 30 * time.Second
	// monitorShare limits the time during which it keeps the store busy to one part in monitorShare.
	monitorShare = 50
)

// Monitor keeps it cheap to count the tasks, and logs what a person should know of all of them,
// until ctx ends. It is the duty of one node; two that do it at once waste work and log it twice.
// Only a store that is a [storage.LiveCounter] needs it: of other stores a count may cost much, and
// Monitor returns at once.
func (k *Cluster) Monitor(ctx context.Context) {
	store, ok := k.store.(storage.LiveCounter)
	if !ok {
		return
	}
	w := new(watch) // it outlives an interruption, so that nothing is logged twice
	k.Lead(ctx, "monitor", func(ctx context.Context) error { return k.monitor(ctx, store, w) })
}

func (k *Cluster) monitor(ctx context.Context, store storage.LiveCounter, w *watch) error {
	rest, watched := foldEvery, time.Time{}
	var cost wakeup.Cost
	for {
		begin := time.Now()
		notes, err := store.Fold(ctx)
		if err != nil {
			return err
		}
		if begin.Sub(watched) >= watchEvery {
			counts, err := store.Count(ctx, storage.Filter{States: []task.State{task.Submitted, task.Error}})
			if err != nil {
				return err
			}
			k.logNews(w.compare(counts, k.view.Load().handles()))
			watched = begin
		}
		if rest = min(2*rest, watchEvery); notes > 0 {
			rest = foldEvery
		}
		if err := wakeup.Sleep(ctx, max(rest, monitorShare*cost.After(time.Since(begin), true))); err != nil {
			return err
		}
	}
}

// handles returns whether a member handles a type; nil if the members are not known.
func (v *view) handles() func(typ string) bool {
	if len(v.members) == 0 {
		return nil
	}
	return func(typ string) bool {
		return slices.ContainsFunc(v.members, func(m coord.Member) bool { return slices.Contains(m.Handlers, typ) })
	}
}

// logNews logs what a person should know.
func (k *Cluster) logNews(n news) {
	if len(n.errors) > 0 {
		k.log.Warn("tasks have become errors and wait for a person; see why, then resume or fail them", "types", n.errors)
	}
	for _, typ := range n.unhandled {
		k.log.Warn("tasks wait that no node handles; start one that does, or cancel them", "type", typ)
	}
}

// watch is what the monitor saw when it last counted. It belongs to one goroutine.
type watch struct {
	errors    map[string]int64 // tasks in error, by type
	unhandled map[string]bool  // types that had ready tasks and that no node handled, and whether that was logged
}

// news is what a person should know, by type and sorted.
type news struct {
	errors    []string // of which more tasks are in error than before, and how many
	unhandled []string // that no node handles
}

// compare compares counts with those before. It names a type that no node handles once, and not
// at the first count: a node may just be starting anew. handled says which types a node handles;
// it is nil if that is not known.
func (w *watch) compare(counts map[storage.StateType]int64, handled func(typ string) bool) (n news) {
	failed, unhandled := make(map[string]int64), make(map[string]bool)
	for of, tasks := range counts {
		switch {
		case of.State == task.Error:
			failed[of.Type] = tasks
			if more := tasks - w.errors[of.Type]; more > 0 {
				n.errors = append(n.errors, fmt.Sprintf("%s: %d (%d more)", of.Type, tasks, more))
			}
		case of.State == task.Submitted && handled != nil && !handled(of.Type):
			logged, seen := w.unhandled[of.Type]
			if unhandled[of.Type] = seen; seen && !logged {
				n.unhandled = append(n.unhandled, of.Type)
			}
		}
	}
	slices.Sort(n.errors)
	slices.Sort(n.unhandled)
	w.errors = failed
	if handled != nil {
		w.unhandled = unhandled
	}
	return n
}
