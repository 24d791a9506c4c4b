//go:build linux || darwin

package plugins

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/internal/workpool"
	"github.com/taskengine/taskengine/plugins/internal/wire"
)

// session is one process of the program, the stream to it, and the calls it runs. Its
// methods write and read each have their own goroutine; serve has that of the session.
type session struct {
	host    *Host
	cfg     *Config // that it was started with
	alone   bool    // it is for one suspect and nobody else
	proc    *instance
	stream  wire.Stream
	release func()          // closes what the stream stands on
	ctx     context.Context // the stream's
	cancel  context.CancelFunc
	hello   *wire.Hello
	heard   atomic.Bool   // something came since the last ping
	strays  atomic.Int64  // answers to runs that are not running, that nobody was told of
	astray  atomic.Bool   // there was one
	wake    wakeup.Signal // wakes write when there may be something to send

	// Guarded by the host's mutex.
	running   map[uint64]*call
	slots     int // how many may run at once
	credits   int // how many may be sent
	taken     int // how many were sent so far
	finished  int // how many of these were answered
	lastRun   uint64
	cancels   []*wire.Cancel // to be sent
	ping      uint64         // to be sent, if not 0
	drain     drainState
	retired   bool  // nothing can be sent any more
	fate      fate  // why the host ends the process, if it does
	breach    error // of the protocol, after which the process is ended; nil if none
	idleSince time.Time
	rss       int64 // bytes of memory at the last look
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

func newSession(h *Host, cfg *Config, p *instance) *session {
	s := &session{host: h, cfg: cfg, proc: p, wake: wakeup.New(), running: map[uint64]*call{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// setHello stores the hello of the handler and its first credits.
func (s *session) setHello(hello *wire.Hello, credits uint32) {
	s.hello = hello
	hello.Sdk, hello.SdkVersion, hello.Version = shorten(hello.GetSdk(), 200), shorten(hello.GetSdkVersion(), 200), shorten(hello.GetVersion(), 200)
	s.slots = int(min(hello.GetSlots(), maxSlots))
	if most := s.cfg.Slots; most > 0 {
		s.slots = min(s.slots, most)
	}
	s.grant(credits)
}

func (s *session) grant(credits uint32) { s.credits = min(s.credits+int(credits), maxSlots) }

// serves reports whether s takes tasks from the line that all share. Like the methods
// down to dismiss it is called with the host's mutex held.
func (s *session) serves() bool {
	return s.drain == serving && !s.retired && !s.alone && !(s.cfg.PerTask && s.taken > 0)
}

// room returns how many more tasks s may be sent.
func (s *session) room() int { return min(s.credits, s.slots-len(s.running)) }

// worn reports whether the process is to be replaced.
func (s *session) worn(now time.Time) bool {
	return s.cfg != s.host.cfg || s.cfg.MaxTasks > 0 && s.taken >= s.cfg.MaxTasks ||
		s.cfg.MaxRSS > 0 && s.rss > s.cfg.MaxRSS || s.cfg.MaxAge > 0 && !now.Before(s.wornAt())
}

// wornAt returns when the process is too old; zero is never.
func (s *session) wornAt() time.Time {
	if s.cfg.MaxAge == 0 {
		return time.Time{}
	}
	return s.proc.started.Add(s.cfg.MaxAge)
}

// dismiss lets s finish what it runs and then end.
func (s *session) dismiss() {
	if s.drain == serving {
		s.drain = toDrain
		s.wake.Set()
	}
}

// serve runs the session until its process is dead and every call that it ran has its
// answer.
func (s *session) serve() {
	wrote, read := make(chan struct{}), make(chan struct{})
	go func() { defer close(wrote); s.write() }()
	go func() { defer close(read); s.read() }()
	s.watch(wrote, read)
	// What the process answered before it died counts.
	select {
	case <-read:
	case <-time.After(drainTime):
	}
	s.cancel()
	<-read
	<-wrote
	s.release()
	s.host.bury(s)
	s.report()
}

// watch returns when the process is dead, after doing what it takes to end it.
func (s *session) watch(wrote, read <-chan struct{}) {
	cfg := s.cfg
	var tick <-chan time.Time
	if cfg.Liveness > 0 {
		ticker := time.NewTicker(max(1, cfg.Liveness/pingsPerLife))
		defer ticker.Stop()
		tick = ticker.C
	}
	var weighing <-chan time.Time
	if cfg.MaxRSS > 0 {
		ticker := time.NewTicker(weighEvery)
		defer ticker.Stop()
		weighing = ticker.C
	}
	reporting := time.NewTicker(reportEvery)
	defer reporting.Stop()
	force := s.host.force
	missed := 0
	for {
		select {
		case <-s.proc.exited:
			return
		case <-force:
			force = nil
			s.end(closed)
		case <-wrote: // all is answered, or the stream is broken: it should exit by itself
			wrote = nil
			s.proc.Stop(cfg.KillAfter, cfg.KillAfter)
		case <-read:
			read = nil
			s.proc.Stop(cfg.KillAfter, cfg.KillAfter)
			s.retire()
		case <-weighing:
			s.weigh()
		case <-reporting.C:
			s.report()
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
	s.wake.Set()
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
	s.retire()
	s.proc.Stop(0, s.cfg.KillAfter)
}

// reportEvery is how often what a process does too often is told.
const reportEvery = 10 * time.Second

// report logs what was only counted since the last report.
func (s *session) report() {
	if n := s.strays.Swap(0); n > 0 {
		s.host.log.Warn("answers to runs that are not running", "pid", s.proc.PID(), "answers", n)
	}
	s.host.programLog.settle()
}

// retire gives no more tasks to s, to which nothing can be sent.
func (s *session) retire() {
	s.host.mu.Lock()
	defer s.host.mu.Unlock()
	s.retired = true
	s.host.tell()
	s.host.wake.Set()
}

// broke notes why the stream ended, if the process has broken the protocol.
func (s *session) broke(why error) {
	if s.ctx.Err() != nil {
		return
	}
	if status.Code(why) == codes.ResourceExhausted { // what the host receives is all that is bounded
		why = fmt.Errorf("%w: %s", errLargeFrame, status.Convert(why).Message())
	} else if !errors.Is(why, wire.ErrLine) {
		s.host.log.Debug("stream ended", "pid", s.proc.PID(), "error", why)
		return
	}
	s.host.log.Error("handler broke the protocol", "pid", s.proc.PID(), "error", why)
	s.host.mu.Lock()
	defer s.host.mu.Unlock()
	s.breach = why
}

// onlyCall returns the call that the process runs, or nil if it runs none or several.
func (s *session) onlyCall() *call {
	s.host.mu.Lock()
	defer s.host.mu.Unlock()
	if len(s.running) == 1 {
		for _, c := range s.running {
			return c
		}
	}
	return nil
}

// weighEvery is how often it is looked how much memory a process holds, if that matters.
const weighEvery = time.Second

// weigh looks how much memory the process holds.
func (s *session) weigh() {
	rss := residentSize(s.proc.PID())
	s.host.mu.Lock()
	defer s.host.mu.Unlock()
	s.rss = rss
	if s.worn(time.Now()) {
		s.host.wake.Set()
	}
}

// write sends what there is to send, in as few frames as possible.
func (s *session) write() {
	frame := &wire.ToHandler{Runs: make([]*wire.Run, 0, wire.FrameMessages)}
	for {
		workpool.Gather(s.host.waiting)
		switch s.host.fill(s, frame) {
		case nothing:
			select {
			case <-s.wake.C():
			case <-s.ctx.Done():
				return
			}
		case finished:
			_ = s.stream.CloseSend() // what fails is gone already
			return
		case something:
			if err := s.stream.Send(frame); err != nil {
				if !errors.Is(err, wire.ErrMaybeSent) {
					s.host.undelivered(s, frame.Runs)
				}
				return // read knows why
			}
		}
	}
}

// read hands out answers until the stream ends.
func (s *session) read() {
	for {
		frame, err := s.stream.Recv()
		if err != nil {
			s.broke(err)
			return
		}
		s.heard.Store(true)
		s.host.accept(s, frame)
	}
}

// lastWords is the answer to a call that was running, among as many as bereft says, when
// the process died. It is called with the host's mutex held.
func (s *session) lastWords(c *call, bereft int) answer {
	name, pid := s.cfg.Name, s.proc.PID()
	interrupted := func(format string, args ...any) answer {
		return answer{err: fmt.Errorf("%w: process %d of handler %q "+format, append([]any{task.ErrInterrupted, pid, name}, args...)...)}
	}
	switch {
	case c.overdue:
		return answer{err: task.InDoubt(fmt.Errorf("the task did not stop within %v after its cancellation, so process %d of handler %q was killed",
			s.cfg.Grace, pid, name))}
	case s.fate == evicted:
		return interrupted("was killed because another task in it did not stop")
	case s.fate == closed:
		return interrupted("was stopped: %w", ErrClosed)
	}
	how := s.proc.exit.String()
	if s.fate == silent {
		how = fmt.Sprintf("silent for %v and killed", s.cfg.Liveness)
	}
	if s.breach != nil {
		how += fmt.Sprintf(", after %v", s.breach)
	}
	if s.proc.exit.MaxRSS > 0 {
		how += fmt.Sprintf(", at most %d MiB in memory", s.proc.exit.MaxRSS>>20)
	}
	if bereft == 1 && (errors.Is(s.breach, errLargeFrame) || errors.Is(s.breach, wire.ErrLongLine)) {
		return answer{err: task.Permanent(task.WithClass("result_too_large", fmt.Errorf(
			"process %d of handler %q answered with more than it may send (%w), so the answer is lost: raise max_result of the type %q, or have the handler return less",
			pid, name, s.breach, c.run.GetType())))}
	}
	if bereft > 1 {
		return interrupted("died under %d tasks (%s), of which each is tried again in a process of its own%s",
			bereft, how, quoteTail(s.proc.out.last()))
	}
	return answer{err: fmt.Errorf("%w: process %d of handler %q: %s%s",
		task.ErrCrashed, pid, name, how, quoteTail(s.proc.out.last()))}
}

var errLargeFrame = errors.New("a frame is too large")

var errNotDelivered = errors.New("the handler's process ended before it got the task")
