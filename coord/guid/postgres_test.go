//go:build unix

package guid_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/coordtest"
	"github.com/taskengine/taskengine/coord/guid"
	"github.com/taskengine/taskengine/coord/postgres"
	"github.com/taskengine/taskengine/internal/kafkatest"
	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/internal/wiretest"
)

// The servers are set once, before the tests.
var (
	server  *pgtest.Server
	brokers *kafkatest.Cluster
)

func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", "8") // most of it is waiting for leases
	var err error
	if brokers, err = kafkatest.Start(1, kafkatest.Lasting()); err != nil {
		slog.Error("cannot start a broker", "error", err)
		os.Exit(1)
	}
	code := pgtest.Run(m, func(s *pgtest.Server) { server = s })
	if err := brokers.Close(); err != nil {
		slog.Error("cannot end the broker", "error", err)
		code = max(code, 1)
	}
	if code == 0 {
		if err := goleak.Find(); err != nil {
			slog.Error("goroutines are left", "error", err)
			code = 1
		}
	}
	os.Exit(code)
}

// testLease is short, since tests wait for its end, and long enough for messages on a busy machine.
const testLease = 2 * time.Second

const patience = 4 * time.Minute

// remote is the elector of a node that sends messages by a server. Its network can be cut.
type remote struct {
	*guid.Elector
	messages coord.Messages
	wire     *wiretest.Wire
	lease    time.Duration
	heals    sync.WaitGroup // the work of sever
	isCut    atomic.Bool
	severed  int // how often; of the goroutine that severs it
}

// remotes returns a function that connects nodes to a new schema of the database.
func remotes(t *testing.T, url, schema string, o guid.Options) func() *remote {
	t.Helper()
	pgtest.Exec(t, pgtest.Connect(t, url), `CREATE SCHEMA "`+schema+`"`, postgres.DDL(schema), postgres.Functions(schema))
	return func() *remote {
		w := wiretest.New(t, url)
		config, err := pgxpool.ParseConfig(w.URL())
		if err != nil {
			t.Fatal(err)
		}
		config.MaxConns = 2
		pool, err := pgxpool.NewWithConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		log := slog.New(slog.NewTextHandler(t.Output(), nil))
		c, err := postgres.New(pool, postgres.Options{Schema: schema, Lease: o.Lease, Log: log})
		if err != nil {
			t.Fatal(err)
		}
		n := &remote{wire: w, lease: o.Lease}
		t.Cleanup(func() {
			n.heals.Wait()
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
		messages, err := c.Messages()
		if err != nil {
			t.Fatal(err)
		}
		n.messages, o.Log = messages, log
		if n.Elector, err = guid.New(messages, o); err != nil {
			t.Fatal(err)
		}
		return n
	}
}

// sever takes the network of a node away for two leases, and does not wait for that. Every other time the messages from and
// to the node arrive late; otherwise its connections end.
func (n *remote) sever() {
	if !n.isCut.CompareAndSwap(false, true) {
		return
	}
	heal := n.wire.Heal
	if n.severed++; n.severed%2 == 1 {
		n.wire.Stall()
		heal = n.wire.Resume
	} else {
		n.wire.Cut()
	}
	n.heals.Go(func() {
		time.Sleep(2 * n.lease)
		heal()
		n.isCut.Store(false)
	})
}

// hears waits until the node receives messages.
func (n *remote) hears(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	heard := false
	if err := n.messages.Receive(ctx, "probe", func([]byte) { heard = true; cancel() }); err != nil || !heard {
		t.Fatalf("a node that receives messages: %v", err)
	}
}

func onPostgres(t *testing.T, o guid.Options) coordtest.Backend[coord.Elector] {
	return onDatabase(server.Database(t), new(atomic.Int64), o, testLease)
}

// onDatabase returns the backend of nodes with a lease. It counts the schemas.
func onDatabase(url string, schemas *atomic.Int64, o guid.Options, lease time.Duration) coordtest.Backend[coord.Elector] {
	o.Lease = lease
	return coordtest.Backend[coord.Elector]{
		New: func(t *testing.T) func() coord.Elector {
			connect := remotes(t, url, fmt.Sprint("cluster_", schemas.Add(1)), o)
			return func() coord.Elector {
				n := connect()
				n.hears(t) // until then it is isolated
				return n
			}
		},
		Slower:   func() coordtest.Backend[coord.Elector] { return onDatabase(url, schemas, o, 2*lease) },
		Sever:    func(_ *testing.T, n coord.Elector) { n.(*remote).sever() },
		Patience: patience,
		Settle:   20 * time.Millisecond,
		Overlap:  patience / 2, // messages may be late on a busy machine; that two lead must end
		Parallel: true,
	}
}

func TestElectionsByNotificationsOfADatabase(t *testing.T) {
	t.Run("of nodes that must hear themselves", func(t *testing.T) {
		t.Parallel()
		coordtest.RunElector(t, onPostgres(t, guid.Options{MustHear: true}))
	})
	t.Run("by default, without severed nodes", func(t *testing.T) { // why: see TestThePartOfTheSuiteWithoutSeveredNodesHoldsByDefault
		t.Parallel()
		coordtest.RunTurns(t, onPostgres(t, guid.Options{}))
	})
}

// A duty must not stop because no connection can LISTEN any more.
func TestAnIsolatedNodeLeadsThoughItsDatabaseIsGone(t *testing.T) {
	n := remotes(t, server.Database(t), "taskengine", guid.Options{Lease: testLease})()
	n.wire.Cut()
	done := errors.New("done")
	if err := n.Lead(t.Context(), "role", func(context.Context) error { return done }); !errors.Is(err, done) {
		t.Errorf("Lead returned %v, want %v", err, done)
	}
}
