package handler

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/internal/workpool"
	"github.com/taskengine/taskengine/plugins/internal/wire"
	"github.com/taskengine/taskengine/task"
)

// stream is the handler's end of the stream to a host or a node.
type stream interface {
	Send(*wire.FromHandler) error
	Recv() (*wire.ToHandler, error)
}

// terms are the features and bounds of a host. They do not change.
type terms struct {
	features              map[string]bool // that the host supports
	maxResult, maxPayload uint64          // of a result, and of a task that runs again, in bytes; 0 if the host names no limit
}

func termsOf(w *wire.Welcome) *terms {
	t := &terms{features: make(map[string]bool), maxResult: w.GetMaxResultBytes(), maxPayload: w.GetMaxPayloadBytes()}
	for _, f := range w.GetFeatures() {
		t.features[f] = true
	}
	return t
}

// session has the runs that a host or a node has sent, and their answers. In a program that a host has started it has one
// stream. In a worker it outlives its streams.
type session struct {
	handlers Handlers
	batches  []*batch                // among handlers
	ctx      context.Context         // of all runs
	cancel   context.CancelCauseFunc // ends ctx
	wake     wakeup.Signal           // wakes send when there is something to send
	workers  *workpool.Pool[*run]    // calls the handlers
	runs     sync.WaitGroup          // that are not answered
	heard    atomic.Bool             // a frame was received since this was last set to false

	mu        sync.Mutex // guards the fields below
	terms     *terms     // of the host of the present stream
	slots     int
	running   map[uint64]*run
	out       []*wire.Finish // unsent
	reporting []*run         // runs with unsent reports, which are sent before the answers
	pong      uint64         // to be sent, if not 0
	credits   uint32         // unsent, in addition to the credits of the answers
	leaving   bool           // to be sent
	kept      *kept          // of a worker; nil in a program that a host has started
	lease     lease          // of a worker
}

// newSession returns a session without a stream. The caller sets its terms and closes it.
func newSession(handlers Handlers, slots int) *session {
	s := &session{
		handlers: handlers, batches: batchesOf(handlers), slots: slots, wake: wakeup.New(), running: make(map[uint64]*run, slots),
		lease: newLease(),
	}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	s.workers = workpool.New(s.work)
	return s
}

// close ends the contexts of the runs, and the goroutines that are idle.
func (s *session) close() {
	s.cancel(nil)
	s.workers.Close()
}

// receive handles the frames of the host until the stream ends.
func (s *session) receive(from stream) error {
	for {
		frame, err := from.Recv()
		if err != nil {
			return err
		}
		s.heard.Store(true)
		if s.kept != nil {
			s.hear(frame)
		}
		s.begin(frame.GetRuns())
		for _, c := range frame.GetCancels() {
			s.stop(c)
		}
		for _, k := range frame.GetStored() {
			s.stored(k)
		}
		for _, k := range frame.GetChecked() {
			s.checked(k)
		}
		for _, d := range frame.GetDocuments() {
			s.read(d)
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

// begin starts the handlers of runs. It refuses runs without a handler or a free slot.
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
		case s.occupied() >= s.slots:
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
	full := s.occupied() >= s.slots
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
				members = append(members, &member{ctx: r, task: &r.task, mayBegin: func() error { return s.mayBegin(r) }, answer: func(o Outcome) {
					s.conclude(r, func() ([]byte, error) { return o.Result, o.Err })
				}})
			}
		}
		b.add(last, members...)
	}
}

// occupied returns how many slots are not free. mu must be held.
func (s *session) occupied() int {
	if s.kept == nil {
		return len(s.running)
	}
	return len(s.running) + s.kept.strays
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
	s.conclude(r, func() ([]byte, error) {
		if why := s.mayBegin(r); why != nil {
			return nil, why
		}
		return r.handler.Handle(r, &r.task)
	})
}

// hear takes the acknowledgements of answers and pongs in a frame, before its runs begin.
func (s *session) hear(frame *wire.ToHandler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := frame.GetReceived(); n != 0 {
		s.kept.acknowledge(n)
	}
	s.lease.hear(frame)
}

// mayBegin returns why the handler of r must not be called any more, or nil.
func (s *session) mayBegin(r *run) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.stray {
		return fmt.Errorf("%w: %w", task.ErrUnavailable, errElsewhere)
	}
	return s.lease.over()
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

// errReturned ends what a handler has begun and not awaited.
var errReturned = errors.New("whether the checkpoint is stored is unknown: the handler has returned")

// errOver ends the checks that a handler does not wait for.
var errOver = errors.New("the handler has returned")

// answer queues f, the answer of r, and frees the slot of r.
func (s *session) answer(r *run, f *wire.Finish) {
	s.mu.Lock()
	r.saved(math.MaxUint64, errReturned)
	r.giveUp(errOver)
	switch {
	case r.stray && s.mayCount(f):
		s.kept.strays--
		s.out = append(s.out, r.attempt.earlier(f))
	case r.stray:
		s.kept.strays--
		s.credits++
	default:
		delete(s.running, r.id)
		s.out = append(s.out, f)
		if s.kept != nil && f.GetRefused() == nil {
			s.kept.answered(r)
		}
	}
	s.mu.Unlock()
	s.wake.Set()
	s.runs.Done()
}

// send sends answers, each with the credit for the next run, until done is closed.
func (s *session) send(to stream, done <-chan struct{}) {
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
		pong, credits, leaving := s.pong, s.credits, s.leaving
		s.pong, s.credits, s.leaving = 0, 0, false
		if s.kept != nil {
			s.kept.sent = append(s.kept.sent, batch...)
		}
		s.mu.Unlock()
		if sendReports(to, said) != nil {
			return
		}
		for rest := batch; len(rest) > 0 || pong != 0 || credits != 0 || leaving; pong, credits, leaving = 0, 0, false {
			n := fit(rest)
			frame.Finishes, frame.Credits, frame.Pong, frame.Leaving, frame.Clock = rest[:n], uint32(n)+credits, pong, leaving, 0
			if pong != 0 && s.kept != nil {
				frame.Clock = time.Now().UnixMicro()
			}
			if to.Send(frame) != nil {
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
			len(f.GetError().GetMessage()) + sizeOf(f) + sizeOfDocuments(f)
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
