package coordtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/internal/wiretest"
	"github.com/taskengine/taskengine/task"
)

// Node is the connection of a node to a coordinator with servers in other processes.
type Node interface {
	coord.Elector
	coord.Semaphore
	coord.Rates
	coord.Membership
	coord.Config

	Check(ctx context.Context) error
	Close() error
}

// Connected returns a node that is closed at the end of the test. It takes the results of a constructor.
func Connected[N Node](t *testing.T, n N, err error) N {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

// prefixes is a source of prefixes, each of which is given out once.
var prefixes atomic.Int64

// Prefix returns a prefix that no other test of this process has.
func Prefix() string { return fmt.Sprint("test", prefixes.Add(1)) }

// ConnectFunc connects a node with a lease to the server at an address, below a prefix, and closes it at the end of the test.
type ConnectFunc func(t *testing.T, address, prefix string, lease time.Duration) Node

// RunPorts runs the suites of all ports but [coord.Bus] and [coord.Messages] in parallel: they mostly wait for leases. The
// network of a node is cut to sever it, until it has lost its lease by its own clock. A test in which leases lapse is tried
// again with leases that are twice as long. No lease lapses in the suite of rates, and a draw waits for at most a lease, so
// that suite has long ones.
func RunPorts(t *testing.T, server string, lease time.Duration, connect ConnectFunc) {
	suite(t, "Elector", RunElector, server, lease, connect)
	suite(t, "Semaphore", RunSemaphore, server, lease, connect)
	suite(t, "Rates", RunRates, server, 30*time.Second, connect)
	suite(t, "Membership", RunMembership, server, lease, connect)
	suite(t, "Config", RunConfig, server, lease, connect)
}

func suite[P any](t *testing.T, name string, run func(*testing.T, Backend[P]), server string, lease time.Duration, connect ConnectFunc) {
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		run(t, servers[P](server, lease, connect))
	})
}

// servers returns a backend with nodes that are connected to a server.
func servers[P any](server string, lease time.Duration, connect ConnectFunc) Backend[P] {
	var wires sync.Map // a *wiretest.Wire for each node
	return Backend[P]{
		New: func(t *testing.T) func() P {
			prefix := Prefix()
			return func() P {
				wire, address := Wire(t, server)
				n := connect(t, address, prefix, lease)
				wires.Store(any(n), wire)
				return any(n).(P)
			}
		},
		Sever: func(_ *testing.T, node P) {
			wire, _ := wires.Load(any(node))
			wire.(*wiretest.Wire).Cut()
			time.AfterFunc(lease+lease/2, wire.(*wiretest.Wire).Heal)
		},
		Patience: 3 * time.Minute,
		Slower:   func() Backend[P] { return servers[P](server, 2*lease, connect) },
		Settle:   20 * time.Millisecond,
		Parallel: true,
	}
}

// Wire returns a network to the server at an address, and the address of the server by way of it.
func Wire(t *testing.T, server string) (wire *wiretest.Wire, address string) {
	t.Helper()
	wire = wiretest.New(t, "tcp://"+server)
	return wire, strings.TrimPrefix(wire.URL(), "tcp://")
}

// Use uses several ports of a node, and waits until they have worked.
func Use(t *testing.T, n Node) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), serverPatience)
	defer cancel()
	if err := n.Lead(ctx, "role", func(context.Context) error { return nil }); err != nil {
		t.Fatalf("leading a role: %v", err)
	}
	Set(t, n, []byte("value"))
	for !holdOnce(ctx, t, n) {
		if ctx.Err() != nil {
			t.Fatal("no permit was granted")
		}
	}
}

// holdOnce has a holder get a permit, and reports whether it got one: not if it loses its lease, because the machine is slow.
func holdOnce(ctx context.Context, t *testing.T, n Node) bool {
	t.Helper()
	held := make(chan struct{})
	holding, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	var id task.ID
	copy(id[:], fmt.Sprint(prefixes.Add(1)))
	var first, got sync.Once
	go func() {
		ended <- n.Hold(holding, id, func(news []coord.Holding) {
			first.Do(func() { n.Order(id, coord.Order{Name: "limit", Number: 1, Want: 1, Max: 1}) })
			for _, h := range news {
				if h.Held > 0 {
					got.Do(func() { close(held) })
				}
			}
		})
	}()
	select {
	case <-held:
		return true
	case err := <-ended:
		t.Logf("holding a permit: %v", err)
	case <-ctx.Done():
	}
	return false
}

// Set stores a setting and reads it.
func Set(t *testing.T, n coord.Config, value []byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), serverPatience)
	defer cancel()
	all, err := n.Settings(ctx, "name")
	if err != nil {
		t.Fatalf("reading settings: %v", err)
	}
	var was coord.Setting
	for _, s := range all {
		was = s
	}
	now, swapped, err := n.Swap(ctx, "name", "", was.Version, value)
	if err != nil || !swapped || !bytes.Equal(now.Value, value) {
		t.Fatalf("swapping a setting: %v, %v, %v", now, swapped, err)
	}
}

// Works waits until the coordinator accepts a node: a server that has just started may be slow.
func Works(t *testing.T, n Node) {
	t.Helper()
	var err error
	defer func() {
		if err != nil {
			t.Logf("last: %v", err)
		}
	}()
	Await(t, "a coordinator that accepts the node", func() bool {
		err = n.Check(t.Context())
		return err == nil
	})
}

// Refused waits until the coordinator refuses a node, and checks that the error has certain words. A server that closes the
// connection may be faster than its own answer, and one that has just started may be slow.
func Refused(t *testing.T, n Node, words ...string) {
	t.Helper()
	var err error
	defer func() { t.Log(err) }()
	Await(t, "a refusal", func() bool {
		err = n.Check(t.Context())
		return errors.Is(err, coord.ErrRefused)
	})
	hasWords(t, err, words)
}

// Unreachable checks that a node cannot use its coordinator but is not refused, and that the error has certain words.
func Unreachable(t *testing.T, n Node, words ...string) {
	t.Helper()
	var err error
	defer func() { t.Log(err) }()
	Await(t, "an error", func() bool {
		err = n.Check(t.Context())
		if err == nil || errors.Is(err, coord.ErrRefused) {
			t.Fatalf("the error is %v, want one that is no refusal", err)
		}
		isSlow := strings.Contains(err.Error(), "no answer")
		return !isSlow || !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(err.Error(), w) })
	})
	hasWords(t, err, words)
}

func hasWords(t *testing.T, err error, words []string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("the error is %q, and lacks %q", err, w)
		}
	}
}

// RunFailover checks that a node uses a server that comes after one that accepts connections and is silent, and one that
// is away.
func RunFailover(t *testing.T, server string, connect func(t *testing.T, endpoints []string) Node) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // the system accepts connections
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	wire, away := Wire(t, server)
	wire.Cut()
	n := connect(t, []string{silent.Addr().String(), away, server})
	Works(t, n)
	Use(t, n)
	Unreachable(t, connect(t, []string{silent.Addr().String(), away}), "no answer within", away)
}
