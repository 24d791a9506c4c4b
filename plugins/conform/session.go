package conform

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/taskengine/taskengine/plugins/internal/wire"
)

const (
	maxResult      = 8 << 20  // bytes, as the welcome says
	maxPayload     = 64 << 10 // bytes, as the welcome says
	unexpectedTime = 300 * time.Millisecond
)

// session is a process after its handshake and the stream to it. The goroutine of the examination calls its methods;
// another goroutine runs read.
type session struct {
	ctx       context.Context // of the examination
	proc      *program
	transport string
	patience  time.Duration
	welcome   *wire.Welcome
	stream    wire.Stream
	node      *node              // that a worker connects to; else nil
	link      *link              // the stream of a worker; else nil
	raw       io.Writer          // writer of a stream of lines
	sever     context.CancelFunc // breaks the stream
	over      chan struct{}      // closed when reading has ended
	lastRun   uint64
	lastPing  uint64

	mu        sync.Mutex // guards the fields below
	changed   chan struct{}
	first     *wire.FromHandler
	ended     error // why reading ended; nil while it goes on
	credits   int   // in all
	sent      int   // runs in all
	tooMany   string
	asked     map[uint64]bool // pings
	pongs     map[uint64]bool
	runs      map[uint64]*wire.Run
	finishes  map[uint64][]*wire.Finish
	reports   []runReport
	questions []question
	odd       []string
	earlier   []*wire.Finish // of a worker, for attempts of sessions before
	leaving   bool           // a worker has said that it leaves
	withhold  bool           // checkpoints are not answered

	sending sync.Mutex // guards writing to the stream
}

// newSession returns the session of a process, without a stream.
func (x *exam) newSession(p *program, transport string, welcome *wire.Welcome) *session {
	return &session{
		ctx: x.ctx, proc: p, transport: transport, patience: x.Patience, welcome: welcome,
		over: make(chan struct{}), changed: make(chan struct{}),
		asked: map[uint64]bool{}, pongs: map[uint64]bool{}, runs: map[uint64]*wire.Run{}, finishes: map[uint64][]*wire.Finish{},
	}
}

// connect opens the stream to a process after its handshake.
func (x *exam) connect(p *program, h handshake, welcome *wire.Welcome) (*session, error) {
	ctx, cancel := context.WithCancel(x.ctx)
	s := x.newSession(p, h.transport, welcome)
	if h.transport == "json" {
		s.stream, s.raw = wire.NewLines(p.lines, p.stdin, 4*maxResult), p.stdin
		s.sever = func() {
			cancel()
			p.stdin.Close()
			_ = p.stdout.SetReadDeadline(time.Now())
		}
	} else {
		p.drainOutput()
		conn, err := grpc.NewClient("passthrough:///handler",
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, h.network, h.address)
			}),
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxResult+2*wire.FrameBytes), grpc.MaxCallSendMsgSize(math.MaxInt32)))
		if err != nil {
			cancel()
			return nil, err
		}
		s.sever = func() { conn.Close(); cancel() }
		if s.stream, err = wire.NewHandlerClient(conn).Work(ctx); err != nil {
			s.sever()
			return nil, fmt.Errorf("it does not serve the method Work at %s: %w", h.address, err)
		}
	}
	go s.read()
	if err := s.send(&wire.ToHandler{Welcome: welcome}); err != nil {
		return s, fmt.Errorf("the welcome could not be sent: %w", err)
	}
	return s, s.await("its first frame", func() bool { return s.first != nil })
}

// read records frames until the stream ends.
func (s *session) read() {
	defer close(s.over)
	for {
		frame, err := s.stream.Recv()
		var answers []*wire.Stored
		s.mu.Lock()
		switch {
		case err == nil:
			s.record(frame)
			if !s.withhold {
				answers = storedOf(frame)
			}
		case s.raw != nil && !isEnd(err): // a line that is no frame: the next one may be
			s.recordOddity(err.Error())
			err = nil
		default:
			s.ended = err
		}
		close(s.changed)
		s.changed = make(chan struct{})
		s.mu.Unlock()
		if err != nil {
			return
		}
		if len(answers) > 0 {
			_ = s.send(&wire.ToHandler{Stored: answers}) // after an error reading ends, too
		}
	}
}

// send sends a frame.
func (s *session) send(f *wire.ToHandler) error {
	return s.write(func() error { return s.stream.Send(f) })
}

// write calls frame, which writes a frame. It breaks the stream if that takes too long because the program does not read.
func (s *session) write(frame func() error) error {
	timer := time.AfterFunc(s.patience+largePatience, s.sever)
	defer timer.Stop()
	defer context.AfterFunc(s.ctx, s.sever)()
	s.sending.Lock()
	err := frame()
	s.sending.Unlock()
	if err == nil {
		return nil
	}
	s.mu.Lock()
	ended := s.ended
	s.mu.Unlock()
	return fmt.Errorf("the stream is broken: %w; %s", errors.Join(err, ended), s.state())
}

// kill kills the process and ends the session.
func (s *session) kill() {
	s.proc.kill()
	s.sever()
	<-s.over
	if s.node != nil {
		s.node.stop()
	}
}
