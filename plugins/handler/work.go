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
	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/internal/workpool"
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

// Work implements the method of the protocol. The host calls it once.
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
	s := &session{
		features: features(welcome), handlers: w.program.Handlers, batches: batchesOf(w.program.Handlers),
		slots: slots, ctx: ctx, maxResult: welcome.GetMaxResultBytes(), maxPayload: welcome.GetMaxPayloadBytes(),
		wake: wakeup.New(), running: make(map[uint64]*run, slots),
	}
	s.workers = workpool.New(s.work)
	defer s.workers.Close()
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

// Version is the version of this package in the hello.
const Version = "1.0.0"

// session is the stream to the host and the runs on it.
type session struct {
	handlers   Handlers
	batches    []*batch // among handlers
	slots      int
	maxResult  uint64               // in bytes; 0 if the host names no limit
	maxPayload uint64               // of a task that runs again, in bytes; 0 if the host names no limit
	features   map[string]bool      // that the host supports
	ctx        context.Context      // of all runs; ends with the stream
	wake       wakeup.Signal        // wakes send when there is something to send
	workers    *workpool.Pool[*run] // calls the handlers
	runs       sync.WaitGroup       // that are not answered

	mu        sync.Mutex // guards the fields below
	running   map[uint64]*run
	out       []*wire.Finish // to be sent
	reporting []*run         // runs with unsent reports, which are sent before the answers
	pong      uint64         // to be sent, if not 0
}

// receive handles the frames of the host until the stream ends.
func (s *session) receive(stream grpc.BidiStreamingServer[wire.ToHandler, wire.FromHandler]) error {
	for {
		frame, err := stream.Recv()
		if err != nil {
			return err
		}
		s.begin(frame.GetRuns())
		for _, c := range frame.GetCancels() {
			s.stop(c)
		}
		if frame.GetDrain() != nil {
			s.gather(nil, true)
		}
		if n := frame.GetPing(); n != 0 {
			s.mu.Lock()
			s.pong = n
			s.mu.Unlock()
			s.wake.Set()
		}
	}
}

// begin starts the handlers of runs. It refuses runs for which there is no handler or no slot.
func (s *session) begin(runs []*wire.Run) {
	if len(runs) == 0 {
		return
	}
	admitted := make([]*run, 0, len(runs))
	var gathered []*run
	s.mu.Lock()
	for _, w := range runs {
		h := s.handlers[w.GetType()]
		switch {
		case h == nil:
			s.out = append(s.out, refuse(w, fmt.Sprintf("the program does not serve the type %q", w.GetType())))
		case len(s.running) >= s.slots:
			s.out = append(s.out, refuse(w, fmt.Sprintf("the program runs %d tasks already", s.slots)))
		default:
			r := newRun(w, h, s)
			s.running[r.id] = r
			if _, ok := h.(*batch); ok {
				gathered = append(gathered, r)
			} else {
				admitted = append(admitted, r)
			}
		}
	}
	begun := len(admitted) + len(gathered)
	s.runs.Add(begun)
	full := len(s.running) >= s.slots
	s.mu.Unlock()
	if begun < len(runs) {
		s.wake.Set()
	}
	s.workers.Add(admitted...)
	s.gather(gathered, full)
}

// gather adds runs to their batches. If last is set, no further run can come, because there is no free slot or the host
// drains: then no batch waits for more.
func (s *session) gather(runs []*run, last bool) {
	for _, b := range s.batches {
		var members []*member
		for _, r := range runs {
			if r.handler == task.Handler(b) {
				members = append(members, &member{ctx: r, task: &r.task, answer: func(o Outcome) {
					s.conclude(r, func() ([]byte, error) { return o.Result, o.Err })
				}})
			}
		}
		b.add(last, members...)
	}
}

// batchesOf returns the batch handlers in handlers, each once.
func batchesOf(handlers Handlers) []*batch {
	var out []*batch
	for _, h := range handlers {
		if b, ok := h.(*batch); ok && !slices.Contains(out, b) {
			out = append(out, b)
		}
	}
	return out
}

func refuse(run *wire.Run, why string) *wire.Finish {
	return &wire.Finish{RunId: run.GetRunId(), Outcome: &wire.Finish_Refused{Refused: &wire.Refused{Message: why}}}
}

func (s *session) stop(c *wire.Cancel) {
	s.mu.Lock()
	r := s.running[c.GetRunId()]
	s.mu.Unlock()
	if r == nil {
		return
	}
	cause := context.Canceled
	if c.GetReason() == wire.Cancel_REASON_DEADLINE {
		cause = context.DeadlineExceeded
	}
	if m := c.GetMessage(); m != "" && m != cause.Error() {
		cause = fmt.Errorf("%w: %s", cause, m)
	}
	r.stop(cause)
}

// work calls the handler of r and answers.
func (s *session) work(r *run) {
	s.conclude(r, func() ([]byte, error) { return r.handler.Handle(r, &r.task) })
}

// conclude answers r with the result of do, also if do panics or ends its goroutine.
func (s *session) conclude(r *run, do func() ([]byte, error)) {
	var verdict task.Verdict
	returned := false
	defer func() {
		if !returned {
			verdict = task.VerdictOf(nil, task.WithClass("panic", noReturn(recover())))
		}
		s.answer(r, finishOf(r, verdict, r.finish()))
	}()
	result, err := do()
	verdict, returned = task.VerdictOf(result, err), true
}

// noReturn returns the error of a handler that did not return. Whether it did its work is unknown.
func noReturn(panicked any) error {
	if panicked == nil {
		return task.InDoubt(errors.New("the handler ended its goroutine with runtime.Goexit"))
	}
	return task.InDoubt(fmt.Errorf("panic: %v\n%s", panicked, debug.Stack()))
}

// answer queues f, the answer of r, and frees the slot of r.
func (s *session) answer(r *run, f *wire.Finish) {
	s.mu.Lock()
	delete(s.running, r.id)
	s.out = append(s.out, f)
	s.mu.Unlock()
	s.wake.Set()
	s.runs.Done()
}

// send sends answers, each with the credit for the next run, until done is closed.
func (s *session) send(stream grpc.BidiStreamingServer[wire.ToHandler, wire.FromHandler], done <-chan struct{}) {
	frame := new(wire.FromHandler)
	var batch, spare []*wire.Finish
	var said []reports
	for {
		select {
		case <-s.wake.C():
		case <-done:
			return
		}
		s.mu.Lock()
		batch, s.out = s.out, spare[:0]
		said = s.takeReports(said[:0])
		pong := s.pong
		s.pong = 0
		s.mu.Unlock()
		if sendReports(stream, said) != nil {
			return
		}
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

// fit returns how many of fs fit into one frame.
func fit(fs []*wire.Finish) int {
	size := 0
	for i, f := range fs {
		again := f.GetAgain()
		size += 64 + len(f.GetResult()) + len(again.GetResult()) + len(again.GetPayload()) + len(again.GetCheckpoint()) +
			len(f.GetError().GetMessage()) + sizeOf(f.GetChildren(), f.GetSignals())
		if i > 0 && (size > wire.FrameBytes || i == wire.FrameMessages) {
			return i
		}
	}
	return len(fs)
}

// await waits up to limit for the running handlers to return.
func (s *session) await(limit time.Duration) {
	returned := make(chan struct{})
	go func() { s.runs.Wait(); close(returned) }()
	select {
	case <-returned:
	case <-time.After(limit):
	}
}
