package server

import (
	"container/list"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/taskengine/taskengine/internal/ratelog"
)

// silence is how long a connection may take up to its first request if others wait for its place.
const silence = time.Second

// limitedListener bounds the number of open connections. Further connections wait in the operating system, where they use
// no file descriptor of the process. When no more are allowed, those are closed that have made no request for longer than
// [silence], the oldest first: connections that send nothing do not keep others out.
type limitedListener struct {
	net.Listener
	slots  chan struct{} // one value for each open connection
	closed chan struct{} // closed by Close
	once   sync.Once     // closes closed
	log    *slog.Logger
	full   ratelog.Limiter // of the log lines that say that all slots are taken

	mu     sync.Mutex
	silent list.List // of *limitedConn, guarded by mu: those without a request, the oldest first
}

func limitListener(l net.Listener, most int, log *slog.Logger) net.Listener {
	if most <= 0 {
		return l
	}
	return &limitedListener{Listener: l, slots: make(chan struct{}, most), closed: make(chan struct{}), log: log}
}

// Accept implements [net.Listener].
func (l *limitedListener) Accept() (net.Conn, error) {
	if err := l.acquire(); err != nil {
		return nil, err
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	limited := &limitedConn{Conn: c, listener: l, since: time.Now(), release: sync.OnceFunc(func() { <-l.slots })}
	l.mu.Lock()
	defer l.mu.Unlock()
	limited.place = l.silent.PushBack(limited)
	return limited, nil
}

// acquire waits for a slot.
func (l *limitedListener) acquire() error {
	select {
	case l.slots <- struct{}{}:
		return nil
	default:
	}
	if l.full.Allow() {
		l.log.Warn("no more connections are accepted until some end: the rest of the file descriptors is for the store and the handlers",
			"address", l.Addr().String(), "connections", cap(l.slots), "do", "raise the limit of open files (ulimit -n, LimitNOFILE), or make clients close unused connections")
	}
	for {
		again := time.NewTimer(l.makeRoom(time.Now()))
		select {
		case l.slots <- struct{}{}:
			again.Stop()
			return nil
		case <-l.closed:
			again.Stop()
			return net.ErrClosed
		case <-again.C:
		}
	}
}

// makeRoom closes the connection that has been silent for the longest time, if that is long enough. It returns when to
// look again.
func (l *limitedListener) makeRoom(now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	oldest := l.silent.Front()
	if oldest == nil {
		return silence
	}
	c := oldest.Value.(*limitedConn)
	if left := silence - now.Sub(c.since); left > 0 {
		return left
	}
	l.forget(c)
	_ = c.Conn.Close() // the peer is gone, or is not to know
	c.release()
	return silence
}

// forget removes a connection from the silent ones. The caller has the mutex.
func (l *limitedListener) forget(c *limitedConn) {
	if c.place != nil {
		l.silent.Remove(c.place)
		c.place = nil
	}
}

// heard notes that a connection has made a request, or has ended.
func heard(c net.Conn) {
	switch c := c.(type) {
	case *routedConn:
		heard(c.Conn)
	case *encryptedConn:
		heard(c.plain)
	case *limitedConn:
		c.listener.mu.Lock()
		defer c.listener.mu.Unlock()
		c.listener.forget(c)
	}
}

// Close implements [net.Listener].
func (l *limitedListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// limitedConn frees its slot when it is closed.
type limitedConn struct {
	net.Conn
	listener *limitedListener
	since    time.Time
	release  func()

	place *list.Element // in listener.silent, guarded by listener.mu; nil after its first request
}

// Close implements [net.Conn].
func (c *limitedConn) Close() error {
	heard(c)
	err := c.Conn.Close()
	c.release()
	return err
}
