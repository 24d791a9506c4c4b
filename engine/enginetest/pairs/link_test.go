package pairs

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

// errCut is the answer of a part that cannot be reached.
var errCut = fmt.Errorf("the network is cut: %w", storage.ErrUnavailable)

// link is a network to something in this process.
type link struct {
	mu    sync.Mutex
	whole chan struct{} // guarded by mu: closed while the link is whole
	cut   chan struct{} // guarded by mu: closed while it is cut
}

func newLink() *link {
	l := &link{whole: make(chan struct{}), cut: make(chan struct{})}
	close(l.whole)
	return l
}

// Cut implements [enginetest.Link].
func (l *link) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isWhole() {
		close(l.cut)
		l.whole = make(chan struct{})
	}
}

// Heal implements [enginetest.Link].
func (l *link) Heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.isWhole() {
		close(l.whole)
		l.cut = make(chan struct{})
	}
}

// isWhole is called with mu held.
func (l *link) isWhole() bool {
	select {
	case <-l.whole:
		return true
	default:
		return false
	}
}

// err returns an error while the link is cut.
func (l *link) err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isWhole() {
		return nil
	}
	return errCut
}

// wait waits until the link is whole.
func (l *link) wait(ctx context.Context) error {
	l.mu.Lock()
	whole := l.whole
	l.mu.Unlock()
	select {
	case <-whole:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// hold makes a call that goes on until ctx ends or the link is cut.
func (l *link) hold(ctx context.Context, call func(context.Context) error) error {
	l.mu.Lock()
	cut, isWhole := l.cut, l.isWhole()
	l.mu.Unlock()
	if !isWhole {
		return errCut
	}
	held, end := context.WithCancel(ctx)
	defer end()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-cut:
			end()
		case <-held.Done():
		}
	}()
	err := call(held)
	end()
	<-watched
	if ctx.Err() == nil && l.err() != nil {
		return errCut
	}
	return err
}

// linked is a store in memory behind a link.
type linked struct {
	*memory.Store
	link   *link
	closed atomic.Bool
}

// err returns an error if the store cannot be used.
func (l *linked) err() error {
	if l.closed.Load() {
		return storage.ErrClosed
	}
	return l.link.err()
}

// reach makes a call unless the link is cut.
func reach[T any](l *linked, call func() (T, error)) (none T, err error) {
	if err := l.err(); err != nil {
		return none, err
	}
	return call()
}

// Close implements [storage.Store]. Others go on to use the store.
func (l *linked) Close() error {
	l.closed.Store(true)
	return nil
}

// Update implements [storage.Store].
func (l *linked) Update(ctx context.Context, fn func(storage.Tx) error) error {
	_, err := reach(l, func() (struct{}, error) { return struct{}{}, l.Store.Update(ctx, fn) })
	return err
}

// UpdateNoSync implements [storage.NoSyncer].
func (l *linked) UpdateNoSync(ctx context.Context, fn func(storage.Tx) error) error {
	return l.Update(ctx, fn)
}

// Commit implements [storage.Store].
func (l *linked) Commit(ctx context.Context, b *storage.Batch) storage.Commit {
	return storage.CommitIn(ctx, l.Update, b)
}

// Get implements [storage.Tasks].
func (l *linked) Get(ctx context.Context, id task.ID) (*task.Task, error) {
	return reach(l, func() (*task.Task, error) { return l.Store.Get(ctx, id) })
}

// Insert implements [storage.Tasks].
func (l *linked) Insert(ctx context.Context, ts ...*task.Task) ([]storage.Inserted, error) {
	return reach(l, func() ([]storage.Inserted, error) { return l.Store.Insert(ctx, ts...) })
}

// Swap implements [storage.Tasks].
func (l *linked) Swap(ctx context.Context, cs ...task.Change) ([]*task.Task, error) {
	return reach(l, func() ([]*task.Task, error) { return l.Store.Swap(ctx, cs...) })
}

// Note implements [storage.Tasks].
func (l *linked) Note(ctx context.Context, ns ...task.Note) ([]bool, error) {
	return reach(l, func() ([]bool, error) { return l.Store.Note(ctx, ns...) })
}

// Delete implements [storage.Tasks].
func (l *linked) Delete(ctx context.Context, rs ...task.Ref) ([]bool, error) {
	return reach(l, func() ([]bool, error) { return l.Store.Delete(ctx, rs...) })
}

// Due implements [storage.Tasks].
func (l *linked) Due(ctx context.Context, q storage.DueQuery) ([]storage.Due, error) {
	return reach(l, func() ([]storage.Due, error) { return l.Store.Due(ctx, q) })
}

// Ready implements [storage.Tasks].
func (l *linked) Ready(ctx context.Context, q storage.ReadyQuery) ([]task.Trigger, error) {
	return reach(l, func() ([]task.Trigger, error) { return l.Store.Ready(ctx, q) })
}

// Queues implements [storage.Tasks].
func (l *linked) Queues(ctx context.Context, after task.Queue, limit int) ([]task.Queue, error) {
	return reach(l, func() ([]task.Queue, error) { return l.Store.Queues(ctx, after, limit) })
}

// Unclaimed implements [storage.Shared].
func (l *linked) Unclaimed(ctx context.Context, q storage.UnclaimedQuery) (storage.UnclaimedPage, error) {
	return reach(l, func() (storage.UnclaimedPage, error) { return l.Store.Unclaimed(ctx, q) })
}

// Submitted implements [storage.Shared].
func (l *linked) Submitted(ctx context.Context, q storage.SubmittedQuery) (page []task.Hint, next storage.Cursor, err error) {
	if err := l.err(); err != nil {
		return nil, storage.Cursor{}, err
	}
	return l.Store.Submitted(ctx, q)
}

// Orphans implements [storage.Shared].
func (l *linked) Orphans(ctx context.Context, alive []task.ID, after task.ID, scan int) ([]*task.Task, task.ID, error) {
	if err := l.err(); err != nil {
		return nil, task.ID{}, err
	}
	return l.Store.Orphans(ctx, alive, after, scan)
}

// Outdated implements [storage.Shared].
func (l *linked) Outdated(ctx context.Context, owner task.ID, refs ...task.Ref) ([]bool, error) {
	return reach(l, func() ([]bool, error) { return l.Store.Outdated(ctx, owner, refs...) })
}

// Setting implements [storage.Settings].
func (l *linked) Setting(ctx context.Context, name string) ([]byte, error) {
	return reach(l, func() ([]byte, error) { return l.Store.Setting(ctx, name) })
}

// SwapSetting implements [storage.Shared].
func (l *linked) SwapSetting(ctx context.Context, name string, old, value []byte) (bool, error) {
	return reach(l, func() (bool, error) { return l.Store.SwapSetting(ctx, name, old, value) })
}
