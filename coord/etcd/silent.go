package etcd

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// silence closes connections to members that take requests and do not answer, because their process or machine hangs: the
// library sends a part of the requests there, and two renewals of a lease in a row are one too many. It would notice only
// by the probes of idle connections, which etcd does not allow to be more frequent than every five seconds. A connection is
// closed if a request had no answer in its time, and nothing at all came from the member in that time. The library then uses
// the other members, until this one answers again.
type silence struct {
	patience time.Duration // a request that had less time says nothing
}

// errSilent is why a member is not used.
var errSilent = errors.New("the server takes requests and does not answer")

// connection is a connection to a member. It is in the AuthInfo of the requests that were sent on it.
type connection struct {
	net.Conn
	note  func(error)  // notes why the connection ended
	begin time.Time    // of the connection
	heard atomic.Int64 // the nanoseconds from begin to the last read
}

// Read implements [net.Conn].
func (c *connection) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.heard.Store(int64(time.Since(c.begin)))
	}
	return n, err
}

// sentOn is an AuthInfo that has the connection of a request.
type sentOn struct {
	credentials.AuthInfo
	connection *connection
}

// options returns the options that close silent connections.
func (s silence) options() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(s.unary), grpc.WithChainStreamInterceptor(s.stream)}
}

// unary is the interceptor of requests with one answer.
func (s silence) unary(
	ctx context.Context, method string, request, answer any, cc *grpc.ClientConn, next grpc.UnaryInvoker, o ...grpc.CallOption,
) error {
	var p peer.Peer
	begin := time.Now()
	err := next(ctx, method, request, answer, cc, append(o, grpc.Peer(&p))...)
	s.ended(&p, begin, err)
	return err
}

// stream is the interceptor of streams.
func (s silence) stream(
	ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, next grpc.Streamer, o ...grpc.CallOption,
) (grpc.ClientStream, error) {
	p, begin := new(peer.Peer), time.Now()
	broken, _ := ctx.Value(brokenKey{}).(context.CancelCauseFunc)
	stream, err := next(ctx, desc, cc, method, append(o, grpc.Peer(p))...)
	if err != nil {
		if broken != nil {
			broken(&brokenError{err})
		}
		return nil, err
	}
	return &timed{stream, func(err error) {
		s.ended(p, begin, err)
		if broken != nil {
			broken(&brokenError{err})
		}
	}}, nil
}

// brokenKey is the key of the function of a context that is called when a stream ends which was opened with the context.
type brokenKey struct{}

// brokenError is why a stream has ended.
type brokenError struct{ cause error }

func (e *brokenError) Error() string { return e.cause.Error() }

// whenBroken returns a context that has its streams end the context of cancel before the library can open others.
func whenBroken(ctx context.Context, cancel context.CancelCauseFunc) context.Context {
	return context.WithValue(ctx, brokenKey{}, cancel)
}

// timed is a stream that reports its end.
type timed struct {
	grpc.ClientStream
	ended func(error)
}

// RecvMsg implements [grpc.ClientStream].
func (t *timed) RecvMsg(m any) error {
	err := t.ClientStream.RecvMsg(m)
	if err != nil {
		t.ended(err)
	}
	return err
}

// ended closes the connection of a request that began at a time and ended with err, if it was silent in between.
func (s silence) ended(p *peer.Peer, begin time.Time, err error) {
	if status.Code(err) != codes.DeadlineExceeded || time.Since(begin) < s.patience {
		return
	}
	on, ok := p.AuthInfo.(sentOn)
	if !ok || on.connection.begin.Add(time.Duration(on.connection.heard.Load())).After(begin) {
		return
	}
	on.connection.note(errSilent)
	_ = on.connection.Close() // it is of no use with or without an error
}
