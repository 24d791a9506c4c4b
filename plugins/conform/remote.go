package conform

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/taskengine/taskengine/plugins/internal/wire"
)

// examToken is the value of TASKENGINE_TOKEN for workers.
const examToken = "te_a_token_of_the_examination"

// Times of the welcome to a worker.
const (
	workerLiveness  = time.Hour // the node of the examination sends no pings; one check has a short one of its own
	workerReconnect = time.Minute
)

// errVanished ends the streams of workers when the node vanishes.
var errVanished = status.Error(codes.Unavailable, "the node has stopped")

// node is the server for one process of a worker.
type node struct {
	wire.UnimplementedWorkersServer
	server *grpc.Server
	links  chan *link // streams with a received first frame
	serves sync.WaitGroup

	mu      sync.Mutex
	refusal error // guarded by mu: the error that refuses streams; nil accepts them
	refused int   // guarded by mu: number of refused streams
}

// link is a stream of a worker. It implements [wire.Stream].
type link struct {
	grpc.BidiStreamingServer[wire.FromHandler, wire.ToHandler]
	first *wire.FromHandler
	token string // of the header authorization
	end   func(error)
}

// CloseSend ends the stream in order.
func (l *link) CloseSend() error {
	l.end(nil)
	return nil
}

// listen serves a node on this machine, for one process.
func listen() (n *node, address string, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	n = &node{server: grpc.NewServer(grpc.MaxRecvMsgSize(maxResult + 2*wire.FrameBytes)), links: make(chan *link, 16)}
	wire.RegisterWorkersServer(n.server, n)
	n.serves.Go(func() { _ = n.server.Serve(listener) })
	return n, listener.Addr().String(), nil
}

func (n *node) stop() {
	n.server.Stop()
	n.serves.Wait()
}

// refuse has streams refused from now on, or accepted if why is nil.
func (n *node) refuse(why error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.refusal, n.refused = why, 0
}

// refusals returns how many streams were refused since refuse was called.
func (n *node) refusals() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.refused
}

// Work implements the method of the protocol.
func (n *node) Work(stream grpc.BidiStreamingServer[wire.FromHandler, wire.ToHandler]) error {
	n.mu.Lock()
	why := n.refusal
	if why != nil {
		n.refused++
	}
	n.mu.Unlock()
	if why != nil {
		return why
	}
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	l := &link{BidiStreamingServer: stream, first: first, end: func(err error) {
		select {
		case ended <- err:
		default:
		}
	}}
	if md, ok := metadata.FromIncomingContext(stream.Context()); ok {
		l.token = strings.Join(md.Get("authorization"), ", ")
	}
	select {
	case n.links <- l:
	case <-stream.Context().Done():
		return stream.Context().Err()
	}
	select {
	case err := <-ended:
		return err
	case <-stream.Context().Done():
		return stream.Context().Err()
	}
}

// workerOf makes a welcome one for a worker.
func workerOf(w *wire.Welcome) *wire.Welcome {
	w.Liveness, w.Reconnect = workerLiveness.Microseconds(), workerReconnect.Microseconds()
	w.Features = append(w.Features, "earlier")
	return w
}

// openRemote starts the program as a worker for one check, which must call endSession.
func (x *exam) openRemote(w *wire.Welcome) (*session, error) {
	n, address, err := listen()
	if err != nil {
		return nil, err
	}
	p, err := x.startWith("TASKENGINE_ADDRESS="+address, "TASKENGINE_TOKEN="+examToken)
	if err != nil {
		n.stop()
		return nil, err
	}
	p.drainOutput()
	s := x.newSession(p, "grpc", w)
	s.node = n
	s.sever = func() {}
	close(s.over) // nothing is read yet
	if err := s.accept(w); err != nil {
		x.endSession(s)
		return nil, err
	}
	return s, nil
}

// accept waits for the next stream of the worker, and goes on with it.
func (s *session) accept(w *wire.Welcome) error {
	l, err := s.offered()
	if err != nil {
		return err
	}
	return s.goOn(l, w)
}

// offered waits for the next stream of the worker.
func (s *session) offered() (*link, error) {
	timer := time.NewTimer(s.patience)
	defer timer.Stop()
	select {
	case l := <-s.node.links:
		return l, nil
	case <-s.proc.exited:
		return nil, fmt.Errorf("it did not connect, but %s%s", s.proc.state(), s.proc.lastErrors())
	case <-timer.C:
		return nil, fmt.Errorf("it did not connect within %v%s", s.patience, s.proc.lastErrors())
	case <-s.ctx.Done():
		return nil, context.Cause(s.ctx)
	}
}

// goOn greets the worker on a stream, and records its frames.
func (s *session) goOn(l *link, w *wire.Welcome) error {
	s.mu.Lock()
	s.welcome, s.stream, s.link = w, l, l
	s.first, s.ended, s.credits, s.sent = l.first, nil, 0, 0
	clear(s.finishes)
	s.mu.Unlock()
	s.over = make(chan struct{})
	s.sever = func() { l.end(errVanished) }
	go s.read()
	if err := s.send(&wire.ToHandler{Welcome: w}); err != nil {
		return fmt.Errorf("the welcome could not be sent: %w", err)
	}
	return nil
}

// cut ends the stream as a network does that breaks, and waits for the next one.
func (s *session) cut() (*link, error) {
	s.sever()
	<-s.over
	return s.offered()
}

// slots returns how many runs the program has said that it takes at once, or the node has allowed it.
func (s *session) slots() int {
	n := int(s.first.GetHello().GetSlots())
	if s.node != nil {
		n = min(n, int(s.welcome.GetSlots()))
	}
	return n
}

// startWith starts the program with further variables in its environment, and without the variables of
// a host.
func (x *exam) startWith(env ...string) (*program, error) {
	base := x.Env
	x.Env = append(slices.Clone(base), env...)
	defer func() { x.Env = base }()
	return x.start(false)
}
