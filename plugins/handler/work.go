package handler

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/plugins/internal/wire"
)

// worker serves the one stream of the process.
type worker struct {
	wire.UnimplementedHandlerServer
	program Program
	taken   atomic.Bool
	met     chan struct{} // closed when the stream is open
	over    chan struct{} // closed when the stream has ended
}

// Work is called by the host, once.
func (w *worker) Work(stream grpc.BidiStreamingServer[wire.ToHandler, wire.FromHandler]) error {
	if w.taken.Swap(true) {
		return status.Error(codes.FailedPrecondition, "a handler process has one stream, and it is open")
	}
	close(w.met)
	defer close(w.over)
	frame, err := stream.Recv()
	if err != nil {
		return err
	}
	welcome := frame.GetWelcome()
	if welcome.GetProtocol() != wire.Protocol {
		return status.Errorf(codes.FailedPrecondition, "the host speaks version %d of the protocol, this handler version %d",
			welcome.GetProtocol(), wire.Protocol)
	}
	slots := w.program.Slots
	if welcome.GetSlots() > 0 {
		slots = int(welcome.GetSlots())
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	s := &shift{
		handlers: w.program.Handlers, slots: slots, ctx: ctx, maxResult: welcome.GetMaxResultBytes(),
		wake: make(chan struct{}, 1), running: make(map[uint64]context.CancelCauseFunc, slots),
	}
	err = stream.Send(&wire.FromHandler{Hello: w.hello(slots), Credits: uint32(slots)})
	if err != nil {
		return err
	}
	var sender sync.WaitGroup
	sent := make(chan struct{})
	sender.Go(func() { s.send(stream, sent) })
	err = s.receive(stream)
	cancel(errors.New("the host is gone"))
	s.await(lastMoments)
	close(sent)
	sender.Wait()
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func (w *worker) hello(slots int) *wire.Hello {
	hello := &wire.Hello{
		Protocol: wire.Protocol, Sdk: "go", SdkVersion: Version, Version: w.program.Version, Slots: uint32(slots),
	}
	for t := range w.program.Handlers {
		hello.Types = append(hello.Types, t)
	}
	slices.Sort(hello.Types)
	return hello
}

// Version is the version of this package, as the host gets to know it.
const Version = "1.0.0"

// shift is what the worker does on its stream.
type shift struct {
	handlers  Handlers
	slots     int
	maxResult uint64
	ctx       context.Context // of all runs; ends with the stream
	wake      chan struct{}   // tells send that there is something
	runs      sync.WaitGroup

	mu      sync.Mutex // guards what follows
	running map[uint64]context.CancelCauseFunc
	out     []*wire.Finish // to be sent
	pong    uint64         // to be sent, if not 0
}

// receive does what the host asks for until the stream ends.
func (s *shift) receive(stream grpc.BidiStreamingServer[wire.ToHandler, wire.FromHandler]) error {
	for {
		frame, err := stream.Recv()
		if err != nil {
			return err
		}
		for _, run := range frame.GetRuns() {
			s.begin(run)
		}
		for _, c := range frame.GetCancels() {
			s.stop(c)
		}
		if n := frame.GetPing(); n != 0 {
			s.mu.Lock()
			s.pong = n
			s.mu.Unlock()
			s.notify()
		}
	}
}

func (s *shift) begin(run *wire.Run) {
	h := s.handlers[run.GetType()]
	if h == nil {
		s.answer(refuse(run, fmt.Sprintf("the program does not serve the type %q", run.GetType())))
		return
	}
	ctx, cancel := context.WithCancelCause(s.ctx)
	if !s.admit(run.GetRunId(), cancel) {
		cancel(nil)
		s.answer(refuse(run, fmt.Sprintf("the program runs %d tasks already", s.slots)))
		return
	}
	s.runs.Go(func() { s.run(ctx, h, run) })
}

// admit gives a slot to a run if there is one.
func (s *shift) admit(runID uint64, cancel context.CancelCauseFunc) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.running) >= s.slots {
		return false
	}
	s.running[runID] = cancel
	return true
}

func refuse(run *wire.Run, why string) *wire.Finish {
	return &wire.Finish{RunId: run.GetRunId(), Outcome: &wire.Finish_Refused{Refused: &wire.Refused{Message: why}}}
}

func (s *shift) stop(c *wire.Cancel) {
	s.mu.Lock()
	cancel := s.running[c.GetRunId()]
	s.mu.Unlock()
	if cancel == nil {
		return
	}
	cause := context.Canceled
	if c.GetReason() == wire.Cancel_REASON_DEADLINE {
		cause = context.DeadlineExceeded
	}
	if m := c.GetMessage(); m != "" && m != cause.Error() {
		cause = fmt.Errorf("%w: %s", cause, m)
	}
	cancel(cause)
}

// run runs one attempt and answers it, whatever the handler does.
func (s *shift) run(ctx context.Context, h task.Handler, run *wire.Run) {
	var verdict task.Verdict
	returned := false
	defer func() {
		if !returned {
			verdict = task.VerdictOf(nil, task.WithClass("panic", lostControl(recover())))
		}
		s.answer(finishOf(run.GetRunId(), verdict, s.maxResult))
	}()
	if at := run.GetDeadline(); at != 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, time.UnixMicro(at))
		defer cancel()
	}
	result, err := h.Handle(ctx, taskOf(run))
	verdict, returned = task.VerdictOf(result, err), true
}

func lostControl(panicked any) error {
	if panicked == nil {
		return errors.New("the handler ended its goroutine with runtime.Goexit")
	}
	return fmt.Errorf("panic: %v\n%s", panicked, debug.Stack())
}

// answer queues f to be sent and frees the slot of its run.
func (s *shift) answer(f *wire.Finish) {
	s.mu.Lock()
	cancel := s.running[f.GetRunId()]
	delete(s.running, f.GetRunId())
	s.out = append(s.out, f)
	s.mu.Unlock()
	if cancel != nil {
		cancel(nil)
	}
	s.notify()
}

func (s *shift) notify() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// send sends answers, each with the credit for the next run, until done is closed.
func (s *shift) send(stream grpc.BidiStreamingServer[wire.ToHandler, wire.FromHandler], done <-chan struct{}) {
	frame := new(wire.FromHandler)
	var batch, spare []*wire.Finish
	for {
		select {
		case <-s.wake:
		case <-done:
			return
		}
		s.mu.Lock()
		batch, s.out = s.out, spare[:0]
		pong := s.pong
		s.pong = 0
		s.mu.Unlock()
		for rest := batch; len(rest) > 0 || pong != 0; pong = 0 {
			n := fit(rest)
			frame.Finishes, frame.Credits, frame.Pong = rest[:n], uint32(n), pong
			if stream.Send(frame) != nil {
				return // receive gets the error too
			}
			rest = rest[n:]
		}
		clear(batch)
		spare = batch
	}
}

// fit returns how many of fs go into one frame.
func fit(fs []*wire.Finish) int {
	size := 0
	for i, f := range fs {
		size += 64 + len(f.GetResult()) + len(f.GetAgain().GetResult()) + len(f.GetError().GetMessage())
		if i > 0 && (size > wire.FrameBytes || i == wire.FrameMessages) {
			return i
		}
	}
	return len(fs)
}

// await gives the runs left some time to return.
func (s *shift) await(limit time.Duration) {
	returned := make(chan struct{})
	go func() { s.runs.Wait(); close(returned) }()
	select {
	case <-returned:
	case <-time.After(limit):
	}
}
