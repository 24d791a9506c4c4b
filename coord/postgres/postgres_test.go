//go:build unix

package postgres_test

import (
	"testing"
	"time"

	"github.com/taskengine/taskengine/coord/coordtest"
	"github.com/taskengine/taskengine/coord/postgres"
	"github.com/taskengine/taskengine/internal/pgtest"
)

// backend makes nodes of one cluster for the suite of a port.
func backend[P any](direct func(*testing.T) (url string, s setup)) coordtest.Backend[P] {
	nodes := map[any]*node{}
	return coordtest.Backend[P]{
		New: func(t *testing.T) func() P {
			url, s := direct(t)
			return func() P {
				n := connect(t, url, s)
				p := any(n.Coord).(P)
				nodes[p] = n
				return p
			}
		},
		Sever:    func(t *testing.T, p P) { nodes[p].sever(t) },
		Patience: patience,
		Settle:   20 * time.Millisecond,
	}
}

// way is a way to connect to a server.
type way struct {
	name   string
	listen bool
	to     func(t *testing.T) (url string, s setup)
}

var ways = []way{
	{"direct", true, func(t *testing.T) (string, setup) { return database(t), setup{} }},
	{"by PgBouncer, and listening beside it", true, func(t *testing.T) (string, setup) {
		url := database(t)
		return pgtest.Through(server.Bouncer(t), url), setup{Options: postgres.Options{Listen: url}}
	}},
	{"by PgBouncer alone, with simple statements", false, func(t *testing.T) (string, setup) {
		return pgtest.Through(server.Bouncer(t), database(t)), setup{Options: postgres.Options{Listen: postgres.ListenOff}, simple: true}
	}},
}

func TestPorts(t *testing.T) {
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			suite(t, "Elector", w, coordtest.RunElector)
			suite(t, "Semaphore", w, coordtest.RunSemaphore)
			suite(t, "Rates", w, coordtest.RunRates)
			suite(t, "Membership", w, coordtest.RunMembership)
			suite(t, "Config", w, coordtest.RunConfig)
			if w.listen {
				suite(t, "Bus", w, coordtest.RunBus)
			}
		})
	}
}

// suite runs the suite of one port in parallel with the others: they mostly wait for leases.
func suite[P any](t *testing.T, name string, w way, run func(*testing.T, coordtest.Backend[P])) {
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		run(t, backend[P](w.to))
	})
}
