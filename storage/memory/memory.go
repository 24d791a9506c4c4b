// Package memory keeps tasks in memory, for tests and experiments: nothing outlives the process.
// It is also the reference that other stores are compared with, so its code is simple rather
// than fast: a query reads all rows, all rows of an ordering key, or all ready rows.
package memory

import (
	"context"
	"fmt"
	"sync"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// Store is a [storage.Store] in memory. It implements [storage.Inspector],
// [storage.KeyInspector], [storage.KeyFinder], [storage.NoSyncer], [storage.Settings], [storage.LogKeeper] and [storage.Shared] too. Make one with [New].
type Store struct {
	mu       sync.RWMutex
	rows     map[task.ID]*task.Task         // guarded by mu; a row is replaced, never changed
	keys     map[key]task.ID                // guarded by mu: the task of each unique key
	orders   groups[string]                 // guarded by mu: the rows that are the Head of an ordering key or Behind it
	queued   groups[task.Queue]             // guarded by mu: the ready rows of each queue
	searched groups[task.SearchValue]       // guarded by mu: the rows that have each search value
	settings map[string][]byte              // guarded by mu
	logs     map[task.ID][]storage.LogPiece // guarded by mu: none is empty
	seq      uint64                         // guarded by mu: the newest one in use
	closed   bool                           // guarded by mu
}

// key is a unique key: no two rows may have the same one.
type key struct{ typ, order, key string }

func keyOf(t *task.Task) key { return key{t.Type, t.OrderingKey, t.Key} }

// groups is rows by something that several of them may share.
type groups[K comparable] map[K]map[task.ID]*task.Task

func (g groups[K]) add(k K, t *task.Task) {
	if g[k] == nil {
		g[k] = make(map[task.ID]*task.Task)
	}
	g[k][t.ID] = t
}

func (g groups[K]) remove(k K, id task.ID) {
	if delete(g[k], id); len(g[k]) == 0 {
		delete(g, k)
	}
}

var (
	_ storage.Store        = (*Store)(nil)
	_ storage.Inspector    = (*Store)(nil)
	_ storage.KeyInspector = (*Store)(nil)
	_ storage.KeyFinder    = (*Store)(nil)
	_ storage.NoSyncer     = (*Store)(nil)
	_ storage.Settings     = (*Store)(nil)
	_ storage.Shared       = (*Store)(nil)
	_ storage.LogKeeper    = (*Store)(nil)
)

// New returns an empty store.
func New() *Store {
	return &Store{
		rows: make(map[task.ID]*task.Task), keys: make(map[key]task.ID), settings: make(map[string][]byte), logs: make(map[task.ID][]storage.LogPiece),
		orders: make(groups[string]), queued: make(groups[task.Queue]), searched: make(groups[task.SearchValue]),
	}
}

// Close implements [storage.Store].
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

// Update implements [storage.Store].
func (s *Store) Update(ctx context.Context, fn func(storage.Tx) error) error {
	hooks, err := s.transact(ctx, fn)
	if err != nil {
		return err
	}
	for _, hook := range hooks {
		hook()
	}
	return nil
}

// Commit implements [storage.Store].
func (s *Store) Commit(ctx context.Context, b *storage.Batch) storage.Commit {
	return storage.CommitIn(ctx, s.Update, b)
}

// UpdateNoSync implements [storage.NoSyncer]: here nothing is ever durable.
func (s *Store) UpdateNoSync(ctx context.Context, fn func(storage.Tx) error) error {
	return s.Update(ctx, fn)
}

func (s *Store) transact(ctx context.Context, fn func(storage.Tx) error) (hooks []func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	x := &tx{s: s, before: make(map[task.ID]*task.Task)}
	committed := false
	defer func() {
		x.done = true
		if !committed { // fn failed or panicked
			x.undo()
		}
	}()
	if err := fn(x); err != nil {
		return nil, err
	}
	if x.err != nil {
		return nil, x.err
	}
	committed = true
	return x.hooks, nil
}

// usable returns the error of a store that cannot be used. It is called with mu held.
func (s *Store) usable(ctx context.Context) error {
	if s.closed {
		return fmt.Errorf("memory: %w", storage.ErrClosed)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("memory: %w", err)
	}
	return nil
}

// update runs one verb as a transaction of its own.
func update[T any](ctx context.Context, s *Store, verb func(storage.Tx) (T, error)) (out T, err error) {
	err = s.Update(ctx, func(tx storage.Tx) (err error) {
		out, err = verb(tx)
		return err
	})
	return out, err
}

// view runs one query, during which there is no write.
func view[T any](ctx context.Context, s *Store, query func() (T, error)) (out T, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.usable(ctx); err != nil {
		return out, err
	}
	return query()
}

// Insert implements [storage.Tasks].
func (s *Store) Insert(ctx context.Context, ts ...*task.Task) ([]storage.Inserted, error) {
	return update(ctx, s, func(tx storage.Tx) ([]storage.Inserted, error) { return tx.Insert(ctx, ts...) })
}

// Swap implements [storage.Tasks].
func (s *Store) Swap(ctx context.Context, cs ...task.Change) ([]*task.Task, error) {
	return update(ctx, s, func(tx storage.Tx) ([]*task.Task, error) { return tx.Swap(ctx, cs...) })
}

// Note implements [storage.Tasks].
func (s *Store) Note(ctx context.Context, ns ...task.Note) ([]bool, error) {
	return update(ctx, s, func(tx storage.Tx) ([]bool, error) { return tx.Note(ctx, ns...) })
}

// Delete implements [storage.Tasks].
func (s *Store) Delete(ctx context.Context, rs ...task.Ref) ([]bool, error) {
	return update(ctx, s, func(tx storage.Tx) ([]bool, error) { return tx.Delete(ctx, rs...) })
}

// holder returns the ID of the row that has the ID or the unique key of t, or zero. It is called with mu held.
func (s *Store) holder(t *task.Task) task.ID {
	if _, found := s.rows[t.ID]; found {
		return t.ID
	}
	if t.Key == "" {
		return task.ID{}
	}
	return s.keys[keyOf(t)]
}

// existing is called with mu held.
func (s *Store) existing(ts []*task.Task) []task.ID {
	out := make([]task.ID, len(ts))
	for i, t := range ts {
		out[i] = s.holder(t)
	}
	return out
}

// Existing implements [storage.Tasks].
func (s *Store) Existing(ctx context.Context, ts ...*task.Task) ([]task.ID, error) {
	return view(ctx, s, func() ([]task.ID, error) { return s.existing(ts), nil })
}

// Get implements [storage.Tasks].
func (s *Store) Get(ctx context.Context, id task.ID) (*task.Task, error) {
	return view(ctx, s, func() (*task.Task, error) { return s.get(id) })
}

// Due implements [storage.Tasks].
func (s *Store) Due(ctx context.Context, q storage.DueQuery) ([]storage.Due, error) {
	return view(ctx, s, func() ([]storage.Due, error) { return s.due(q), nil })
}

// Ready implements [storage.Tasks].
func (s *Store) Ready(ctx context.Context, q storage.ReadyQuery) ([]task.Trigger, error) {
	return view(ctx, s, func() ([]task.Trigger, error) { return s.ready(q), nil })
}

// Queues implements [storage.Tasks].
func (s *Store) Queues(ctx context.Context, after task.Queue, limit int) ([]task.Queue, error) {
	return view(ctx, s, func() ([]task.Queue, error) { return s.queues(after, limit), nil })
}
