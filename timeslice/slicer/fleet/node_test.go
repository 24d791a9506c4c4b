//go:build !race

package fleet

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/taskengine/taskengine/coord/local"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/timeslice"
	"github.com/taskengine/taskengine/timeslice/slicer"
)

// threads is how many slices of a platform run at once.
const threads = 3

// node is an engine with the source orders, from its start until it is closed or killed.
type node struct {
	f       *fleet
	name    string
	coord   *local.Node
	engine  *engine.Engine
	sources *slicer.Sources
	isDead  atomic.Bool
	gone    chan struct{} // closed when it is dead
	stop    func()        // ends its watch of the clock
}

// open starts a node.
func (f *fleet) open() {
	f.born++
	n := &node{f: f, name: fmt.Sprint("n", f.born), coord: f.first.Peer(), gone: make(chan struct{})}
	var err error
	if n.sources, err = slicer.New(slicer.Config{Sources: map[string]timeslice.Definition{"orders": f.definition()}}); err != nil {
		f.t.Fatal(err)
	}
	handlers, set := n.sources.Handlers(), policy.Set{Types: n.sources.Policies(), Limits: make(map[string]policy.Limit)}
	p := slicer.SlicePolicy(policy.DefaultType())
	p.MaxCrashes, p.Limits = 0, []string{"threads"}
	p.Retention = policy.Retention{Done: 20 * time.Minute, Failed: time.Hour, Cancelled: time.Hour}
	set.Limits["threads"] = policy.Limit{Name: "threads", Per: "headers." + timeslice.Header, Max: threads, Cluster: true}
	handlers["fetch"], set.Types["fetch"] = slicer.Handler(task.HandlerFunc(n.fetch)), p
	c := engine.Config{Store: &link{Store: f.store, n: n}, Handlers: handlers, Policies: set, Name: n.name, Coordinator: n.coord.Coordinator()}
	c.Coordinator.Clock = f
	f.eventually("open "+n.name, func(ctx context.Context) (err error) {
		n.engine, err = engine.Open(ctx, c)
		return err
	})
	f.eventually("apply "+n.name, func(ctx context.Context) error { return n.sources.Apply(ctx, n.engine) })
	f.eventually("add the platforms of "+n.name, func(ctx context.Context) error {
		for _, s := range f.all() {
			if s.due.IsZero() {
				if _, err := n.sources.Get(ctx, n.engine, timeslice.Platform{Source: "orders", Name: s.name}); err != nil {
					return err
				}
			}
		}
		return nil
	})
	f.added()
	watched := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		n.sources.Watch(ctx, n.engine)
		close(watched)
	}()
	n.stop = func() { cancel(); <-watched }
	f.nodes = append(f.nodes, n)
	f.say("%s is open", n.name)
}

// end closes a node, or kills it.
func (f *fleet) end(n *node, isClosed bool) {
	f.nodes = slices.DeleteFunc(f.nodes, func(one *node) bool { return one == n })
	patience := time.Duration(0)
	f.disturb()
	if isClosed {
		f.say("%s is closed", n.name)
		patience = f.span(0, time.Minute)
	} else {
		f.say("%s is killed", n.name)
		n.isDead.Store(true)
		close(n.gone)
		_ = n.coord.Close()
	}
	n.stop()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_ = n.engine.Close(ctx)
	if isClosed {
		n.isDead.Store(true)
		close(n.gone)
		_ = n.coord.Close()
	}
	f.disturb()
}

// link is the store of a node. Its calls fail while the store is away and when the node is dead.
type link struct {
	*memory.Store
	n *node
}

// reach returns why a call does not reach the store.
func (l *link) reach() error {
	switch {
	case l.n.isDead.Load():
		return fmt.Errorf("the node was killed: %w", storage.ErrBroken)
	case l.n.f.away.Load():
		return fmt.Errorf("the store is away: %w", storage.ErrUnavailable)
	}
	return nil
}

// read makes a call that reads.
func read[T any](l *link, do func() (T, error)) (T, error) {
	if err := l.reach(); err != nil {
		var none T
		return none, err
	}
	return do()
}

// Update implements [storage.Store].
func (l *link) Update(ctx context.Context, fn func(storage.Tx) error) error {
	if err := l.reach(); err != nil {
		return err
	}
	if err := l.Store.Update(ctx, fn); err != nil {
		return err
	}
	if l.n.f.lossy.Load() && l.n.f.roll(4) == 0 {
		return fmt.Errorf("the answer was lost: %w", storage.ErrUnavailable)
	}
	return nil
}

// UpdateNoSync implements [storage.NoSyncer].
func (l *link) UpdateNoSync(ctx context.Context, fn func(storage.Tx) error) error {
	return l.Update(ctx, fn)
}

// Commit implements [storage.Store].
func (l *link) Commit(ctx context.Context, b *storage.Batch) storage.Commit {
	return storage.CommitLaterIn(ctx, l.Update, b)
}

func (l *link) Insert(ctx context.Context, ts ...*task.Task) ([]storage.Inserted, error) {
	return read(l, func() ([]storage.Inserted, error) { return l.Store.Insert(ctx, ts...) })
}

func (l *link) Swap(ctx context.Context, cs ...task.Change) ([]*task.Task, error) {
	return read(l, func() ([]*task.Task, error) { return l.Store.Swap(ctx, cs...) })
}

func (l *link) Note(ctx context.Context, ns ...task.Note) ([]bool, error) {
	return read(l, func() ([]bool, error) { return l.Store.Note(ctx, ns...) })
}

func (l *link) Delete(ctx context.Context, rs ...task.Ref) ([]bool, error) {
	return read(l, func() ([]bool, error) { return l.Store.Delete(ctx, rs...) })
}

func (l *link) Get(ctx context.Context, id task.ID) (*task.Task, error) {
	return read(l, func() (*task.Task, error) { return l.Store.Get(ctx, id) })
}

func (l *link) Due(ctx context.Context, q storage.DueQuery) ([]storage.Due, error) {
	return read(l, func() ([]storage.Due, error) { return l.Store.Due(ctx, q) })
}

func (l *link) Ready(ctx context.Context, q storage.ReadyQuery) ([]task.Trigger, error) {
	return read(l, func() ([]task.Trigger, error) { return l.Store.Ready(ctx, q) })
}

func (l *link) Queues(ctx context.Context, after task.Queue, limit int) ([]task.Queue, error) {
	return read(l, func() ([]task.Queue, error) { return l.Store.Queues(ctx, after, limit) })
}
