package engine

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// Bounds of [Engine.KnowsType].
const (
	begunFor      = 10 * time.Second       // how long an answer of the store is used again
	begunPatience = 500 * time.Millisecond // how long the store may take
	begunTypes    = 100                    // types whose answer is kept
	begunTasks    = 20                     // tasks of the type that are looked at
	begunScan     = 2000                   // rows that are read to find them
)

// begun has the answers of the store about types that are neither configured here nor announced by a live node.
type begun struct {
	mu    sync.Mutex
	types map[string]begunType // guarded by mu; at most begunTypes
}

// begunType says whether an attempt of a type has begun before a time.
type begunType struct {
	at  time.Time
	has bool
}

// KnowsType reports whether a node can be expected to run tasks of a type: it is configured on this node, a live
// node announces it, or a task of the type, among the newest of the store, has begun an attempt. It returns true if that
// cannot be found out: while the live nodes are not known, and if the store cannot say it within half a second. An answer
// of the store is used for ten seconds.
func (e *Engine) KnowsType(ctx context.Context, typ string) bool {
	if _, ok := e.catalog.types[typ]; ok || task.IsReservedType(typ) || e.cluster.IsRun(typ) {
		return true
	}
	return e.begun.has(typ, e.Now(), func() bool { return e.hasBegun(ctx, typ) })
}

// has returns the known answer about a type, and calls find if that is too old.
func (b *begun) has(typ string, now time.Time, find func() bool) bool {
	b.mu.Lock()
	known, ok := b.types[typ]
	isFull := !ok && len(b.types) >= begunTypes
	b.mu.Unlock()
	if ok && now.Sub(known.at).Abs() < begunFor {
		return known.has
	}
	if isFull && !b.forget(now) {
		return true
	}
	known = begunType{now, find()}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.types == nil {
		b.types = make(map[string]begunType)
	}
	b.types[typ] = known
	return known.has
}

// forget removes answers that are too old, and reports whether there were any.
func (b *begun) forget(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := len(b.types)
	for typ, known := range b.types {
		if now.Sub(known.at).Abs() >= begunFor {
			delete(b.types, typ)
		}
	}
	return len(b.types) < before
}

// hasBegun looks in the store for tasks of a type that have begun an attempt.
func (e *Engine) hasBegun(ctx context.Context, typ string) bool {
	s, ok := e.store.(storage.Inspector)
	if !ok {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, begunPatience)
	defer cancel()
	for _, states := range [][]task.State{{task.Waiting, task.Processing, task.Error}, {task.Done, task.Failed, task.Cancelled}} {
		f := storage.Filter{States: states, Types: []string{typ}}
		found, _, err := s.List(ctx, f, task.ID{}, begunTasks, begunScan)
		if err != nil || slices.ContainsFunc(found, func(t *task.Task) bool { return t.Attempt > 0 }) {
			return true
		}
	}
	return false
}

// KnownTypes returns the types that are configured on this node and the types that live nodes announce, sorted.
func (e *Engine) KnownTypes() []string {
	names := e.cluster.AnnouncedTypes()
	for name := range e.catalog.types {
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
