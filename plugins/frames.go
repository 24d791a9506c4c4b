//go:build linux || darwin

package plugins

import (
	"time"

	"github.com/taskengine/taskengine/plugins/internal/dispatch"
	"github.com/taskengine/taskengine/plugins/internal/programlog"
	"github.com/taskengine/taskengine/plugins/internal/wire"
)

// fill fills frame for s.
func (h *Host) fill(s *session, frame *wire.ToHandler) dispatch.Filled {
	h.mu.Lock()
	defer h.mu.Unlock()
	served := s.Serves()
	filled := h.dispatch.Fill(s.Session, frame)
	if !served {
		return filled
	}
	switch {
	case s.alone:
		h.drainSpare()
		h.notifyUses()
	case h.queue.Len() > 0 && !h.dispatch.HasRoom(&h.queue), s.outdated(time.Now()):
		h.wake.Set()
	case s.cfg.PerTask && len(frame.Runs) > 0: // the process takes no more calls: start another ahead
		h.wake.Set()
	}
	return filled
}

// drainSpare ends the processes that wait for a call of the quarantine if none waits: it was cancelled, or may not begin. mu
// must be held.
func (h *Host) drainSpare() {
	if h.alone.Len() > 0 {
		return
	}
	for _, s := range h.dispatch.Sessions() {
		if s.Owner.alone && s.Taken() == 0 {
			s.Drain()
		}
	}
}

// handleFrame handles a frame from the process of s.
func (h *Host) handleFrame(s *session, frame *wire.FromHandler) {
	for _, l := range frame.GetLogs() {
		h.logLine(s, l)
	}
	finishes := frame.GetFinishes()
	if len(finishes)+len(frame.GetProgress())+len(frame.GetCheckpoints())+len(frame.GetChecks())+len(frame.GetReads()) == 0 && frame.GetCredits() == 0 {
		return
	}
	var room [4]*call
	unknown := 0
	h.mu.Lock()
	ended := h.dispatch.Receive(s.Session, frame, time.Now(), room[:0])
	for _, c := range ended {
		if c == nil {
			unknown++
		} else {
			h.quarantine.remove(c.ID())
		}
	}
	if s.Running() == 0 && len(finishes) > 0 {
		h.sessionIdle(s)
	}
	h.notifyUses()
	h.mu.Unlock()
	h.dispatch.Answer(ended, finishes, s.rights.AnswerOf)
	if unknown > 0 {
		s.unknownAnswers.Add(int64(unknown))
		if !s.unknownLogged.Swap(true) { // logCounts logs the number of further ones
			s.logCounts()
		}
	}
}

// sessionIdle handles that s has no running call any more. mu must be held.
func (h *Host) sessionIdle(s *session) {
	s.idleSince = time.Now()
	switch {
	case s.Drained(): // its stream is closed
	case s.alone || s.cfg.PerTask:
		s.Drain()
	case len(h.dispatch.Sessions()) > h.cfg.MinProcesses:
		h.wake.Set()
	}
}

// logLine logs a line that the process of s sent in a frame.
func (h *Host) logLine(s *session, l *wire.LogLine) {
	s.proc.out.emit(h.dispatch.CallOf(s.Session, l.GetRunId()), programlog.RecordOf(l))
}
