//go:build unix

package postgres_test

import (
	"context"
	"flag"
	"log/slog"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/taskengine/taskengine/coord/postgres"
	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/internal/pgtest"
)

// server is set once, by TestMain.
var server *pgtest.Server

func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", "6") // most of it is waiting for leases
	code := pgtest.Run(m, func(s *pgtest.Server) { server = s })
	if code == 0 {
		if err := goleak.Find(); err != nil {
			slog.Error("goroutines are left", "error", err)
			code = 1
		}
	}
	os.Exit(code)
}

// patience is how long a test waits for an event that must happen.
const patience = 30 * time.Second

// testLease is short, since tests wait for its end, and long enough for a busy machine to end contexts
// before it.
const testLease = 1500 * time.Millisecond

// node is the coordination of one process. Its network can be cut.
type node struct {
	*postgres.Coord
	pool *pgxpool.Pool
	net  *network

	thaws   sync.WaitGroup // what sever began
	severed int            // how often; of the goroutine that severs it
}

// database returns the URL of a new database with the tables of the coordination.
func database(t *testing.T) string {
	t.Helper()
	url := server.Database(t)
	prepare(t, url, "taskengine")
	return url
}

func prepare(t *testing.T, url, schema string) {
	t.Helper()
	execute(t, url, `CREATE SCHEMA "`+schema+`"`, postgres.DDL(schema), postgres.Upgrade(schema), postgres.Limits(schema))
}

// execute runs texts, each of several statements, on a connection of its own.
func execute(t *testing.T, url string, texts ...string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	for _, text := range texts {
		if _, err := conn.PgConn().Exec(t.Context(), text).ReadAll(); err != nil {
			t.Fatal(err)
		}
	}
}

// ask returns the one value that a query yields.
func ask[T any](t *testing.T, url, query string, args ...any) T {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	rows, _ := conn.Query(t.Context(), query, args...)
	v, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return v
}

// setup has the options of a node; the zero value has the defaults.
type setup struct {
	postgres.Options
	tracer pgx.QueryTracer
	simple bool // statements and their values in one text, without a description
}

func connect(t *testing.T, url string, s setup) *node {
	t.Helper()
	if s.Lease == 0 {
		s.Lease = testLease
	}
	if s.Log == nil {
		s.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	n := &node{net: &network{lines: map[*frozen]bool{}}}
	config.MaxConns = 2
	config.MinIdleConns = 0
	config.ConnConfig.DialFunc = n.net.dial
	config.ConnConfig.Tracer = s.tracer
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	if s.simple {
		config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	n.pool = pool
	if n.Coord, err = postgres.New(pool, s.Options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		n.thaws.Wait()
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

// sever freezes the network of the node until the node has given up all leases, and does not wait for
// that. Every other call leaves it frozen until the other nodes have noticed, too. The node must have
// used a port: others may know of what it does before it has learned that it has a lease.
func (n *node) sever(t *testing.T) {
	before := n.lease(t)
	if before.IsZero() || !n.net.freeze() {
		return
	}
	n.severed++
	long := n.severed%2 == 1
	n.thaws.Go(func() {
		defer n.net.thaw()
		if long {
			defer time.Sleep(testLease / 2)
		}
		for deadline := time.Now().Add(patience); n.Session() == before; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Error("a node that is cut off keeps its lease")
				return
			}
		}
	})
}

// lease waits until the node has a lease, and returns its session.
func (n *node) lease(t *testing.T) task.ID {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if id := n.Session(); !id.IsZero() {
			return id
		}
	}
	t.Error("a node that is to be cut off has no lease")
	return task.ID{}
}

// network connects a node to the server. While it is frozen it keeps what the node sends, even after the
// node has closed the connection, and delivers it late.
type network struct {
	mu     sync.Mutex
	frozen bool             // guarded by mu
	lines  map[*frozen]bool // guarded by mu: those that hold something back
}

func (n *network) dial(ctx context.Context, kind, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, kind, address)
	if err != nil {
		return nil, err
	}
	return &frozen{Conn: conn, of: n}, nil
}

// freeze freezes the network. It reports whether it was not frozen before.
func (n *network) freeze() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	was := n.frozen
	n.frozen = true
	return !was
}

func (n *network) thaw() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.frozen = false
	for line := range n.lines {
		_, _ = line.Conn.Write(line.kept)
		line.kept = nil
		if line.hungUp {
			_ = line.Conn.Close()
		}
	}
	clear(n.lines)
}

// frozen is a connection that keeps what is written while its network is frozen.
type frozen struct {
	net.Conn
	of     *network
	kept   []byte // guarded by of.mu
	hungUp bool   // guarded by of.mu
}

func (f *frozen) Write(b []byte) (int, error) {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	switch {
	case f.hungUp:
		return 0, net.ErrClosed
	case !f.of.frozen:
		return f.Conn.Write(b)
	}
	f.of.lines[f] = true
	f.kept = append(f.kept, b...)
	return len(b), nil
}

func (f *frozen) Close() error {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	if !f.of.frozen {
		return f.Conn.Close()
	}
	f.of.lines[f] = true
	f.hungUp = true
	return f.Conn.SetReadDeadline(time.Unix(1, 0)) // ends a read in progress
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v in vain for %s", patience, what)
		}
	}
}

func receive[T any](t *testing.T, what string, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		t.Fatalf("waited %v in vain for %s", patience, what)
		panic("unreachable")
	}
}
