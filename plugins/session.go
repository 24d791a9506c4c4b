//go:build linux || darwin

package plugins

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/plugins/internal/wire"
)

// session is one life of the program: a process, the stream to it, and the calls it
// runs. Its methods write and read each have their own goroutine, serve is the
// supervisor's. A pool is several sessions on one host's queue.
type session struct {
	host   *Host
	proc   *process
	conn   *grpc.ClientConn
	stream grpc.BidiStreamingClient[wire.ToHandler, wire.FromHandler]
	ctx    context.Context // the stream's
	cancel context.CancelFunc
	hello  *wire.Hello
	heard  atomic.Bool   // something came since the last ping
	wake   chan struct{} // tells write that there may be something to send

	// Guarded by the host's mutex.
	running map[uint64]*call
	slots   int // how many may run at once
	credits int // how many may be sent
	lastRun uint64
	cancels []*wire.Cancel // to be sent
	ping    uint64         // to be sent, if not 0
	drain   drainState
	fate    fate // why the host ends the process, if it does
}

type drainState uint8

const (
	serving drainState = iota
	toDrain            // no more runs; the drain is to be sent
	drained            // it is sent
)

// fate is why a process ends, which decides what its running calls are told.
type fate uint8

const (
	crashed fate = iota // by itself
	silent              // killed, because it no longer answered
	evicted             // killed, because a task would not stop
	closed              // killed, because the host closes
)

func newSession(h *Host, p *process, conn *grpc.ClientConn) *session {
	s := &session{host: h, proc: p, conn: conn, wake: make(chan struct{}, 1), running: map[uint64]*call{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// meet takes in what the handler says of itself.
func (s *session) meet(hello *wire.Hello, credits uint32) {
	s.hello = hello
	s.slots = int(min(hello.GetSlots(), maxSlots))
	if most := s.host.cfg.Slots; most > 0 {
		s.slots = min(s.slots, most)
	}
	s.grant(credits)
}

func (s *session) grant(credits uint32) { s.credits = min(s.credits+int(credits), maxSlots) }

func (s *session) notify() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// serve runs the session until its process is dead and every call that it ran has its
// answer. It returns how that happened if nobody had asked for it.
func (s *session) serve() error {
	wrote, read := make(chan struct{}), make(chan struct{})
	go func() { defer close(wrote); s.write() }()
	go func() { defer close(read); s.read() }()
	s.watch(wrote, read)
	// What the process answered before it died counts.
	select {
	case <-read:
	case <-time.After(pipePatience):
	}
	s.cancel()
	<-read
	<-wrote
	s.conn.Close()
	return s.host.bury(s)
}

// watch returns when the process is dead, after doing what it takes to end it.
func (s *session) watch(wrote, read <-chan struct{}) {
	cfg := &s.host.cfg
	var tick <-chan time.Time
	if cfg.Liveness > 0 {
		ticker := time.NewTicker(max(1, cfg.Liveness/pingsPerLife))
		defer ticker.Stop()
		tick = ticker.C
	}
	closing, force := s.host.closing, s.host.force
	missed := 0
	for {
		select {
		case <-s.proc.exited:
			return
		case <-closing:
			closing = nil
			s.host.drain(s)
		case <-force:
			force = nil
			s.end(closed)
		case <-wrote: // all is answered, or the stream is broken: it should exit by itself
			wrote = nil
			s.proc.stop(cfg.KillAfter, cfg.KillAfter)
		case <-read:
			read = nil
			s.proc.stop(cfg.KillAfter, cfg.KillAfter)
			s.host.retire(s)
		case <-tick:
			if missed = s.probe(missed); missed > pingsPerLife {
				tick = nil
				s.end(silent)
			}
		}
	}
}

// probe asks for a sign of life and returns how many times in a row there was none.
func (s *session) probe(missed int) int {
	s.host.mu.Lock()
	s.ping++
	s.host.mu.Unlock()
	s.notify()
	if s.heard.Swap(false) {
		return 0
	}
	return missed + 1
}

// end stops the process for the reason given.
func (s *session) end(why fate) {
	s.host.mu.Lock()
	if s.fate == crashed {
		s.fate = why
	}
	s.host.mu.Unlock()
	s.host.retire(s)
	s.proc.stop(0, s.host.cfg.KillAfter)
}

// write sends what there is to send, in as few frames as possible.
func (s *session) write() {
	frame := &wire.ToHandler{Runs: make([]*wire.Run, 0, wire.FrameMessages)}
	for {
		s.gather()
		switch s.host.fill(s, frame) {
		case nothing:
			select {
			case <-s.wake:
			case <-s.ctx.Done():
				return
			}
		case finished:
			_ = s.stream.CloseSend() // documented to return nil
			return
		case something:
			if err := s.stream.Send(frame); err != nil {
				s.host.undelivered(s, frame.Runs)
				return // read knows why
			}
		}
	}
}

// maxGather is how often write lets others run before it sends: a stream of tasks that
// never ends must not keep it from that.
const maxGather = 16

// gather lets those run who are about to queue a call, so that they share one frame.
// Alone, it takes no time to speak of.
func (s *session) gather() {
	n := -1
	for range maxGather {
		more := s.host.waiting()
		if more == n {
			return
		}
		n = more
		runtime.Gosched()
	}
}

// read hands out answers until the stream ends.
func (s *session) read() {
	for {
		frame, err := s.stream.Recv()
		if err != nil {
			if s.ctx.Err() == nil {
				s.host.log.Debug("stream ended", "pid", s.proc.pid(), "error", err)
			}
			return
		}
		s.heard.Store(true)
		s.host.accept(s, frame)
	}
}

// lastWords is the answer to a call that was running when the process died. It is to
// be called with the host's mutex held.
func (s *session) lastWords(c *call) answer {
	name, pid := s.host.cfg.Name, s.proc.pid()
	switch {
	case c.overdue:
		return answer{err: fmt.Errorf("the task did not stop within %v after its cancellation, so process %d of handler %q was killed",
			s.host.cfg.Grace, pid, name)}
	case s.fate == evicted:
		return answer{err: fmt.Errorf("%w: process %d of handler %q was killed because another task in it did not stop",
			task.ErrInterrupted, pid, name)}
	case s.fate == closed:
		return answer{err: fmt.Errorf("%w: process %d of handler %q was stopped: %w", task.ErrInterrupted, pid, name, ErrClosed)}
	case s.fate == silent:
		return answer{err: fmt.Errorf("%w: process %d of handler %q was silent for %v and was killed%s",
			task.ErrCrashed, pid, name, s.host.cfg.Liveness, quoteTail(s.proc.out.last()))}
	}
	return answer{err: fmt.Errorf("%w: process %d of handler %q: %s%s",
		task.ErrCrashed, pid, name, s.proc.status, quoteTail(s.proc.out.last()))}
}

var errNotDelivered = errors.New("the handler's process ended before it got the task")
