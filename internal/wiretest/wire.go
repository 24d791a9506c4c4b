// Package wiretest has a network for tests between programs and a server: a TCP proxy that can be cut,
// stalled and healed.
package wiretest

import (
	"errors"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
)

// Wire is a network between programs and a server. Its methods may be called from any goroutine.
type Wire struct {
	listener net.Listener
	to       string // the address of the server
	url      string // by way of the wire

	mu      sync.Mutex
	changed *sync.Cond            // broadcast after every change of state
	state   state                 // guarded by mu
	ends    map[net.Conn]struct{} // guarded by mu: of all connections
	stalls  map[net.Conn]bool     // guarded by mu: whether a connection alone is stalled, by its end at the program
	isFrom  func(net.Addr) bool   // guarded by mu: whether a new connection from an address is stalled; nil: none is
}

type state int

const (
	whole state = iota
	stalled
	isCut
	closed
)

// New returns a wire to the server of a URL. It ends with the test.
func New(tb testing.TB, server string) *Wire {
	tb.Helper()
	u, err := url.Parse(server)
	if err != nil {
		tb.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	w := &Wire{listener: l, to: u.Host, ends: make(map[net.Conn]struct{}), stalls: make(map[net.Conn]bool)}
	w.changed = sync.NewCond(&w.mu)
	var serving sync.WaitGroup
	serving.Go(func() { w.serve(&serving) })
	tb.Cleanup(func() {
		if err := l.Close(); err != nil {
			tb.Error(err)
		}
		w.become(closed)
		serving.Wait()
	})
	u.Host = l.Addr().String()
	w.url = u.String()
	return w
}

// URL returns the URL of the server by way of the wire.
func (w *Wire) URL() string { return w.url }

// Stall has nothing arrive any more, in both directions. Connections stay open, and neither side gets
// an error.
func (w *Wire) Stall() { w.become(stalled) }

// Resume ends a stall. Data that was sent during the stall arrives now, even if its sender has hung up
// since.
func (w *Wire) Resume() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state = whole
	w.changed.Broadcast()
}

// Cut ends all connections, and refuses new ones.
func (w *Wire) Cut() { w.become(isCut) }

// Heal ends a stall or a cut. Data that was sent in that time is lost, and so are connections that
// were open before.
func (w *Wire) Heal() { w.become(whole) }

// become changes the state, and ends all connections unless they are to stall.
func (w *Wire) become(s state) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.state = s; s != stalled {
		for end := range w.ends {
			_ = end.Close()
		}
		clear(w.ends)
		clear(w.stalls)
	}
	w.changed.Broadcast()
}

func (w *Wire) serve(serving *sync.WaitGroup) {
	for {
		near, err := w.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", w.to)
		if err != nil { // the server is away
			_ = near.Close()
			continue
		}
		if !w.open(near, far) {
			_ = near.Close()
			_ = far.Close()
			continue
		}
		serving.Go(func() { w.pass(near, near, far) })
		serving.Go(func() { w.pass(near, far, near) })
	}
}

// open adds the ends of a connection, unless the wire is cut.
func (w *Wire) open(near, far net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.state != whole && w.state != stalled {
		return false
	}
	w.ends[near], w.ends[far] = struct{}{}, struct{}{}
	w.stalls[near] = w.isFrom != nil && w.isFrom(near.RemoteAddr())
	return true
}

// pass forwards data from from to to, while neither the wire nor the connection is stalled. near is the end of the
// connection at the program.
func (w *Wire) pass(near, from, to net.Conn) {
	defer w.close(to)
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		w.mu.Lock()
		for w.state == stalled || w.state == whole && w.stalls[near] {
			w.changed.Wait()
		}
		w.mu.Unlock()
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				_ = from.Close()
			}
			return
		}
	}
}

// close closes one end of a connection, because its input has ended. The goroutine that reads from it
// then closes the other end.
func (w *Wire) close(end net.Conn) {
	_ = end.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.ends, end)
	delete(w.stalls, end)
}
