package coordtest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/engine/task"
)

// Servers are the three servers of a coordinator, of which two are a majority.
type Servers interface {
	Kill(server int) error
	Restart(server int) error // that was killed
	Pause(server int) error   // as a machine that hangs
	Resume(server int) error  // that is paused
}

// RunServers runs tests of a coordinator some of whose servers are away. start starts three servers that end with the
// test, and returns a function that connects a node to all of them, which has a lease of about the given time.
func RunServers(t *testing.T, start func(*testing.T) (Servers, func(lease time.Duration) coord.Semaphore)) {
	for name, test := range map[string]func(*testing.T, Servers, func(time.Duration) coord.Semaphore){
		"permits pass on while a server is away": permitsPassOn,
		"nothing is held without a majority":     nothingIsHeld,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers, connect := start(t)
			test(t, servers, connect)
		})
	}
}

// serverPatience is how long these tests wait for what must happen.
const serverPatience = 2 * time.Minute

// client is a holder that orders permits of the limit "limit", of which there are two.
type client struct {
	node   coord.Semaphore
	id     task.ID
	number uint64
	held   atomic.Int64
	lives  chan struct{}
	ended  chan error
}

func holdPermits(t *testing.T, n coord.Semaphore, id byte) *client {
	t.Helper()
	h := &client{node: n, id: task.ID{id}, lives: make(chan struct{}), ended: make(chan error, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	first := true
	go func() {
		h.ended <- n.Hold(ctx, h.id, func(told []coord.Holding) {
			if first {
				first = false
				close(h.lives)
			}
			for _, o := range told {
				h.held.Store(int64(o.Held))
			}
		})
	}()
	within(t, "a holder that lives", h.lives)
	return h
}

func (h *client) want(n int) {
	h.number++
	h.node.Order(h.id, coord.Order{Name: "limit", Number: h.number, Want: n, Max: 2})
}

func (h *client) gets(t *testing.T, n int64) {
	t.Helper()
	Await(t, fmt.Sprintf("%d permits", n), func() bool { return h.held.Load() == n })
}

// Await waits until ok returns true.
func Await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(serverPatience); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v in vain for %s", serverPatience, what)
		}
	}
}

func within[T any](t *testing.T, what string, ch <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-ch:
	case <-time.After(serverPatience):
		t.Fatalf("waited %v in vain for %s", serverPatience, what)
	}
	return v
}

// permitsPassOn has each server in turn killed, and hang, while two nodes pass permits to each other.
func permitsPassOn(t *testing.T, servers Servers, connect func(time.Duration) coord.Semaphore) {
	const long = 20 * time.Second // more than it takes the servers to elect a leader
	a, b := holdPermits(t, connect(long), 1), holdPermits(t, connect(long), 2)
	pass := func() {
		for range 5 {
			a.want(2)
			a.gets(t, 2)
			b.want(2)
			a.want(0)
			b.gets(t, 2)
			a.gets(t, 0)
			b.want(0)
			b.gets(t, 0)
		}
	}
	pass()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3 {
		must(servers.Kill(i))
		pass()
		must(servers.Restart(i))
		must(servers.Pause(i))
		pass()
		must(servers.Resume(i))
	}
	select {
	case err := <-a.ended:
		t.Errorf("a holder ended: %v", err)
	case err := <-b.ended:
		t.Errorf("a holder ended: %v", err)
	default:
	}
}

func nothingIsHeld(t *testing.T, servers Servers, connect func(time.Duration) coord.Semaphore) {
	n := connect(2 * time.Second)
	a := holdPermits(t, n, 1)
	a.want(2)
	a.gets(t, 2)
	for i := range 2 {
		if err := servers.Pause(i); err != nil {
			t.Fatal(err)
		}
	}
	if err := within(t, "the end of the holder", a.ended); err == nil {
		t.Error("Hold returned nil")
	}
	if n.Holds(a.id) {
		t.Error("a holder that has ended holds")
	}
	for i := range 2 {
		if err := servers.Resume(i); err != nil {
			t.Fatal(err)
		}
	}
	again := holdPermits(t, n, 2)
	again.want(2)
	again.gets(t, 2)
}
