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

// Limits of connections. A request may take as long as the longest poll and some: when
// the time for reading is over, net/http takes the client for gone, even if all is read.
const (
	readHeaderTimeout = 10 * time.Second
	readTimeout       = MaxWait + 30*time.Second
	writeTimeout      = MaxWait + 30*time.Second
	idleTimeout       = 2 * time.Minute
	maxHeader         = 64 << 10
	maxStreams        = 1000 // requests at once on one HTTP/2 connection
)

// Listener is an address that is served, over HTTP/1.1 and HTTP/2 without TLS.
type Listener struct {
	server *http.Server
	addr   net.Addr
	ended  chan struct{} // closed when nothing is accepted any more
	err    error         // why, unless the listener was closed; set before ended is closed
}

// ListenConfig says what is served where.
type ListenConfig struct {
	Address string // host:port
	Handler http.Handler
	Strict  bool         // on loopback, refuse callers that use another name than that of loopback
	Log     *slog.Logger // of what goes wrong with connections

	// MaxConnections is how many connections are accepted at once; others wait until one ends,
	// and Log is told once a minute at most. Zero is any number.
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

// Addr returns the address that is served, with the port that was chosen if none was
// given.
func (l *Listener) Addr() net.Addr { return l.addr }

// Loopback reports whether only this machine reaches the listener.
func (l *Listener) Loopback() bool { return isLoopback(l.addr) }

// Close accepts nothing more and waits for the requests under way; when ctx ends first,
// it breaks them off and returns its error.
func (l *Listener) Close(ctx context.Context) error {
	err := l.server.Shutdown(ctx)
	if err != nil {
		err = errors.Join(fmt.Errorf("requests to %s were broken off: %w", l.addr, err), l.server.Close())
	}
	<-l.ended
	return errors.Join(err, l.err)
}

// Ended is closed when nothing is accepted any more; if nobody closed the listener,
// Close says why.
func (l *Listener) Ended() <-chan struct{} { return l.ended }
