//go:build linux || darwin

package plugins

import (
	"time"

	"github.com/taskengine/taskengine/plugins/internal/calls"
	"github.com/taskengine/taskengine/plugins/internal/programlog"
	"github.com/taskengine/taskengine/plugins/internal/wire"
)

// filled is the result of [Host.fill].
type filled uint8

const (
	nothing   filled = iota
	something        // the frame is to be sent
	finished         // no frame follows: end the stream
)

// fill fills frame for s. It moves calls from a queue to the running calls of s, as many as slots and credits allow.
func (h *Host) fill(s *session, frame *wire.ToHandler) filled {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(frame.Runs) // so that answered runs are freed
	frame.Runs, frame.Cancels, frame.Ping, frame.Drain, frame.Stored = frame.Runs[:0], s.cancels, s.ping, nil, s.stored
	s.cancels, s.ping, s.stored = nil, 0, nil
	switch {
	case s.drain == drained && len(s.running) == 0 && len(frame.Cancels) == 0:
		return finished
	case s.drain == toDrain:
		frame.Drain, s.drain = &wire.Drain{}, drained
	case s.alone:
		h.takeAlone(s, frame)
	case s.serves():
		h.take(s, frame)
	}
	if len(frame.Runs) == 0 && len(frame.Cancels) == 0 && frame.Ping == 0 && frame.Drain == nil && len(frame.Stored) == 0 {
		return nothing
	}
	return something
}

// waiting returns how many calls no session has taken yet.
func (h *Host) waiting() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.queue.Len()
}

// take moves a share of the waiting calls to s.
func (h *Host) take(s *session, frame *wire.ToHandler) {
	size, share := 0, h.share()
	for c := h.queue.First(); c != nil && len(frame.Runs) < share && s.freeSlots() > 0; c = h.queue.First() {
		if size += c.Size; size > wire.FrameBytes && len(frame.Runs) > 0 {
			break
		}
		s.begin(c, frame)
	}
	if h.queue.Len() > 0 && !h.wakeFreest() || s.outdated(time.Now()) {
		h.wake.Set()
	}
}

// share returns how many of the waiting calls one session may take at a time. It divides them equally among the sessions
// with free slots.
func (h *Host) share() int {
	n := 0
	for _, s := range h.sessions {
		if s.serves() && s.freeSlots() > 0 {
			n++
		}
	}
	if n <= 1 {
		return wire.FrameMessages
	}
	return min(wire.FrameMessages, (h.queue.Len()+n-1)/n)
}

// takeAlone moves one call of the quarantine to s, which takes no other.
func (h *Host) takeAlone(s *session, frame *wire.ToHandler) {
	switch c := h.alone.First(); {
	case s.taken > 0:
	case c != nil:
		s.begin(c, frame)
	default: // the call that it was started for was cancelled
		frame.Drain, s.drain = &wire.Drain{}, drained
	}
	h.notifyUses()
}

// begin moves c from its queue to the running calls of s and into frame. If the attempt of c must not begin any more,
// begin answers it instead.
func (s *session) begin(c *call, frame *wire.ToHandler) {
	c.Leave()
	if c.Begin() != nil {
		s.wake.Set() // there may be other calls
		return
	}
	s.credits--
	s.taken++
	s.lastRun++
	c.Session, c.Run.RunId = s, s.lastRun
	s.running[s.lastRun] = c
	if s.cfg.PerTask {
		s.host.wake.Set() // the process takes no more calls: start another ahead
	}
	frame.Runs = append(frame.Runs, c.Run)
}

// handleFrame handles a frame from the process of s.
func (h *Host) handleFrame(s *session, frame *wire.FromHandler) {
	for _, l := range frame.GetLogs() {
		h.logLine(s, l)
	}
	finishes := frame.GetFinishes()
	if len(finishes)+len(frame.GetProgress())+len(frame.GetCheckpoints()) == 0 && frame.GetCredits() == 0 {
		return
	}
	ended := make([]*call, len(finishes))
	unknown := 0
	h.mu.Lock()
	h.forward.Add(frame, s, s.running)
	s.addCredits(frame.GetCredits())
	for i, f := range finishes {
		known := false
		if ended[i], known = h.finishCall(s, f); !known {
			unknown++
		}
	}
	if len(s.running) == 0 && len(finishes) > 0 {
		h.sessionIdle(s)
	}
	if h.queue.Len() > 0 && s.serves() {
		s.wake.Set()
	}
	h.notifyUses()
	h.mu.Unlock()
	for i, f := range finishes {
		if c := ended[i]; c != nil {
			c.Done <- calls.AnswerOf(f)
		}
	}
	if unknown > 0 {
		s.unknownAnswers.Add(int64(unknown))
		if !s.unknownLogged.Swap(true) { // logCounts logs the number of further ones
			s.logCounts()
		}
	}
}

// finishCall removes the call that f answers from the running calls of s, and reports whether it was one of them. It
// returns the call if the caller has to answer it at once. mu must be held.
func (h *Host) finishCall(s *session, f *wire.Finish) (c *call, known bool) {
	c = s.running[f.GetRunId()]
	if c == nil {
		return nil, false
	}
	delete(s.running, f.GetRunId())
	s.finished++
	c.Session = nil
	if len(h.quarantine.added) > 0 {
		h.quarantine.remove(c.ID())
	}
	if c.Hold(func() answer { return calls.AnswerOf(f) }) {
		return nil, true
	}
	return c, true
}

// sessionIdle handles that s has no running call any more. mu must be held.
func (h *Host) sessionIdle(s *session) {
	s.idleSince = time.Now()
	switch {
	case s.drain == drained:
		s.wake.Set() // the stream can be closed
	case s.alone || s.cfg.PerTask:
		s.beginDrain()
	case len(h.sessions) > h.cfg.MinProcesses:
		h.wake.Set()
	}
}

// logLine logs a line that the process of s sent in a frame.
func (h *Host) logLine(s *session, l *wire.LogLine) {
	record := programlog.RecordOf(l)
	h.mu.Lock()
	c := s.running[l.GetRunId()]
	h.mu.Unlock()
	s.proc.out.emit(c, record)
}

// undelivered answers the calls of a frame that was not delivered to the process of s.
func (h *Host) undelivered(s *session, runs []*wire.Run) {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer h.notifyUses()
	for _, run := range runs {
		if c := s.running[run.GetRunId()]; c != nil {
			delete(s.running, run.GetRunId())
			c.Session = nil
			c.Deliver(answer{Err: unavailable(errNotDelivered)})
		}
	}
}
