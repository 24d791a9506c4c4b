package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
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

	// window is how many bytes of a gRPC stream, and of a connection, a client sends before it waits. A fixed window avoids
	// the pings of the library to measure the bandwidth: a ping and its answer for almost every request.
	window = 1 << 20
)

// Listener serves one address over HTTP/1.1 and HTTP/2, with or without TLS.
type Listener struct {
	server *http.Server
	grpc   *grpc.Server // nil if there is none
	addr   net.Addr
	ended  chan struct{} // closed when the listener accepts no more connections
	err    error         // why it ended, nil if it was closed; set before ended is closed
}

// ListenConfig configures a [Listener].
type ListenConfig struct {
	Address string // host:port, or unix: and the path of a socket
	Handler http.Handler
	GRPC    *grpc.Server // serves the connections of gRPC libraries, and is closed with the listener; nil: Handler does
	Strict  bool         // on loopback, refuse all requests to another name than that of loopback
	Log     *slog.Logger // for errors of connections
	TLS     *tls.Config  // how connections are encrypted; nil: they are not

	SocketMode fs.FileMode // the permissions of a socket

	// MaxConnections bounds the number of open connections; 0 is no bound. Further connections wait until one ends, and Log
	// gets a line at most once a minute. Connections that have made no request for a second are closed to make room.
	MaxConnections int
}

// Listen serves an address until the listener is closed.
func Listen(ctx context.Context, c ListenConfig) (*Listener, error) {
	l, err := c.open(ctx)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", c.Address, err)
	}
	accepts := limitListener(l, c.MaxConnections, c.Log)
	if c.TLS != nil {
		accepts = &encryptedListener{accepts, c.TLS}
	}
	var others *passedListener
	if c.GRPC != nil {
		others = newPassedListener(l.Addr())
		accepts = &routingListener{accepts, others}
	}
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	s := &Listener{addr: l.Addr(), grpc: c.GRPC, ended: make(chan struct{}), server: &http.Server{
		Handler:           guard(c.Handler, isLoopback(l.Addr()), c.Strict),
		Protocols:         &protocols,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(c.Log.Handler(), slog.LevelDebug),
		ConnState: func(c net.Conn, state http.ConnState) {
			if state != http.StateNew {
				heard(c)
			}
		},
	}}
	if api, ok := c.Handler.(*API); ok {
		s.server.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, inflowKey{}, &inflow{of: api.intake, from: c.RemoteAddr().String(), close: func() { _ = c.Close() }})
		}
	}
	go s.serve(accepts, others)
	return s, nil
}

// open opens the listener of an address.
func (c ListenConfig) open(ctx context.Context) (net.Listener, error) {
	if path, ok := strings.CutPrefix(c.Address, "unix:"); ok {
		return listenUnix(ctx, path, c.SocketMode)
	}
	return new(net.ListenConfig).Listen(ctx, "tcp", c.Address)
}

// serve serves connections until the listener is closed.
func (l *Listener) serve(accepts net.Listener, others *passedListener) {
	defer close(l.ended)
	var all sync.WaitGroup
	if l.grpc != nil {
		all.Go(func() { _ = l.grpc.Serve(others) }) // it ends when it is stopped
	}
	if err := l.server.Serve(accepts); !errors.Is(err, http.ErrServerClosed) {
		l.err = fmt.Errorf("serve %s: %w", l.addr, err)
		if l.grpc != nil {
			l.grpc.Stop()
		}
	}
	all.Wait()
}

// Addr returns the address of the listener, with the actual port if port 0 was configured.
func (l *Listener) Addr() net.Addr { return l.addr }

// Loopback reports whether the listener is reachable from this machine only.
func (l *Listener) Loopback() bool { return isLoopback(l.addr) }

// Close stops accepting connections and waits for running requests. If ctx ends first, Close aborts them and returns an
// error.
func (l *Listener) Close(ctx context.Context) error {
	stopped := make(chan error, 1)
	go func() { stopped <- l.stopGRPC(ctx) }()
	err := l.server.Shutdown(ctx)
	if err = cmp.Or(err, <-stopped); err != nil {
		err = errors.Join(fmt.Errorf("requests to %s were broken off: %w", l.addr, err), l.server.Close())
	}
	<-l.ended
	return errors.Join(err, l.err)
}

// stopGRPC waits for running requests until ctx ends.
func (l *Listener) stopGRPC(ctx context.Context) error {
	if l.grpc == nil {
		return nil
	}
	stop := context.AfterFunc(ctx, l.grpc.Stop)
	l.grpc.GracefulStop()
	if !stop() {
		return ctx.Err()
	}
	return nil
}

// Ended returns a channel that is closed when the listener accepts no more connections. If that happens before Close, then
// Close returns the reason.
func (l *Listener) Ended() <-chan struct{} { return l.ended }
