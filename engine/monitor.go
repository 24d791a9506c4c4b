package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/storage"
)

const (
	// foldEvery is how often the monitor has the store fold its notes while there are any.
	foldEvery = 5 * time.Second
	// watchEvery is how often it looks at how many tasks there are.
	watchEvery = 30 * time.Second
	// monitorShare is what part of the time it keeps the store busy at most.
	monitorShare = 50
)

// monitor keeps it cheap to count the tasks, and tells people what they should know of all
// of them. It is the duty of one node; two doing it at once waste work and tell it twice.
// Only stores have one whose counts cost little.
func (e *Engine) monitor(ctx context.Context, store storage.Tallier, w *watch) error {
	rest, watched := foldEvery, time.Time{}
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
			e.tell(w.look(counts, e.handledAnywhere()))
			watched = begin
		}
		if rest = min(2*rest, watchEvery); notes > 0 {
			rest = foldEvery
		}
		if err := sleep(ctx, max(rest, monitorShare*time.Since(begin))); err != nil {
			return err
		}
	}
}

// handledAnywhere returns who handles a type; nil if this node does not know the others.
func (e *Engine) handledAnywhere() func(typ string) bool {
	if e.config.Membership == nil {
		return func(typ string) bool { return e.config.Handlers[typ] != nil }
	}
	members := e.Members()
	if len(members) == 0 {
		return nil
	}
	return func(typ string) bool {
		return slices.ContainsFunc(members, func(m coord.Member) bool { return slices.Contains(m.Handlers, typ) })
	}
}

// tell logs what is new.
func (e *Engine) tell(news news) {
	if len(news.errors) > 0 {
		e.log.Warn("tasks have become errors and wait for a person; see why, then resume or fail them", "types", news.errors)
	}
	for _, typ := range news.unhandled {
		e.log.Warn("tasks wait that no node handles; start one that does, or cancel them", "type", typ)
	}
}

// watch is what the monitor saw when it last looked.
type watch struct {
	errors    map[string]int64 // tasks in error, by type
	unhandled map[string]bool  // types that had ready tasks and that nobody handled, and whether that was told
}

// news is what people should know, by type and sorted.
type news struct {
	errors    []string // of which there are more tasks in error than before, and how many
	unhandled []string // that nobody handles
}

// look compares counts with those before. It says once of a type that nobody handles it,
// and not at the first look: a node may just be starting anew. handled says who does, nil
// if that is not known.
func (w *watch) look(counts map[storage.StateType]int64, handled func(typ string) bool) (n news) {
	failed, unhandled := make(map[string]int64), make(map[string]bool)
	for what, tasks := range counts {
		switch {
		case what.State == task.Error:
			failed[what.Type] = tasks
			if more := tasks - w.errors[what.Type]; more > 0 {
				n.errors = append(n.errors, fmt.Sprintf("%s: %d (%d more)", what.Type, tasks, more))
			}
		case what.State == task.Submitted && handled != nil && !handled(what.Type):
			told, seen := w.unhandled[what.Type]
			if unhandled[what.Type] = seen; seen && !told {
				n.unhandled = append(n.unhandled, what.Type)
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
