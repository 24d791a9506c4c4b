package server

import (
	"log/slog"
	"net"
	"sync"

	"github.com/taskengine/taskengine/internal/ratelog"
)

// limitedListener bounds the number of open connections. Further connections wait in the operating system, where they use
// no file descriptor of the process.
type limitedListener struct {
	net.Listener
	slots  chan struct{} // one value for each open connection
	closed chan struct{} // closed by Close
	once   sync.Once     // closes closed
	log    *slog.Logger
	full   ratelog.Limiter // of the log lines that say that all slots are taken
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
	return &limitedConn{Conn: c, release: sync.OnceFunc(func() { <-l.slots })}, nil
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
			"address", l.Addr().String(), "connections", cap(l.slots), "do", "raise the limit of open files (ulimit -n, LimitNOFILE), or have clients close what they do not use")
	}
	select {
	case l.slots <- struct{}{}:
		return nil
	case <-l.closed:
		return net.ErrClosed
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
	release func()
}

// Close implements [net.Conn].
func (c *limitedConn) Close() error {
	err := c.Conn.Close()
	c.release()
	return err
}
