package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/taskengine/taskengine/bench/pressure/adapter"
	coordination "github.com/taskengine/taskengine/coord/postgres"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/pebble"
	"github.com/taskengine/taskengine/storage/postgres"
	"github.com/taskengine/taskengine/storage/postgres/schema"
	"github.com/taskengine/taskengine/task"
)

// jobType is the type of the jobs.
const jobType = "noop"

// library is a node in this process.
type library struct {
	store    storage.Store
	engine   *engine.Engine
	handle   func([]byte) // set before the node starts a task: the type is paused until then
	begun    chan struct{}
	resource []func() error // closed after the store, in their order
}

// openPostgres opens a node of a cluster on PostgreSQL. It makes the tables if they are missing.
func openPostgres(ctx context.Context, c adapter.Config) (adapter.Queue, error) {
	if _, err := schema.Migrate(ctx, c.Database, ""); err != nil {
		return nil, err
	}
	store, err := postgres.Open(ctx, c.Database, postgres.Options{})
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.New(ctx, c.Database)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("connect to PostgreSQL: %w", err), store.Close())
	}
	closePool := func() error { pool.Close(); return nil }
	coord, err := coordination.New(pool, coordination.Options{})
	if err != nil {
		return nil, errors.Join(err, store.Close(), closePool())
	}
	l := &library{store: store, resource: []func() error{coord.Close, closePool}}
	return l, l.open(ctx, c, func(e *engine.Config) { e.Coordinator = coord.Coordinator() })
}

// openPebble opens a node with a store of its own.
func openPebble(ctx context.Context, c adapter.Config, dir string) (adapter.Queue, error) {
	if dir == "" {
		return nil, errors.New("-through pebble needs -dir, the folder of the store")
	}
	store, err := pebble.Open(filepath.Join(dir, "tasks"), pebble.Options{})
	if err != nil {
		return nil, err
	}
	l := &library{store: store}
	return l, l.open(ctx, c, func(*engine.Config) {})
}

// open opens the engine. On an error it closes the store and the resources of the library.
func (l *library) open(ctx context.Context, c adapter.Config, change func(*engine.Config)) error {
	l.begun = make(chan struct{})
	config := engine.Config{
		Store:    l.store,
		Policies: policy.Set{Slots: max(1, c.Workers), Types: map[string]policy.Type{jobType: policy.DefaultType()}},
	}
	if c.Workers > 0 {
		config.Handlers = map[string]task.Handler{jobType: task.HandlerFunc(func(ctx context.Context, t *task.Task) ([]byte, error) {
			select { // tasks of an earlier process may start before Work
			case <-l.begun:
				l.handle(t.Payload)
				return nil, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		})}
	}
	change(&config)
	var err error
	if l.engine, err = engine.Open(ctx, config); err != nil {
		return errors.Join(err, l.store.Close(), l.release())
	}
	return nil
}

func (l *library) release() (err error) {
	for _, end := range l.resource {
		err = errors.Join(err, end())
	}
	return err
}

// Insert implements adapter.Queue.
func (l *library) Insert(ctx context.Context, payloads [][]byte) error {
	requests := make([]engine.Request, len(payloads))
	for i, b := range payloads {
		requests[i] = engine.Request{Type: jobType, Payload: b}
	}
	_, err := l.engine.Submit(ctx, requests...)
	return err
}

// Work implements adapter.Queue.
func (l *library) Work(_ context.Context, handle func([]byte)) error {
	l.handle = handle
	close(l.begun)
	return nil
}

// Counts implements adapter.Queue.
func (l *library) Counts(ctx context.Context) (adapter.Counts, error) {
	byState, err := l.engine.Count(ctx, storage.Filter{Types: []string{jobType}})
	var c adapter.Counts
	for k, n := range byState {
		switch k.State {
		case task.Done:
			c.Ended += n
		case task.Submitted:
			c.Ready += n
			c.Open += n
		case task.Waiting, task.Processing:
			c.Open += n
		}
	}
	return c, err
}

// Close implements adapter.Queue.
func (l *library) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return errors.Join(l.engine.Close(ctx), l.store.Close(), l.release())
}

// version returns the revision of the source of this program, if it was built from a repository.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return s.Value
			}
		}
	}
	return "of unknown revision"
}
