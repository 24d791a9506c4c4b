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

	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/plugins/internal/calls"
	"github.com/taskengine/taskengine/plugins/internal/dispatch"
	"github.com/taskengine/taskengine/plugins/internal/programlog"
	"github.com/taskengine/taskengine/plugins/internal/wire"
	"github.com/taskengine/taskengine/task"
)

// session is one process of the program, the stream to it and the calls that it runs. It has three goroutines, which
// run serve, write and read.
type session struct {
	*dispatch.Session[*session]
	host           *Host
	cfg            *Config // that the process was started with
	rights         calls.Rights
	alone          bool // it runs one task of the quarantine and no other
	proc           *instance
	stream         wire.Stream
	release        func()          // closes the connection of the stream
	ctx            context.Context // of the stream
	cancel         context.CancelFunc
	hello          *wire.Hello
	pulse          dispatch.Pulse
	unknownAnswers atomic.Int64  // answers to runs that are not running, since the last log line about them
	unknownLogged  atomic.Bool   // such an answer was logged
	wake           wakeup.Signal // wakes write

	// The host's mutex guards the fields below.

	overdue     map[*call]bool // calls that did not stop in time after their cancellation
	endReason   endReason      // why the process ends
	protocolErr error          // how the process broke the protocol; nil if it did not
	idleSince   time.Time
	rss         int64 // bytes of memory when last measured
}

// endReason is why a process ends. It decides the errors of the calls that were running.
type endReason uint8

const (
	crashed      endReason = iota // by itself
	unresponsive                  // killed because it did not answer
	evicted                       // killed because a task did not stop
	closed                        // killed because the host closes
)

func newSession(h *Host, cfg *Config, p *instance, alone bool) *session {
	s := &session{host: h, cfg: cfg, alone: alone, proc: p, overdue: map[*call]bool{}}
	queue := &h.queue
	if alone {
		queue = &h.alone
	}
	s.rights = calls.Rights{MayRead: cfg.MayRead, MayWrite: cfg.MayWrite}
	s.Session = h.dispatch.NewSession(s, queue, alone || cfg.PerTask, cfg.Grace)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// setHello stores the hello of the handler and its first credits.
func (s *session) setHello(hello *wire.Hello, credits uint32) {
	s.hello = hello
	hello.Sdk, hello.SdkVersion, hello.Version = programlog.Shorten(hello.GetSdk(), 200), programlog.Shorten(hello.GetSdkVersion(), 200), programlog.Shorten(hello.GetVersion(), 200)
	s.host.mu.Lock()
	defer s.host.mu.Unlock()
	s.wake = s.Connect(hello, s.cfg.Slots, s.rights)
	s.AddCredits(credits)
}

// serves reports whether s takes calls from the queue that sessions share. The host's mutex must be held for it and for
// outdated.
func (s *session) serves() bool { return !s.alone && s.Serves() }

// outdated reports whether the process should be replaced.
func (s *session) outdated(now time.Time) bool {
	return s.cfg != s.host.cfg || s.cfg.MaxTasks > 0 && s.Taken() >= s.cfg.MaxTasks ||
		s.cfg.MaxRSS > 0 && s.rss > s.cfg.MaxRSS || s.cfg.MaxAge > 0 && !now.Before(s.outdatedAt())
}

// outdatedAt returns when the process reaches MaxAge; zero is never.
func (s *session) outdatedAt() time.Time {
	if s.cfg.MaxAge == 0 {
		return time.Time{}
	}
	return s.proc.started.Add(s.cfg.MaxAge)
}

// serve runs the session until its process has ended and all of its calls are answered.
func (s *session) serve() {
	wrote, read := make(chan struct{}), make(chan struct{})
	go func() { defer close(wrote); s.write() }()
	go func() { defer close(read); s.read() }()
	s.watch(wrote, read)
	// Read the answers that the process sent before it died.
	select {
	case <-read:
	case <-time.After(drainTime):
	}
	s.cancel()
	<-read
	<-wrote
	s.release()
	s.host.sessionEnded(s)
	s.logCounts()
}

// watch pings, measures and stops the process until it has ended.
func (s *session) watch(wrote, read <-chan struct{}) {
	cfg := s.cfg
	var tick <-chan time.Time
	if cfg.Liveness > 0 {
		ticker := time.NewTicker(max(1, cfg.Liveness/pingsPerLife))
		defer ticker.Stop()
		tick = ticker.C
	}
	var memoryTick <-chan time.Time
	if cfg.MaxRSS > 0 {
		ticker := time.NewTicker(memoryInterval)
		defer ticker.Stop()
		memoryTick = ticker.C
	}
	reporting := time.NewTicker(countsInterval)
	defer reporting.Stop()
	force := s.host.force
	for {
		select {
		case <-s.proc.exited:
			return
		case <-force:
			force = nil
			s.terminate(closed)
		case <-wrote: // all calls are answered, or the stream is broken: the process should exit by itself
			wrote = nil
			s.proc.Stop(cfg.KillAfter, cfg.KillAfter)
		case <-read:
			read = nil
			s.proc.Stop(cfg.KillAfter, cfg.KillAfter)
			s.retire()
		case <-memoryTick:
			s.measureMemory()
		case <-reporting.C:
			s.logCounts()
		case <-tick:
			s.host.mu.Lock()
			s.Ping()
			s.host.mu.Unlock()
			if s.pulse.Missed() > pingsPerLife {
				tick = nil
				s.terminate(unresponsive)
			}
		}
	}
}

// terminate stops the process.
func (s *session) terminate(why endReason) {
	s.host.mu.Lock()
	if s.endReason == crashed {
		s.endReason = why
	}
	s.host.mu.Unlock()
	s.retire()
	s.proc.Stop(0, s.cfg.KillAfter)
}

// countsInterval is the time between two log lines about frequent events.
const countsInterval = 10 * time.Second

// logCounts logs the number of events since the last call.
func (s *session) logCounts() {
	if n := s.unknownAnswers.Swap(0); n > 0 {
		s.host.log.Warn("answers to runs that are not running", "pid", s.proc.PID(), "answers", n)
	}
	s.host.programLog.LogDropped()
}

// retire stops sending calls to s because its stream is broken.
func (s *session) retire() {
	s.host.mu.Lock()
	defer s.host.mu.Unlock()
	s.Retire()
	s.host.notifyUses()
	s.host.wake.Set()
}

// streamEnded logs why the stream ended, and stores it if the process has broken the protocol.
func (s *session) streamEnded(why error) {
	if s.ctx.Err() != nil {
		return
	}
	if status.Code(why) == codes.ResourceExhausted { // only frames that the host receives are bounded
		why = fmt.Errorf("%w: %s", errLargeFrame, status.Convert(why).Message())
	} else if !errors.Is(why, wire.ErrLine) {
		s.host.log.Debug("stream ended", "pid", s.proc.PID(), "error", why)
		return
	}
	s.host.log.Error("handler broke the protocol", "pid", s.proc.PID(), "error", why)
	s.host.mu.Lock()
	defer s.host.mu.Unlock()
	s.protocolErr = why
}

// onlyCall returns the call that the process runs, or nil if it runs none or several.
func (s *session) onlyCall() *call {
	s.host.mu.Lock()
	defer s.host.mu.Unlock()
	return s.Only()
}

// memoryInterval is the time between two measurements of the memory of a process that has a MaxRSS.
const memoryInterval = time.Second

// measureMemory updates s.rss.
func (s *session) measureMemory() {
	rss := residentSize(s.proc.PID())
	s.host.mu.Lock()
	defer s.host.mu.Unlock()
	s.rss = rss
	if s.outdated(time.Now()) {
		s.host.wake.Set()
	}
}

// write sends runs, cancels and pings.
func (s *session) write() {
	fill := func(frame *wire.ToHandler) dispatch.Filled { return s.host.fill(s, frame) }
	if s.host.dispatch.Write(s.ctx, s.Session, s.wake, fill, s.stream.Send) {
		_ = s.stream.CloseSend() // an error means that the process has ended
	}
}

// read handles the frames of the process until the stream ends.
func (s *session) read() {
	for {
		frame, err := s.stream.Recv()
		if err != nil {
			s.streamEnded(err)
			return
		}
		s.pulse.Heard()
		s.host.handleFrame(s, frame)
	}
}

// endError returns the answer to c, one of the calls that were running when the process ended. Running is their number.
// The host's mutex must be held.
func (s *session) endError(c *call, running int) error {
	name, pid := s.cfg.Name, s.proc.PID()
	interrupted := func(format string, args ...any) error {
		return fmt.Errorf("%w: process %d of handler %q "+format, append([]any{task.ErrInterrupted, pid, name}, args...)...)
	}
	switch {
	case s.overdue[c]:
		return task.InDoubt(fmt.Errorf("the task did not stop within %v after its cancellation, so process %d of handler %q was killed",
			s.cfg.Grace, pid, name))
	case s.endReason == evicted:
		return interrupted("was killed because another task in it did not stop")
	case s.endReason == closed:
		return interrupted("was stopped: %w", ErrClosed)
	}
	how := s.proc.exit.String()
	if s.endReason == unresponsive {
		how = fmt.Sprintf("silent for %v and killed", s.cfg.Liveness)
	}
	if s.protocolErr != nil {
		how += fmt.Sprintf(", after %v", s.protocolErr)
	}
	if s.proc.exit.MaxRSS > 0 {
		how += fmt.Sprintf(", at most %d MiB in memory", s.proc.exit.MaxRSS>>20)
	}
	if running == 1 && (errors.Is(s.protocolErr, errLargeFrame) || errors.Is(s.protocolErr, wire.ErrLongLine)) {
		return task.Permanent(task.WithClass("result_too_large", fmt.Errorf(
			"process %d of handler %q answered with more than it may send (%w), so the answer is lost: raise max_result of the type %q, and max_payload if its tasks run again with other payloads, or have the handler return less",
			pid, name, s.protocolErr, c.Run.GetType())))
	}
	if running > 1 {
		return interrupted("died with %d running tasks (%s); each is tried again in a process of its own%s",
			running, how, quoteTail(s.proc.out.last()))
	}
	return fmt.Errorf("%w: process %d of handler %q: %s%s", task.ErrCrashed, pid, name, how, quoteTail(s.proc.out.last()))
}

var errLargeFrame = errors.New("a frame is too large")

var errNotDelivered = errors.New("the handler's process ended before it got the task")
