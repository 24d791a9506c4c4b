//go:build unix

package postgres_test

import (
	"cmp"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/coordtest"
	"github.com/taskengine/taskengine/coord/postgres"
)

// backend makes clusters for the suite of a port, each in a schema of its own in one database.
func backend[P any](t *testing.T, w way, port func(*testing.T, *postgres.Coord) P) coordtest.Backend[P] {
	return backendOf(server.Database(t), new(atomic.Int64), cmp.Or(w.lease, testLease), w, port)
}

// backendOf returns the backend of nodes with a lease. It counts the schemas.
func backendOf[P any](
	url string, schemas *atomic.Int64, lease time.Duration, w way, port func(*testing.T, *postgres.Coord) P,
) coordtest.Backend[P] {
	var nodes sync.Map // from any(P) to *node
	return coordtest.Backend[P]{
		New: func(t *testing.T) func() P {
			s := w.setup(url)
			s.Schema, s.Lease = fmt.Sprint("cluster_", schemas.Add(1)), lease
			prepare(t, url, s.Schema)
			return func() P {
				n := connect(t, w.to(url), s)
				p := port(t, n.Coord)
				nodes.Store(p, n)
				return p
			}
		},
		Sever: func(t *testing.T, p P) {
			n, _ := nodes.Load(p)
			n.(*node).sever(t)
		},
		Slower:   func() coordtest.Backend[P] { return backendOf(url, schemas, 2*lease, w, port) },
		Patience: patience,
		Settle:   20 * time.Millisecond,
		Parallel: true,
	}
}

// way is a way to connect to the database with a URL.
type way struct {
	name   string
	listen bool
	to     func(url string) string
	setup  func(url string) setup
	lease  time.Duration // 0 is testLease
}

func TestPorts(t *testing.T) {
	ports(t, way{name: "direct", listen: true, to: func(url string) string { return url }, setup: func(string) setup { return setup{} }})
}

// ports runs the suites of all ports on connections of one way.
func ports(t *testing.T, w way) {
	t.Run(w.name, func(t *testing.T) {
		t.Parallel()
		suite(t, "Elector", w, coordtest.RunElector)
		suite(t, "Semaphore", w, coordtest.RunSemaphore)
		patient := w // a draw waits for a lease at most, and none lapses in this suite
		patient.lease = 30 * time.Second
		suite(t, "Rates", patient, coordtest.RunRates)
		suite(t, "Membership", w, coordtest.RunMembership)
		suite(t, "Config", w, coordtest.RunConfig)
		if w.listen {
			suite(t, "Bus", w, coordtest.RunBus)
			suiteOf(t, "Messages", w, messages, coordtest.RunMessages)
		}
	})
}

// suite runs the suite of one port in parallel with the others: they mostly wait for leases.
func suite[P any](t *testing.T, name string, w way, run func(*testing.T, coordtest.Backend[P])) {
	suiteOf(t, name, w, func(_ *testing.T, c *postgres.Coord) P { return any(c).(P) }, run)
}

func suiteOf[P any](t *testing.T, name string, w way, port func(*testing.T, *postgres.Coord) P, run func(*testing.T, coordtest.Backend[P])) {
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		run(t, backend(t, w, port))
	})
}

func messages(t *testing.T, c *postgres.Coord) coord.Messages {
	t.Helper()
	m, err := c.Messages()
	if err != nil {
		t.Fatal(err)
	}
	return m
}
