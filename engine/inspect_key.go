package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// Bounds of what [Engine.Keys] reads.
const (
	keyScan  = 10_000 // ordering keys for one page
	keyCount = 1_000  // tasks behind the head of each
)

// Keys returns the ordering keys that q selects and that have a task in their order, in the order of the keys,
// at most q.Limit. Of each it counts at most 1000 tasks behind the head, and says
// whether there are more. q.Scan and q.Count are ignored. A page may be short, or empty, before the
// end.
func (e *Engine) Keys(ctx context.Context, q storage.KeyQuery) (storage.KeyPage, error) {
	s, err := e.keyInspector()
	if err != nil {
		return storage.KeyPage{}, err
	}
	q.Scan, q.Count = keyScan, keyCount
	page, err := s.ListKeys(ctx, q)
	return page, unsupported(err)
}

// Key returns the head of an ordering key, and the tasks behind it in the order in which they run, without payload
// and result: the tasks behind a seat (nil: from the first), at most limit. It returns [task.ErrNotFound]
// if no task of the key takes part in the order.
func (e *Engine) Key(ctx context.Context, key string, after *task.Seat, limit int) (storage.KeyRows, error) {
	if key == "" || len(key) > MaxKey {
		return storage.KeyRows{}, fmt.Errorf("%w: an ordering key has 1 to %d bytes", ErrInvalid, MaxKey)
	}
	s, err := e.keyInspector()
	if err != nil {
		return storage.KeyRows{}, err
	}
	rows, err := s.ListKey(ctx, key, after, limit)
	if err == nil && rows.Head == nil && len(rows.Behind) == 0 && !rows.More && after == nil {
		err = fmt.Errorf("no task of the ordering key %q is running or waits: %w", key, task.ErrNotFound)
	}
	return rows, unsupported(err)
}

func (e *Engine) keyInspector() (storage.KeyInspector, error) {
	if s, ok := e.store.(storage.KeyInspector); ok {
		return s, nil
	}
	return nil, ErrUnsupported
}

// unsupported makes an error of a store of places an error of the engine.
func unsupported(err error) error {
	if errors.Is(err, errors.ErrUnsupported) {
		return fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	return err
}

// errNotStopped says that the head of an ordering key is no error.
func errNotStopped(head *task.Task) error {
	if head == nil {
		return fmt.Errorf("%w: the key has no head, because its first task waits for its time", ErrNotAllowed)
	}
	return fmt.Errorf("%w: its head, task %v, is %v; only a head in the state error is resumed or skipped", ErrNotAllowed, head.ID, head.State)
}

// ResumeKey resumes the head of an ordering key that is stopped by an error. If the head is no error, it changes
// nothing and returns [ErrNotAllowed].
func (e *Engine) ResumeKey(ctx context.Context, key string) (*task.Task, error) {
	return e.editHead(ctx, key, e.Resume)
}

// SkipKey fails the head of an ordering key that is stopped by an error, so that the next task runs. If the head is
// no error, it changes nothing and returns [ErrNotAllowed].
func (e *Engine) SkipKey(ctx context.Context, key, reason string) (*task.Task, error) {
	return e.editHead(ctx, key, func(ctx context.Context, ref task.Ref) (*task.Task, error) { return e.Fail(ctx, ref, reason) })
}

// editHead changes the head of a key if it is an error at the version that was read.
func (e *Engine) editHead(ctx context.Context, key string, edit func(context.Context, task.Ref) (*task.Task, error)) (*task.Task, error) {
	rows, err := e.Key(ctx, key, nil, 0)
	if err != nil {
		return nil, err
	}
	if rows.Head == nil || rows.Head.State != task.Error {
		return nil, errNotStopped(rows.Head)
	}
	return edit(ctx, rows.Head.Ref())
}

// Bounds of [Engine.KnowsType].
const (
	begunFor      = 10 * time.Second       // how long an answer of the store is used again
	begunPatience = 500 * time.Millisecond // how long the store may take
	begunTypes    = 100                    // the most types with a kept answer
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
	if _, ok := e.catalog.rules().types[typ]; ok || task.IsReservedType(typ) || e.cluster.IsRun(typ) {
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
		page, err := s.List(ctx, storage.ListQuery{Filter: f, Limit: begunTasks, Scan: begunScan})
		if err != nil || slices.ContainsFunc(page.Tasks, func(t *task.Task) bool { return t.Attempt > 0 }) {
			return true
		}
	}
	return false
}

// KnownTypes returns the types that are configured on this node and the types that live nodes announce, sorted.
func (e *Engine) KnownTypes() []string {
	names := e.cluster.AnnouncedTypes()
	for name := range e.catalog.rules().types {
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
