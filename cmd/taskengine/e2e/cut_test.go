package e2e

import (
	"errors"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
)

// wire is a network between a node and its database that can be cut: then no bytes arrive, and
// neither side gets an error.
type wire struct {
	listener net.Listener
	to       string

	mu     sync.Mutex
	whole  *sync.Cond
	isCut  bool                  // guarded by mu
	closed bool                  // guarded by mu
	ends   map[net.Conn]struct{} // guarded by mu
}

func newWire(t *testing.T, to string) *wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{listener: l, to: to, ends: make(map[net.Conn]struct{})}
	w.whole = sync.NewCond(&w.mu)
	var serving sync.WaitGroup
	serving.Go(func() { w.serve(&serving) })
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		w.mu.Lock()
		w.closed = true
		w.sever()
		w.whole.Broadcast()
		w.mu.Unlock()
		serving.Wait()
	})
	return w
}

// through returns a database's URL by way of the wire.
func (w *wire) through(t *testing.T, databaseURL string) string {
	return with(t, databaseURL, func(u *url.URL, _ url.Values) { u.Host = w.listener.Addr().String() })
}

// cut has nothing arrive any more.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.isCut = true
}

// mend has everything arrive again that is sent from now on. What was connected before
// has timed out by then, as far as the other end knows.
func (w *wire) mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.isCut = false
	w.sever()
	w.whole.Broadcast()
}

// sever ends all connections. It is called with mu held.
func (w *wire) sever() {
	for end := range w.ends {
		_ = end.Close()
	}
	clear(w.ends)
}

func (w *wire) serve(serving *sync.WaitGroup) {
	for {
		near, err := w.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", w.to)
		if err != nil { // the database is away
			_ = near.Close()
			continue
		}
		w.mu.Lock()
		w.ends[near], w.ends[far] = struct{}{}, struct{}{}
		w.mu.Unlock()
		serving.Go(func() { w.pass(near, far) })
		serving.Go(func() { w.pass(far, near) })
	}
}

// pass passes on what arrives, unless the wire is cut.
func (w *wire) pass(from, to net.Conn) {
	defer to.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		w.mu.Lock()
		for w.isCut && !w.closed {
			w.whole.Wait()
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
