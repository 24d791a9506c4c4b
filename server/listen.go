package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Limits of connections. A request may take longer than the longest poll. That holds for the time for reading too: after
// it net/http cancels the context of the request even if all of it was read.
const (
	readHeaderTimeout = 10 * time.Second
	readTimeout       = MaxWait + 30*time.Second
	writeTimeout      = MaxWait + 30*time.Second
	idleTimeout       = 2 * time.Minute
	maxHeader         = 64 << 10
	maxStreams        = 1000 // requests at once on one HTTP/2 connection
)

// Listener serves one address over HTTP/1.1 and HTTP/2 without TLS.
type Listener struct {
	server *http.Server
	addr   net.Addr
	ended  chan struct{} // closed when the listener accepts no more connections
	err    error         // why it ended, nil if it was closed; set before ended is closed
}

// ListenConfig configures a [Listener].
type ListenConfig struct {
	Address string // host:port
	Handler http.Handler
	Strict  bool         // on loopback, refuse all requests to another name than that of loopback
	Log     *slog.Logger // for errors of connections

	// MaxConnections bounds the number of open connections; 0 is no bound. Further connections wait until one ends, and Log
	// gets a line at most once a minute.
	MaxConnections int
}

// Listen serves an address until the listener is closed.
func Listen(ctx context.Context, c ListenConfig) (*Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", c.Address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", c.Address, err)
	}
	accepts := limitListener(l, c.MaxConnections, c.Log)
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	s := &Listener{addr: l.Addr(), ended: make(chan struct{}), server: &http.Server{
		Handler:           guard(c.Handler, isLoopback(l.Addr()), c.Strict),
		Protocols:         &protocols,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(c.Log.Handler(), slog.LevelDebug),
	}}
	go func() {
		defer close(s.ended)
		if err := s.server.Serve(accepts); !errors.Is(err, http.ErrServerClosed) {
			s.err = fmt.Errorf("serve %s: %w", s.addr, err)
		}
	}()
	return s, nil
}

// Addr returns the address of the listener, with the actual port if port 0 was configured.
func (l *Listener) Addr() net.Addr { return l.addr }

// Loopback reports whether the listener is reachable from this machine only.
func (l *Listener) Loopback() bool { return isLoopback(l.addr) }

// Close stops accepting connections and waits for running requests. If ctx ends first, Close aborts them and returns an
// error.
func (l *Listener) Close(ctx context.Context) error {
	err := l.server.Shutdown(ctx)
	if err != nil {
		err = errors.Join(fmt.Errorf("requests to %s were broken off: %w", l.addr, err), l.server.Close())
	}
	<-l.ended
	return errors.Join(err, l.err)
}

// Ended returns a channel that is closed when the listener accepts no more connections. If that happens before Close, then
// Close returns the reason.
func (l *Listener) Ended() <-chan struct{} { return l.ended }
