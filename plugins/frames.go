//go:build linux || darwin

package plugins

import (
	"context"
	"log/slog"
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
	case s == h.session:
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

func (h *Host) take(s *session, frame *wire.ToHandler) {
	size := 0
	for c := h.queue.first; c != nil; c = h.queue.first {
		size += c.size
		if s.credits == 0 || len(s.running) >= s.slots || len(frame.Runs) == wire.FrameMessages ||
			(size > wire.FrameBytes && len(frame.Runs) > 0) {
			return
		}
		h.queue.remove(c)
		s.credits--
		s.lastRun++
		c.session, c.run.RunId = s, s.lastRun
		s.running[s.lastRun] = c
		frame.Runs = append(frame.Runs, c.run)
	}
}

// accept takes in what the process of s sent.
func (h *Host) accept(s *session, frame *wire.FromHandler) {
	for _, l := range frame.GetLogs() {
		h.print(s, l)
	}
	finishes := frame.GetFinishes()
	if len(finishes) == 0 && frame.GetCredits() == 0 {
		return
	}
	ended := make([]*call, len(finishes))
	h.mu.Lock()
	s.grant(frame.GetCredits())
	for i, f := range finishes {
		if c := s.running[f.GetRunId()]; c != nil {
			delete(s.running, f.GetRunId())
			c.session = nil
			ended[i] = c
		}
	}
	if h.queue.n > 0 || (s.drain == drained && len(s.running) == 0) {
		s.notify()
	}
	h.mu.Unlock()
	for i, f := range finishes {
		if c := ended[i]; c != nil {
			c.done <- answerOf(f)
		} else {
			h.log.Warn("an answer to a run that is not running", "pid", s.proc.pid(), "run", f.GetRunId())
		}
	}
}

// print logs a line for the process of s.
func (h *Host) print(s *session, l *wire.LogLine) {
	level := slog.Level(l.GetLevel())
	if !h.log.Enabled(context.Background(), level) {
		return
	}
	ok, dropped := s.proc.out.admit(time.Now())
	if !ok {
		return
	}
	attrs := make([]slog.Attr, 0, len(l.GetFields())+2)
	if dropped > 0 {
		attrs = append(attrs, slog.Int("lines_dropped_before", dropped))
	}
	for k, v := range l.GetFields() {
		attrs = append(attrs, slog.String(k, v))
	}
	h.mu.Lock()
	if c := s.running[l.GetRunId()]; c != nil {
		attrs = append(attrs, slog.String("task", task.ID(c.run.GetTaskId()).String()))
	}
	h.mu.Unlock()
	h.log.LogAttrs(context.Background(), level, printable(l.GetMessage()), attrs...)
}

// undelivered answers the calls of a frame that did not reach the process of s.
func (h *Host) undelivered(s *session, runs []*wire.Run) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, run := range runs {
		if c := s.running[run.GetRunId()]; c != nil {
			delete(s.running, run.GetRunId())
			c.session = nil
			c.done <- answer{err: unavailable(errNotDelivered)}
		}
	}
}
