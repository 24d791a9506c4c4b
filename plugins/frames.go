//go:build linux || darwin

package plugins

import (
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/plugins/internal/wire"
)

// filled says what [Host.fill] found.
type filled uint8

const (
	nothing   filled = iota
	something        // the frame is to be sent
	finished         // nothing will follow: end the stream
)

// fill moves what is to be sent to s into frame, and with it tasks from the queue to
// the running ones, as far as slots and credits go.
func (h *Host) fill(s *session, frame *wire.ToHandler) filled {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(frame.Runs) // what is answered may be freed
	frame.Runs, frame.Cancels, frame.Ping, frame.Drain = frame.Runs[:0], s.cancels, s.ping, nil
	s.cancels, s.ping = nil, 0
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
	if len(frame.Runs) == 0 && len(frame.Cancels) == 0 && frame.Ping == 0 && frame.Drain == nil {
		return nothing
	}
	return something
}

// waiting returns how many calls no session has taken yet.
func (h *Host) waiting() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.queue.n
}

// take gives s its share of the waiting calls.
func (h *Host) take(s *session, frame *wire.ToHandler) {
	size, share := 0, h.share()
	for c := h.queue.first; c != nil && len(frame.Runs) < share && s.room() > 0; c = h.queue.first {
		if size += c.size; size > wire.FrameBytes && len(frame.Runs) > 0 {
			break
		}
		s.begin(c, frame)
	}
	if h.queue.n > 0 && !h.offer() || s.worn(time.Now()) {
		h.wake.Set()
	}
}

// share returns how many of the waiting calls one session may take at a time, so that all
// that have room get as many.
func (h *Host) share() int {
	n := 0
	for _, s := range h.sessions {
		if s.serves() && s.room() > 0 {
			n++
		}
	}
	if n <= 1 {
		return wire.FrameMessages
	}
	return min(wire.FrameMessages, (h.queue.n+n-1)/n)
}

// takeAlone gives s the one call of its life.
func (h *Host) takeAlone(s *session, frame *wire.ToHandler) {
	switch c := h.alone.first; {
	case s.taken > 0:
	case c != nil:
		s.begin(c, frame)
	default: // whom it was started for is gone
		frame.Drain, s.drain = &wire.Drain{}, drained
	}
	h.tell()
}

// begin moves c from its queue to the running calls of s and into frame, or answers it if its
// attempt must not begin any more.
func (s *session) begin(c *call, frame *wire.ToHandler) {
	c.queue.remove(c)
	if b, ok := c.reporter.(task.Beginner); ok {
		deadline, err := b.Begin()
		if err != nil {
			c.done <- answer{err: unavailable(err)}
			s.wake.Set() // there may be others
			return
		}
		c.run.Deadline = 0
		if !deadline.IsZero() {
			c.run.Deadline = deadline.UnixMicro()
		}
	}
	s.credits--
	s.taken++
	s.lastRun++
	c.session, c.run.RunId = s, s.lastRun
	s.running[s.lastRun] = c
	if s.cfg.PerTask {
		s.host.wake.Set() // the process takes no more: another is started ahead
	}
	frame.Runs = append(frame.Runs, c.run)
}

// accept takes in what the process of s sent.
func (h *Host) accept(s *session, frame *wire.FromHandler) {
	for _, l := range frame.GetLogs() {
		h.print(s, l)
	}
	finishes := frame.GetFinishes()
	if len(finishes)+len(frame.GetProgress())+len(frame.GetCheckpoints()) == 0 && frame.GetCredits() == 0 {
		return
	}
	ended := make([]*call, len(finishes))
	strays := 0
	h.mu.Lock()
	h.note(s, frame)
	s.grant(frame.GetCredits())
	for i, f := range finishes {
		known := false
		if ended[i], known = h.finish(s, f); !known {
			strays++
		}
	}
	if len(s.running) == 0 && len(finishes) > 0 {
		h.rest(s)
	}
	if h.queue.n > 0 && s.serves() {
		s.wake.Set()
	}
	h.tell()
	h.mu.Unlock()
	for i, f := range finishes {
		if c := ended[i]; c != nil {
			c.done <- answerOf(f)
		}
	}
	if strays > 0 {
		s.strays.Add(int64(strays))
		if !s.astray.Swap(true) { // of those to come report tells, now and then
			s.report()
		}
	}
}

// finish takes the call that f answers out of the running ones, and reports whether it is
// one of those. It returns the call if it is to be answered at once. It is called with mu
// held.
func (h *Host) finish(s *session, f *wire.Finish) (c *call, known bool) {
	c = s.running[f.GetRunId()]
	if c == nil {
		return nil, false
	}
	delete(s.running, f.GetRunId())
	s.finished++
	c.session = nil
	if len(h.suspects.added) > 0 {
		h.suspects.clear(c.id())
	}
	if c.notes != nil && c.notes.passing {
		a := answerOf(f)
		c.notes.answer = &a
		return nil, true
	}
	return c, true
}

// rest sees to a session that has nothing to do any more. It is called with mu held.
func (h *Host) rest(s *session) {
	s.idleSince = time.Now()
	switch {
	case s.drain == drained:
		s.wake.Set() // the stream can be closed
	case s.alone || s.cfg.PerTask:
		s.dismiss()
	case len(h.sessions) > h.cfg.MinProcesses:
		h.wake.Set()
	}
}

// print logs a line that the program of s handed over as such.
func (h *Host) print(s *session, l *wire.LogLine) {
	level := slog.Level(l.GetLevel())
	at := time.Now()
	if l.GetTime() != 0 {
		at = time.UnixMicro(l.GetTime())
	}
	record := slog.NewRecord(at, level, printable(l.GetMessage()), 0)
	for _, k := range slices.Sorted(maps.Keys(l.GetFields())) {
		record.AddAttrs(slog.String(k, l.GetFields()[k]))
	}
	record, _ = fit(record)
	h.mu.Lock()
	c := s.running[l.GetRunId()]
	h.mu.Unlock()
	s.proc.out.emit(c, record)
}

// undelivered answers the calls of a frame that did not reach the process of s.
func (h *Host) undelivered(s *session, runs []*wire.Run) {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer h.tell()
	for _, run := range runs {
		if c := s.running[run.GetRunId()]; c != nil {
			delete(s.running, run.GetRunId())
			c.session = nil
			h.deliver(c, answer{err: unavailable(errNotDelivered)})
		}
	}
}
