//go:build unix

package postgres_test

import (
	"context"
	"flag"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/taskengine/taskengine/coord/postgres"
	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/internal/wiretest"
	"github.com/taskengine/taskengine/task"
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
const patience = 2 * time.Minute

// testLease is short, since tests wait for its end, and long enough for a busy machine to end contexts
// before it.
const testLease = 1500 * time.Millisecond

// patientLease is for tests in which a lease must not end by itself, though the machine is slow.
const patientLease = 4 * testLease

// attempts is how often a test is tried in which a lease ends by itself.
const attempts = 5

// retried runs a test again, with a lease that is twice as long, as long as it reports that a lease has ended by itself.
func retried(t *testing.T, test func(t *testing.T, lease time.Duration) (lapsed bool)) {
	t.Helper()
	lease := testLease
	for range attempts {
		if !test(t, lease) {
			return
		}
		t.Logf("a lease of %v lapsed, because the machine is slow: the test begins again", lease)
		lease *= 2
	}
	t.Fatalf("leases lapsed in all of %d attempts", attempts)
}

// node is the coordination of one process. Its network can be cut.
type node struct {
	*postgres.Coord
	pool *pgxpool.Pool
	wire *wiretest.Wire

	thaws   sync.WaitGroup // the work of sever
	stalled atomic.Bool    // sever has stalled the network
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
	execute(t, url, `CREATE SCHEMA "`+schema+`"`, postgres.DDL(schema), postgres.Functions(schema))
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
	w := wiretest.New(t, url)
	config, err := pgxpool.ParseConfig(w.URL())
	if err != nil {
		t.Fatal(err)
	}
	n := &node{wire: w}
	config.MaxConns = 2
	config.MinIdleConns = 0
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

// sever stalls the network of the node until the node has given up all leases, and does not wait for
// that. Every other call leaves it stalled until the other nodes have noticed, too. The statements of the node
// arrive late. The node must have used a port: others may know of its roles before it has
// learned that it has a lease.
func (n *node) sever(t *testing.T) {
	before := n.lease(t)
	if before.IsZero() || !n.stalled.CompareAndSwap(false, true) {
		return
	}
	n.wire.Stall()
	n.severed++
	long := n.severed%2 == 1
	n.thaws.Go(func() {
		defer func() {
			n.wire.Resume()
			n.stalled.Store(false)
		}()
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
