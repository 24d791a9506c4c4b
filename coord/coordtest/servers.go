package coordtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/internal/wiretest"
	"github.com/taskengine/taskengine/task"
)

// Servers are the three servers of a coordinator, of which two are a majority.
type Servers interface {
	Kill(server int) error
	Restart(server int) error // that was killed
	Pause(server int) error   // as a machine that hangs
	Resume(server int) error  // that is paused
}

// RunServers runs tests of a coordinator with some servers away. start starts three servers that end with the
// test, and returns a function that connects a node to all of them, with a lease of about the given time.
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

// serverPatience is how long these tests wait for events that must happen.
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

func holdPermits(t *testing.T, n coord.Semaphore) *client {
	t.Helper()
	h := startHolder(t, n)
	within(t, "a holder that lives", h.lives)
	return h
}

// holdAll has a holder get both permits. One that loses its lease, because the machine is slow, is followed by another.
func holdAll(t *testing.T, n coord.Semaphore) *client {
	t.Helper()
	for {
		h := startHolder(t, n)
		isEnded := func() bool { return len(h.ended) > 0 }
		Await(t, "a holder that lives", func() bool { return isEnded() || h.isAlive() })
		h.want(2)
		Await(t, "2 permits", func() bool { return isEnded() || h.held.Load() == 2 })
		if !isEnded() {
			return h
		}
	}
}

// isAlive reports whether the first call of the function of Hold has come.
func (h *client) isAlive() bool {
	select {
	case <-h.lives:
		return true
	default:
		return false
	}
}

func startHolder(t *testing.T, n coord.Semaphore) *client {
	h := &client{node: n, id: newID(), lives: make(chan struct{}), ended: make(chan error, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	first := true
	go func() {
		h.ended <- n.Hold(ctx, h.id, func(news []coord.Holding) {
			if first {
				first = false
				close(h.lives)
			}
			for _, o := range news {
				h.held.Store(int64(o.Held))
			}
		})
	}()
	return h
}

func (h *client) want(n int) {
	h.number++
	h.node.Order(h.id, coord.Order{Name: "limit", Number: h.number, Want: n, Max: 2})
}

func (h *client) gets(t *testing.T, n int64) {
	t.Helper()
	Await(t, fmt.Sprintf("%d permits", n), func() bool {
		select {
		case err := <-h.ended:
			t.Fatalf("a holder that waited for %d permits ended: %v", n, err)
		default:
		}
		return h.held.Load() == n
	})
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
	a, b := holdPermits(t, connect(long)), holdPermits(t, connect(long))
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
	a := holdAll(t, n)
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
	holdAll(t, n)
}

// RunHang runs tests of nodes of a coordinator of which one of three servers takes requests and does not answer. server is the
// address of one that answers, and stands for all three. connect connects a node with a lease to three addresses.
func RunHang(t *testing.T, server string, connect func(t *testing.T, endpoints []string, lease time.Duration) coord.Semaphore) {
	const (
		nodes = 6
		lease = 36 * time.Second // a node needs a sixth of it for its second renewal, on a busy machine, too
	)
	for hangs := range 3 {
		t.Run(fmt.Sprint("server ", hangs), func(t *testing.T) {
			t.Parallel()
			var wires [3]*wiretest.Wire
			var endpoints [3]string
			for i := range wires {
				wires[i], endpoints[i] = Wire(t, server)
			}
			var holders []*client
			for range nodes {
				h := holdPermits(t, connect(t, endpoints[:], lease))
				h.want(2)
				h.gets(t, 2)
				holders = append(holders, h)
				readBusily(t, h.node)
			}
			wires[hangs].Stall()
			for end := time.Now().Add(lease); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
				for _, h := range holders {
					h.gets(t, 2)
				}
			}
		})
	}
}

// readBusily reads by a node until the end of the test, so that each of its requests may meet any of the servers.
func readBusily(t *testing.T, n coord.Semaphore) {
	stop := make(chan struct{})
	var reading sync.WaitGroup
	reading.Go(func() {
		for {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
			_, _ = n.Holders(ctx, "limit") // the server that hangs does not answer
			cancel()
			select {
			case <-time.After(rand.N(300 * time.Millisecond)):
			case <-stop:
				return
			}
		}
	})
	t.Cleanup(func() { close(stop); reading.Wait() })
}
