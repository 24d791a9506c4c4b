//go:build unix

package zk

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/taskengine/taskengine/coord/cells"
	"github.com/taskengine/taskengine/internal/zktest"
)

// gate is a network to a server that can hold back its answers.
type gate struct {
	address string
	closed  chan struct{} // holds one while answers are held back
	held    chan struct{} // holds one when an answer is held back
}

func newGate(t *testing.T, server string) *gate {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{address: l.Addr().String(), closed: make(chan struct{}, 1), held: make(chan struct{}, 1)}
	var all sync.WaitGroup
	all.Go(func() {
		near, err := l.Accept()
		if err != nil {
			return
		}
		defer near.Close()
		far, err := net.Dial("tcp", server)
		if err != nil {
			return
		}
		all.Go(func() { defer far.Close(); _, _ = io.Copy(far, near) })
		answer := make([]byte, 4096)
		for {
			n, err := far.Read(answer)
			if err != nil {
				return
			}
			select {
			case g.closed <- struct{}{}:
			default: // it is closed
				select {
				case g.held <- struct{}{}:
				default:
				}
				g.closed <- struct{}{}
			}
			<-g.closed
			if _, err := near.Write(answer[:n]); err != nil {
				return
			}
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		select {
		case <-g.closed: // the test has failed
		default:
		}
		all.Wait()
	})
	return g
}

func (g *gate) close() { g.closed <- struct{}{} }
func (g *gate) open()  { <-g.closed }

const key = "live/role/role"

func startServer(t *testing.T) (address string) {
	t.Helper()
	servers, err := zktest.Start(1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = servers.Close() })
	return servers.Endpoints()[0]
}

// gated returns a store with a gate in its connection, and another connection.
func gated(t *testing.T, server, prefix string) (*store, *gate, *conn) {
	t.Helper()
	g := newGate(t, server)
	s := newStore(Options{Endpoints: []string{g.address}, Prefix: prefix, Lease: time.Minute})
	t.Cleanup(s.close)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := s.conn(ctx); err != nil {
		t.Fatal(err)
	}
	other, err := dial(Options{Endpoints: []string{server}, Lease: time.Minute}, s.servers, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(other.closeNow)
	return s, g, other
}

// create creates a node by a connection.
func create(t *testing.T, s *store, by *conn) cells.Cell {
	t.Helper()
	outcomes, err := s.swap(t.Context(), by, nil, []cells.Change{{Was: cells.Cell{Key: key}, Value: []byte("value")}})
	if err != nil || !outcomes[0].Swapped {
		t.Fatalf("creating the node: %v, %v", outcomes, err)
	}
	return outcomes[0].Now
}

// A late answer must not seem to be newer than the state that another connection has learned: a cell would be hidden
// until it changes again.
func TestALateAnswerHidesNoNewerNode(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	for name, c := range map[string]struct {
		prefix string
		before bool // the node is there at first
		late   func(t *testing.T, s *store, was cells.Cell) cells.Cell
	}{
		"a request that finds nothing": {"/request", false, func(t *testing.T, s *store, _ cells.Cell) cells.Cell {
			cell, err := s.get(s.base, key)
			if err != nil {
				t.Error(err)
			}
			return cell
		}},
		"a read that finds nothing": {"/read", false, func(t *testing.T, s *store, _ cells.Cell) cells.Cell {
			all, err := s.Read(t.Context(), key)
			if err != nil {
				t.Error(err)
				return cells.Cell{}
			}
			return all[0]
		}},
		"a removal": {"/removal", true, func(t *testing.T, s *store, was cells.Cell) cells.Cell {
			outcomes, err := s.Swap(t.Context(), cells.Change{Was: was})
			if err != nil || !outcomes[0].Swapped {
				t.Errorf("removing the node: %v, %v", outcomes, err)
				return cells.Cell{}
			}
			return outcomes[0].Now
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s, g, other := gated(t, server, c.prefix)
			was := cells.Cell{Key: key}
			if c.before {
				was = create(t, s, other)
			}
			g.close()
			late := make(chan cells.Cell, 1)
			go func() { late <- c.late(t, s, was) }()
			<-g.held
			now := create(t, s, other)
			g.open()
			if got := <-late; !got.Exists() && got.Version >= now.Version {
				t.Errorf("the node was created by transaction %d, and seems to be away after %d", now.Version, got.Version)
			}
			seen, err := s.get(other, key)
			if err != nil || seen.Version != now.Version {
				t.Errorf("it is read as %v (%v), want %v", seen, err, now)
			}
			if outcomes, err := s.Swap(t.Context(), cells.Change{Was: seen, Value: []byte("changed")}); err != nil || !outcomes[0].Swapped {
				t.Errorf("the node cannot be changed: %v, %v", outcomes, err)
			}
		})
	}
}

// A node that is created and removed while the watch hears nothing may be known from an answer to another request.
func TestAWatchReportsThatANodeIsGoneThatItHasNotSeen(t *testing.T) {
	t.Parallel()
	s, g, other := gated(t, startServer(t), "/prefix")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	updates := make(chan cells.Update)
	ended := make(chan error, 1)
	go func() {
		ended <- s.Watch(ctx, "live/", func(u cells.Update) {
			select {
			case updates <- u:
			case <-ctx.Done():
			}
		})
	}()
	<-updates // all of it
	g.close()
	now := create(t, s, other)
	if err := other.Delete(s.path(key), -1); err != nil {
		t.Fatal(err)
	}
	g.open()
	for {
		select {
		case u := <-updates:
			for _, c := range u.Cells {
				if c.Key == key && !c.Exists() && c.Version > now.Version {
					return
				}
			}
		case err := <-ended:
			t.Fatalf("the watch has ended: %v", err)
		case <-time.After(time.Minute):
			t.Fatal("the removal is not reported")
		}
	}
}
