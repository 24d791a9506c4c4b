package bench

import (
	"context"
	"os"
	"time"

	"github.com/taskengine/taskengine/internal/machine"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// inspected is a store with all optional interfaces that the engine uses.
type inspected interface {
	storage.Store
	storage.Inspector
	storage.Settings
}

// slow returns a store with commits that take d longer, as on a slow disk: the store waits after the
// commit and before it returns.
func slow(s storage.Store, d time.Duration) storage.Store {
	if full, ok := s.(inspected); ok {
		return &slowStore{full, d}
	}
	return &slowTasks{s, d}
}

type slowStore struct {
	inspected
	delay time.Duration
}

// Update implements [storage.Store].
func (s *slowStore) Update(ctx context.Context, fn func(storage.Tx) error) error {
	return slowly(ctx, s.inspected, s.delay, fn)
}

// Insert implements [storage.Tasks].
func (s *slowStore) Insert(ctx context.Context, ts ...*task.Task) ([]storage.Inserted, error) {
	defer machine.Pause(s.delay)
	return s.inspected.Insert(ctx, ts...)
}

// Swap implements [storage.Tasks].
func (s *slowStore) Swap(ctx context.Context, cs ...task.Change) ([]*task.Task, error) {
	defer machine.Pause(s.delay)
	return s.inspected.Swap(ctx, cs...)
}

// Note implements [storage.Tasks].
func (s *slowStore) Note(ctx context.Context, ns ...task.Note) ([]bool, error) {
	defer machine.Pause(s.delay)
	return s.inspected.Note(ctx, ns...)
}

// slowTasks is slowStore for a store without optional interfaces.
type slowTasks struct {
	storage.Store
	delay time.Duration
}

// Update implements [storage.Store].
func (s *slowTasks) Update(ctx context.Context, fn func(storage.Tx) error) error {
	return slowly(ctx, s.Store, s.delay, fn)
}

// Commit implements [storage.Store].
func (s *slowStore) Commit(ctx context.Context, b *storage.Batch) storage.Commit {
	return slowCommit{s.inspected.Commit(ctx, b), s.delay}
}

// Commit implements [storage.Store].
func (s *slowTasks) Commit(ctx context.Context, b *storage.Batch) storage.Commit {
	return slowCommit{s.Store.Commit(ctx, b), s.delay}
}

// slowCommit is a commit that reports its end late.
type slowCommit struct {
	storage.Commit
	delay time.Duration
}

// Wait implements [storage.Commit].
func (c slowCommit) Wait() (storage.Outcome, error) {
	out, err := c.Commit.Wait()
	if err == nil {
		machine.Pause(c.delay)
	}
	return out, err
}

// slowly commits, waits, and then runs the hooks of the commit.
func slowly(ctx context.Context, s storage.Store, d time.Duration, fn func(storage.Tx) error) error {
	var held *heldTx
	err := s.Update(ctx, func(tx storage.Tx) error {
		held = &heldTx{Tx: tx}
		return fn(held)
	})
	if err != nil {
		return err
	}
	machine.Pause(d)
	for _, hook := range held.hooks {
		hook()
	}
	return nil
}

// heldTx delays the hooks of a transaction.
type heldTx struct {
	storage.Tx
	hooks []func()
}

// OnCommit implements [storage.Tx].
func (t *heldTx) OnCommit(fn func()) { t.hooks = append(t.hooks, fn) }

// killPlugins kills the processes of the handlers at intervals until ctx ends.
func (rep *repetition) killPlugins(ctx context.Context) {
	for sleep(ctx, rep.s.Faults.KillPlugin) == nil {
		for _, pid := range rep.handlers.pids() {
			p, err := os.FindProcess(pid)
			if err == nil {
				err = p.Kill()
			}
			if err != nil {
				continue // it has ended already
			}
			rep.noteKill()
		}
	}
}
