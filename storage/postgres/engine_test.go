package postgres_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	coordination "github.com/taskengine/taskengine/coord/postgres"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage/postgres"
	"github.com/taskengine/taskengine/storage/postgres/postgrestest"
	"github.com/taskengine/taskengine/task"
)

// node is an engine on a database, with a store of its own.
type node struct {
	*engine.Engine
	store *postgres.Store
	t     *testing.T

	mu  sync.Mutex
	ran map[task.ID]int // guarded by mu: how often a task's handler began
}

type work = func(ctx context.Context, n *node, t *task.Task) ([]byte, error)

// alone starts a node that is the only one. It does not poll, so it finds only tasks that are reported
// to it.
func alone(t *testing.T, url string, set policy.Set, do map[string]work) *node {
	return start(t, url, set, do, false)
}

// join starts a node of a cluster.
func join(t *testing.T, url string, set policy.Set, do map[string]work) *node {
	return start(t, url, set, do, true)
}

// joinWith is join with a lease.
func joinWith(t *testing.T, url string, set policy.Set, do map[string]work, lease time.Duration) *node {
	return startWith(t, url, set, do, true, lease)
}

func start(t *testing.T, url string, set policy.Set, do map[string]work, clustered bool) *node {
	return startWith(t, url, set, do, clustered, 0)
}

func startWith(t *testing.T, url string, set policy.Set, do map[string]work, clustered bool, lease time.Duration) *node {
	t.Helper()
	n := &node{t: t, store: postgrestest.Open(t, url), ran: make(map[task.ID]int)}
	config := engine.Config{Store: n.store, Name: "nöde", Policies: set, Handlers: make(map[string]task.Handler)}
	for typ, fn := range do {
		config.Handlers[typ] = task.HandlerFunc(func(ctx context.Context, t *task.Task) ([]byte, error) {
			n.mu.Lock()
			n.ran[t.ID]++
			n.mu.Unlock()
			return fn(ctx, n, t)
		})
	}
	if clustered {
		c, err := coordination.New(n.store.Pool(), coordination.Options{Lease: lease})
		if err != nil {
			t.Fatal(err)
		}
		config.Coordinator = c.Coordinator()
		t.Cleanup(func() {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	e, err := engine.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	n.Engine = e
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		if err := e.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return n
}

// runs returns how often the handler of a task began here.
func (n *node) runs(id task.ID) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ran[id]
}

// end waits until a task has ended and fails the test unless it ended like this.
func (n *node) end(id task.ID, want task.State) *task.Task {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), 5*time.Minute)
	defer cancel()
	if err := n.WaitTasks(ctx, id); err != nil {
		n.t.Fatalf("task %v does not end: %v", id, err)
	}
	got, err := n.Get(n.t.Context(), id)
	if err != nil {
		n.t.Fatal(err)
	}
	if got.State != want {
		n.t.Errorf("task %v is %v, want %v (last error %q)", id, got.State, want, got.LastError)
	}
	return got
}

// submit adds a task that must be new.
func (n *node) submit(r engine.Request) task.ID {
	n.t.Helper()
	receipts, err := n.Submit(n.t.Context(), r)
	if err != nil {
		n.t.Fatal(err)
	}
	return receipts[0].ID
}

// types returns the default policies for types, with retries at once.
func types(names ...string) policy.Set {
	set := policy.Set{Slots: 20, Types: make(map[string]policy.Type), Limits: make(map[string]policy.Limit)}
	for _, name := range names {
		p := policy.DefaultType()
		p.Retry.Backoff = policy.Backoff{Kind: policy.None}
		set.Types[name] = p
	}
	return set
}

func nothing(context.Context, *node, *task.Task) ([]byte, error) { return nil, nil }

// one returns the only value that a query finds.
func one[T any](t *testing.T, c interface {
	QueryRow(context.Context, string, ...any) pgx.Row
}, sql string, args ...any,
) (value T) {
	t.Helper()
	if err := c.QueryRow(t.Context(), sql, args...).Scan(&value); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return value
}
