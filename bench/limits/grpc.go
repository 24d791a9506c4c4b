package limits

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
)

const (
	payloadSize = 256
	callers     = 128 // of unary calls at once
	inFlight    = 256 // messages on a stream, or messages in messages
	batchSize   = 64
)

// message is a list of strings: the type that comes with protobuf which can hold several payloads. The
// payloads are letters.
type message = fieldmaskpb.FieldMask

func newMessage(payloads int) *message {
	m := new(message)
	for range payloads {
		m.Paths = append(m.Paths, strings.Repeat("x", payloadSize))
	}
	return m
}

func grpcProbes() []probe {
	return []probe{
		{
			limits:  []Limit{{"grpc/unix/unary/p50", Nanoseconds, "round trip of a call, median"}},
			share:   1,
			measure: overSocket(measureCalls),
		},
		{
			limits:  []Limit{{"grpc/unix/unary", PerSecond, fmt.Sprintf("calls, %d at a time", callers)}},
			share:   1,
			measure: overSocket(measureManyCalls),
		},
		{
			limits:  []Limit{{"grpc/unix/stream/p50", Nanoseconds, "round trip of a message on a stream, median"}},
			share:   1,
			measure: overSocket(measureStream),
		},
		{
			limits:  []Limit{{"grpc/unix/pipelined", PerSecond, fmt.Sprintf("messages on a stream and back, %d in flight", inFlight)}},
			share:   1,
			measure: overSocket(func(ctx context.Context, t *trial, c *grpc.ClientConn) error { return measurePipeline(ctx, t, c, 1) }),
		},
		{
			limits: []Limit{{"grpc/unix/batched", PerSecond, fmt.Sprintf("the same, %d of them together", batchSize)}},
			share:  1,
			measure: overSocket(func(ctx context.Context, t *trial, c *grpc.ClientConn) error {
				return measurePipeline(ctx, t, c, batchSize)
			}),
		},
	}
}

const (
	callMethod   = "/limits.Echo/Call"
	streamMethod = "/limits.Echo/Stream"
)

// echo is a service that returns the message it receives.
var echo = grpc.ServiceDesc{
	ServiceName: "limits.Echo",
	HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{
		MethodName: "Call",
		Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			m := new(message)
			return m, decode(m)
		},
	}},
	Streams: []grpc.StreamDesc{{StreamName: "Stream", ClientStreams: true, ServerStreams: true, Handler: echoStream}},
}

func echoStream(_ any, s grpc.ServerStream) error {
	for {
		m := new(message)
		if err := s.RecvMsg(m); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := s.SendMsg(m); err != nil {
			return err
		}
	}
}

// overSocket calls a measurement with a connection to an echo in this process. The socket is in the
// default folder for temporary files, since its path must be short.
func overSocket(measure func(context.Context, *trial, *grpc.ClientConn) error) func(context.Context, *trial) error {
	return func(ctx context.Context, t *trial) (err error) {
		dir, err := os.MkdirTemp("", "taskengine-limits-")
		if err != nil {
			return fmt.Errorf("make a folder for a socket: %w", err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		path := filepath.Join(dir, "socket")
		listener, err := net.Listen("unix", path)
		if err != nil {
			return err
		}
		server := grpc.NewServer(grpc.WaitForHandlers(true))
		server.RegisterService(&echo, nil)
		served := make(chan error, 1)
		go func() { served <- server.Serve(listener) }()
		defer func() {
			server.Stop()
			err = errors.Join(err, <-served)
		}()
		conn, err := grpc.NewClient("unix:"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, conn.Close()) }()
		return measure(ctx, t, conn)
	}
}

func measureCalls(ctx context.Context, t *trial, conn *grpc.ClientConn) error {
	request, answer := newMessage(1), new(message)
	return t.quantiles(ctx, func() (time.Duration, error) {
		began := time.Now()
		err := conn.Invoke(ctx, callMethod, request, answer)
		return time.Since(began), err
	})
}

func measureManyCalls(ctx context.Context, t *trial, conn *grpc.ClientConn) error {
	request := newMessage(1)
	return t.repeat(ctx, func(end time.Time) ([]float64, error) {
		rate, err := together(ctx, callers, end, func(int) (int, error) {
			return 1, conn.Invoke(ctx, callMethod, request, new(message))
		})
		return []float64{rate}, err
	})
}

func measureStream(ctx context.Context, t *trial, conn *grpc.ClientConn) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the stream
	s, err := conn.NewStream(ctx, &echo.Streams[0], streamMethod)
	if err != nil {
		return err
	}
	request, answer := newMessage(1), new(message)
	return t.quantiles(ctx, func() (time.Duration, error) {
		began := time.Now()
		if err := s.SendMsg(request); err != nil {
			return 0, err
		}
		err := s.RecvMsg(answer)
		return time.Since(began), err
	})
}

// measurePipeline measures a stream that is kept full of messages with several payloads each.
func measurePipeline(ctx context.Context, t *trial, conn *grpc.ClientConn, payloads int) error {
	request := newMessage(payloads)
	return t.repeat(ctx, func(end time.Time) ([]float64, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		s, err := conn.NewStream(ctx, &echo.Streams[0], streamMethod)
		if err != nil {
			return nil, err
		}
		began := time.Now()
		tokens := make(chan struct{}, max(1, inFlight/payloads))
		sent := make(chan error, 1)
		go func() { sent <- fill(ctx, s, request, end, tokens) }()
		n, err := drain(s, tokens)
		rate := perSecond(n*int64(payloads), began)
		cancel() // if receiving failed, the sender may wait for a token
		if failed := <-sent; err == nil {
			err = failed
		}
		return []float64{rate}, err
	})
}

// fill sends messages until the end, each for a token.
func fill(ctx context.Context, s grpc.ClientStream, m *message, end time.Time, tokens chan<- struct{}) error {
	for first := true; first || time.Now().Before(end); first = false {
		select {
		case tokens <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := s.SendMsg(m); err != nil {
			return err
		}
	}
	return s.CloseSend()
}

// drain returns a token for each answer. It returns the number of answers.
func drain(s grpc.ClientStream, tokens <-chan struct{}) (n int64, err error) {
	answer := new(message)
	for {
		err := s.RecvMsg(answer)
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
		<-tokens
		n++
	}
}
