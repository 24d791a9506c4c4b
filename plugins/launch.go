//go:build linux || darwin

package plugins

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/taskengine/taskengine/plugins/internal/calls"
	"github.com/taskengine/taskengine/plugins/internal/wire"
)

// launch starts the program, alone for one task of the quarantine, and returns its session after the program has sent its hello. If launch returns an error,
// the process has ended, and the error says how.
func (h *Host) launch(ctx context.Context, cfg *Config, alone bool) (*session, error) {
	done, err := cfg.Turns.acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("plugins: handler %q: %w", cfg.Name, err)
	}
	defer done()
	ctx, cancel := context.WithTimeoutCause(ctx, cfg.StartTimeout,
		fmt.Errorf("it was not ready within %v", cfg.StartTimeout))
	defer cancel()
	p, addr, err := h.handshake(ctx, cfg)
	if p == nil {
		return nil, fmt.Errorf("plugins: handler %q: cannot start %q: %w", cfg.Name, cfg.Command[0], err)
	}
	if err == nil {
		s := newSession(h, cfg, p, alone)
		if err = s.connect(ctx, addr); err == nil {
			return s, nil
		}
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	status := "it was still running"
	select {
	case <-p.exited: // by itself: that explains more than the kill would
		status = p.exit.String()
	case <-time.After(drainTime):
		p.kill()
	case <-ctx.Done():
		p.kill()
	}
	return nil, fmt.Errorf("plugins: handler %q: %q did not start: %w (%s)%s",
		cfg.Name, cfg.Command[0], err, status, quoteTail(p.out.last()))
}

// connect opens the stream to the process of s after the handshake, and exchanges welcome and hello.
func (s *session) connect(ctx context.Context, addr net.Addr) error {
	if err := s.open(addr); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, s.cancel) // the stream outlives ctx; the exchange does not
	err := s.exchangeHello()
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		s.cancel()
		s.release()
	}
	return err
}

// minFrame is the least limit of bytes in one frame from the handler. It is far above small values of MaxResult and
// MaxPayload, so that an answer that is too large is refused and does not break the stream.
const minFrame = 16 << 20

// open opens the stream to the process: by gRPC to addr, or as lines over its standard input and output.
func (s *session) open(addr net.Addr) error {
	most := max(minFrame, 2*(s.cfg.MaxResult+s.cfg.MaxPayload)) + 2*wire.FrameBytes
	if p := s.proc; p.lines != nil {
		s.stream = wire.NewLines(p.lines, p.Stdin, 2*most) // base64 is longer
		s.release = func() { p.Stdout.Close() }
		context.AfterFunc(s.ctx, func() { _ = p.Stdout.SetReadDeadline(time.Now()) })
		return nil
	}
	conn, err := grpc.NewClient("passthrough:///handler",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, addr.Network(), addr.String())
		}),
		grpc.WithIdleTimeout(0),
		grpc.WithInitialWindowSize(4<<20), grpc.WithInitialConnWindowSize(4<<20),
		grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(most),
			grpc.MaxCallSendMsgSize(math.MaxInt32)))
	if err != nil {
		return err
	}
	s.release = func() { conn.Close() }
	if s.stream, err = wire.NewHandlerClient(conn).Work(s.ctx); err != nil {
		s.release()
		return fmt.Errorf("it does not serve the handler protocol: %w", err)
	}
	return nil
}

// exchangeHello sends the welcome and stores the hello, or returns the mistake in the hello.
func (s *session) exchangeHello() error {
	welcome := &wire.Welcome{
		Protocol: wire.Protocol, Host: s.cfg.Host, Name: s.cfg.Name,
		Slots: uint32(s.cfg.Slots), MaxResultBytes: uint64(s.cfg.MaxResult), MaxPayloadBytes: uint64(s.cfg.MaxPayload), Features: calls.Features,
	}
	if err := s.stream.Send(&wire.ToHandler{Welcome: welcome}); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, wire.ErrMaybeSent) {
		return fmt.Errorf("send the welcome: %w", err) // Recv returns the reason of the others
	}
	frame, err := s.stream.Recv()
	if err != nil {
		return fmt.Errorf("it does not serve the handler protocol: %w", err)
	}
	hello := frame.GetHello()
	switch {
	case hello == nil:
		return errors.New("its first frame is not a hello")
	case hello.GetProtocol() != wire.Protocol:
		return fmt.Errorf("it speaks version %d of the protocol, this host version %d", hello.GetProtocol(), wire.Protocol)
	case len(hello.GetTypes()) == 0:
		return errors.New("it serves no task type")
	case hello.GetSlots() == 0:
		return errors.New("it has no slot to run a task in")
	}
	s.setHello(hello, frame.GetCredits())
	s.proc.out.setOnlyCall(s.onlyCall)
	return nil
}
