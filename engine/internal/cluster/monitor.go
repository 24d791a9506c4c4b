package cluster

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

const (
	// foldEvery is how often the monitor makes the store fold its notes while there are any.
	foldEvery = 5 * time.Second
	// watchEvery is how often it looks at the tasks.
	watchEvery = 30 * time.Second
	// monitorShare limits the time during which it keeps the store busy to one part in monitorShare.
	monitorShare = 50
)

// Monitor looks for tasks that no node runs, and logs facts about all tasks that an operator should
// know, until ctx ends. It is the duty of one node; two that do it at once waste work and log it
// twice. On a store that is a [storage.LiveCounter] it keeps it cheap to count the tasks.
func (k *Cluster) Monitor(ctx context.Context) {
	w := new(watch) // it outlives an interruption, so that nothing is logged twice
	k.Lead(ctx, "monitor", func(ctx context.Context) error {
		defer k.unhandled.Store(nil)
		defer k.depths.Store(nil)
		return k.monitor(ctx, w)
	})
}

func (k *Cluster) monitor(ctx context.Context, w *watch) error {
	counter, _ := k.store.(storage.LiveCounter)
	rest, watched := foldEvery, time.Time{}
	var cost wakeup.Cost
	for {
		begin := time.Now()
		notes := int64(0)
		if counter != nil {
			var err error
			if notes, err = counter.Fold(ctx); err != nil {
				return err
			}
		}
		if begin.Sub(watched) >= watchEvery {
			if err := k.look(ctx, counter, w); err != nil {
				return err
			}
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

// look looks at the tasks once. counter is the store, or nil if the store does not count.
func (k *Cluster) look(ctx context.Context, counter storage.LiveCounter, w *watch) (err error) {
	v := k.view.Load()
	var found []Unhandled
	if counter == nil {
		if found, err = findUnhandled(ctx, k.store, v.isRun); err != nil {
			return fmt.Errorf("look for tasks that no node handles: %w", err)
		}
		k.lookForDepths(ctx, nil)
		if d := k.depths.Load(); d != nil {
			counts := d.errors()
			k.logErrors(w, counts, d.ErrorsCut)
		}
	} else {
		counts, err := counter.Count(ctx, storage.Filter{States: []task.State{task.Waiting, task.Submitted, task.Error}})
		if err != nil {
			return err
		}
		found = unhandledOf(counts, v.isRun)
		k.lookForDepths(ctx, counts)
		k.logErrors(w, counts, false)
	}
	if len(v.members) == 0 {
		return nil // which nodes there are is not known
	}
	if found, err = k.findUnplaced(ctx, v, found); err != nil {
		return fmt.Errorf("look for tasks of values that no node runs: %w", err)
	}
	k.unhandled.Store(&found)
	for _, u := range w.newlyUnhandled(found) {
		k.logUnhandled(u)
	}
	return nil
}

// logErrors logs which types have more tasks in error than before. If isCut, there may be more of them than counted.
func (k *Cluster) logErrors(w *watch, counts map[storage.StateType]int64, isCut bool) {
	kinds := make(map[string]int)
	if d := k.depths.Load(); d != nil {
		for _, t := range d.Types {
			kinds[t.Type] = t.Kinds
		}
	}
	if more := w.moreErrors(counts, kinds, isCut); len(more) > 0 {
		k.log.Warn("tasks have become errors and wait for a person; see why, then resume or fail them", "types", more)
	}
}

func (k *Cluster) logUnhandled(u Unhandled) {
	what, details := "tasks wait that no node handles; start one that does, or cancel them", []any{"type", u.Type, "tasks", u.count()}
	if u.Value != "" {
		k.log.Warn("tasks wait that no live node may run because of their value; start a node that matches, or change the nodes of the value in its limit",
			append(details, "why", u.Value)...)
		return
	}
	if why, isMatched := k.Unplaced(u.Type); why != "" {
		details = append(details, "why", why)
		if !isMatched {
			what = "tasks wait that no live node may run; start a node that matches, or change the nodes of their type"
		}
	}
	k.log.Warn(what, details...)
}

// Unhandled returns the types with ready tasks that no node ran, as this node found them last: within
// the last half minute, unless the store is slow. It returns nil if the duty of Monitor is another
// node's. On a store that does not count its tasks while they change it finds at most a hundred types,
// and counts at most a hundred tasks of each.
func (k *Cluster) Unhandled() []Unhandled {
	if found := k.unhandled.Load(); found != nil {
		return slices.Clone(*found)
	}
	return nil
}

// watch is the result of the last look of the monitor. It belongs to one goroutine.
type watch struct {
	errors    map[string]int64 // tasks in error, by type
	unhandled map[string]bool  // types that had ready tasks and that no node handled, and whether that was logged
}

// moreErrors returns the types with more tasks in error than before, how many, and of how many kinds if there are several, sorted.
func (w *watch) moreErrors(counts map[storage.StateType]int64, kinds map[string]int, isCut bool) (more []string) {
	failed := make(map[string]int64)
	for of, tasks := range counts {
		if of.State != task.Error {
			continue
		}
		failed[of.Type] = tasks
		switch added := tasks - w.errors[of.Type]; {
		case added > 0 && isCut:
			more = append(more, fmt.Sprintf("%s: %d or more", of.Type, tasks))
		case added > 0 && kinds[of.Type] > 1:
			more = append(more, fmt.Sprintf("%s: %d of %d kinds (%d more)", of.Type, tasks, kinds[of.Type], added))
		case added > 0:
			more = append(more, fmt.Sprintf("%s: %d (%d more)", of.Type, tasks, added))
		}
	}
	slices.Sort(more)
	w.errors = failed
	return more
}

// newlyUnhandled returns the types to log. It returns a type once, and not when it is first found: a
// node may be restarting.
func (w *watch) newlyUnhandled(found []Unhandled) (news []Unhandled) {
	unhandled := make(map[string]bool)
	for _, u := range found {
		logged, seen := w.unhandled[u.Type]
		if unhandled[u.Type] = seen; seen && !logged {
			news = append(news, u)
		}
	}
	w.unhandled = unhandled
	return news
}
