//go:build unix

package zk_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/coordtest"
	"github.com/taskengine/taskengine/coord/zk"
	"github.com/taskengine/taskengine/internal/wiretest"
	"github.com/taskengine/taskengine/internal/zktest"
)

const (
	lease    = 2 * time.Second
	patience = time.Minute
)

var (
	cluster  *zktest.Ensemble
	prefixes atomic.Int64 // so far
)

func TestMain(m *testing.M) {
	os.Exit(zktest.Run(m, 1, func(c *zktest.Ensemble) { cluster = c }))
}

// connect returns a node whose network can be cut.
func connect(t *testing.T, prefix string) (*zk.Coord, *wiretest.Wire) {
	t.Helper()
	wire := wiretest.New(t, "http://"+cluster.Endpoints()[0])
	c, err := zk.New(zk.Options{Endpoints: []string{strings.TrimPrefix(wire.URL(), "http://")}, Prefix: prefix, Lease: lease})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c, wire
}

// backend makes nodes of one cluster for the suite of a port. A node is severed by a cut of its network until it has
// lost its lease by its own clock.
func backend[P any]() coordtest.Backend[P] {
	var wires sync.Map // a *wiretest.Wire for each node
	return coordtest.Backend[P]{
		New: func(t *testing.T) func() P {
			prefix := fmt.Sprint("test", prefixes.Add(1))
			return func() P {
				c, wire := connect(t, prefix)
				wires.Store(any(c), wire)
				return any(c).(P)
			}
		},
		Sever: func(_ *testing.T, node P) {
			wire, _ := wires.Load(any(node))
			wire.(*wiretest.Wire).Cut()
			time.AfterFunc(lease+lease/2, wire.(*wiretest.Wire).Heal)
		},
		Patience: patience,
		Settle:   20 * time.Millisecond,
		Parallel: true,
	}
}

func TestPorts(t *testing.T) {
	suite(t, "Elector", coordtest.RunElector)
	suite(t, "Semaphore", coordtest.RunSemaphore)
	suite(t, "Rates", coordtest.RunRates)
	suite(t, "Membership", coordtest.RunMembership)
	suite(t, "Config", coordtest.RunConfig)
}

// suite runs the suite of one port in parallel with the others: they mostly wait for leases.
func suite[P any](t *testing.T, name string, run func(*testing.T, coordtest.Backend[P])) {
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		run(t, backend[P]())
	})
}

var _ coord.Semaphore = (*zk.Coord)(nil)

// The library sets watches anew when it has connected again, beside requests whose answers change what it has seen.
func TestNoChangeIsMissedWhenConnectionsBreak(t *testing.T) {
	prefix := fmt.Sprint("test", prefixes.Add(1))
	a, wire := connect(t, prefix)
	b, _ := connect(t, prefix)
	for i := range 500 { // nodes to be watched
		if _, ok, err := b.Swap(t.Context(), fmt.Sprint("other", i), "scope", 0, []byte("value")); err != nil || !ok {
			t.Fatal(err)
		}
	}
	var seen atomic.Uint64
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	running.Go(func() {
		if err := a.Watch(ctx, "name", func(all []coord.Setting) {
			for _, s := range all {
				seen.Store(s.Version)
			}
		}); err != nil {
			t.Error(err)
		}
	})
	for range 8 {
		running.Go(func() {
			for ctx.Err() == nil {
				_, _ = a.Settings(ctx, "name") // it may fail when the connection breaks
			}
		})
	}
	var version uint64
	for range 10 {
		wire.Heal() // what was connected before is lost
		s, ok, err := b.Swap(ctx, "name", "scope", version, []byte("value"))
		if err != nil || !ok {
			t.Fatalf("the setting is not changed: %v, %v", s, err)
		}
		version = s.Version
		for deadline := time.Now().Add(patience); seen.Load() != version; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("waited %v in vain for change %d; the last one that was seen is %d", patience, version, seen.Load())
			}
		}
	}
}
