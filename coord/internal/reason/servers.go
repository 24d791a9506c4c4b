package reason

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/taskengine/taskengine/coord"
)

// Servers records why the newest connections to the servers of a coordinator failed: the libraries connect again and
// again, and do not report it. It is safe for concurrent use.
type Servers struct {
	count  int         // how many there are
	config *tls.Config // of this node; nil: connections are not encrypted

	mu      sync.Mutex
	failed  map[string]error // guarded by mu: by the address of the server
	changed chan struct{}    // guarded by mu: closed by the next change
}

// NewServers returns a record of servers, each of which has one address.
func NewServers(count int, config *tls.Config) *Servers {
	return &Servers{count: count, config: config, failed: map[string]error{}, changed: make(chan struct{})}
}

// Err returns why connections fail, or nil if none does. It is a [coord.ErrRefused] if no server is left that could accept
// this node.
func (s *Servers) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []error
	refusals := 0
	for _, address := range slices.Sorted(maps.Keys(s.failed)) {
		all = append(all, s.failed[address])
		if errors.Is(s.failed[address], coord.ErrRefused) {
			refusals++
		}
	}
	err := errors.Join(all...)
	if err != nil && refusals < s.count {
		return errors.New(err.Error())
	}
	return err
}

// Explain adds the error of Err to the error of a request.
func (s *Servers) Explain(err error) error {
	if failed := s.Err(); failed != nil {
		return fmt.Errorf("%w: %w", err, failed)
	}
	return err
}

// Guard returns a context that ends when connections to all servers are refused. Its cause is then Err. The caller calls
// the function, which ends the context as well.
func (s *Servers) Guard(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		for {
			s.mu.Lock()
			changed := s.changed
			s.mu.Unlock()
			if err := s.Err(); errors.Is(err, coord.ErrRefused) {
				cancel(err)
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-changed:
			}
		}
	}()
	return ctx, func() { cancel(context.Canceled) }
}

// checkWithin is how long a check waits for an answer.
const checkWithin = 10 * time.Second

// errUnanswered says that a check had no answer.
var errUnanswered = fmt.Errorf("no answer within %v", checkWithin)

// Check asks the servers something by a function. If that fails because connections to all servers are refused, or because
// there is no answer within ten seconds, the error says so.
func (s *Servers) Check(ctx context.Context, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, checkWithin, errUnanswered)
	defer cancel()
	ctx, release := s.Guard(ctx)
	defer release()
	err := ask(ctx)
	if why := context.Cause(ctx); err != nil && why != nil {
		return why
	}
	return err
}

// Note notes the result of the newest connection to a server; nil is that the server has answered.
func (s *Servers) Note(address string, err error) {
	if err != nil {
		err = s.explain(address, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		delete(s.failed, address)
	} else {
		s.failed[address] = err
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// Watch returns a connection to a server that notes the outcome of its first read: with TLS 1.3, a client learns only
// then that the server refuses its certificate. A library that is slow may find the connection ended when it writes, and
// close it without a read. So Close then reads the last words of the server.
func (s *Servers) Watch(address string, c net.Conn) net.Conn {
	return &watched{Conn: c, servers: s, address: address}
}

type watched struct {
	net.Conn
	servers *Servers
	address string
	first   sync.Once
	ended   atomic.Bool // the server has ended the connection, as a write has found
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	w.first.Do(func() {
		switch {
		case n > 0:
			w.servers.Note(w.address, nil)
		case err != nil && !errors.Is(err, net.ErrClosed): // this node closed it
			w.servers.Note(w.address, err)
		}
	})
	return n, err
}

func (w *watched) Write(p []byte) (int, error) {
	n, err := w.Conn.Write(p)
	if isEnd(err) {
		w.ended.Store(true)
	}
	return n, err
}

// lastWords is how long Close may read. The bytes that it reads are there already.
const lastWords = time.Second

func (w *watched) Close() error {
	if w.ended.Load() && w.SetReadDeadline(time.Now().Add(lastWords)) == nil {
		_, _ = w.Read(make([]byte, 1))
	}
	return w.Conn.Close()
}

// explain returns the meaning of an error of a connection.
func (s *Servers) explain(address string, err error) error {
	var (
		name    x509.HostnameError
		unknown x509.UnknownAuthorityError
		verify  *tls.CertificateVerificationError
		plain   tls.RecordHeaderError
	)
	refused := func(format string) error {
		return &Error{What: fmt.Sprintf(format, address), Refused: true, Cause: err}
	}
	switch {
	case errors.As(err, &plain):
		return refused("%s does not speak TLS: use its port for TLS, or configure none")
	case errors.As(err, &name):
		return refused("the certificate of %s is for another name: connect by a name that is in the certificate")
	case errors.As(err, &unknown):
		return refused("the certificate of %s is not signed by a known authority: configure the certificate of the authority that signed it")
	case errors.As(err, &verify):
		return refused("the certificate of %s is not valid: replace it")
	case isAlert(err) && !s.presents():
		return refused("%s refuses the connection, and no client certificate is configured: configure one that is signed by an authority that the server trusts")
	case isAlert(err):
		return refused("%s refuses the connection with the client certificate: use one that is signed by an authority that the server trusts")
	case isEnd(err) && s.config == nil:
		return fmt.Errorf("%s closes connections without an answer: it may demand TLS, which is not configured, or be without a majority of servers (%w)", address, err)
	case isEnd(err):
		return fmt.Errorf("%s closes connections without an answer: it may not speak TLS, which is configured, or be without a majority of servers (%w)", address, err)
	}
	return fmt.Errorf("%s: %w", address, err)
}

// presents reports whether this node has a client certificate.
func (s *Servers) presents() bool {
	return s.config != nil && (len(s.config.Certificates) > 0 || s.config.GetClientCertificate != nil)
}

// isAlert reports whether the other side of a TLS connection has refused it.
func isAlert(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error"
}

// isEnd reports whether the other side ended a connection.
func isEnd(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
