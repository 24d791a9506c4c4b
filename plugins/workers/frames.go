package workers

import (
	"time"

	"github.com/taskengine/taskengine/plugins/internal/dispatch"
	"github.com/taskengine/taskengine/plugins/internal/programlog"
	"github.com/taskengine/taskengine/plugins/internal/wire"
	"github.com/taskengine/taskengine/task"
)

// acknowledgeEvery is how many finishes may arrive before an acknowledgement, if no other frame goes to the
// worker.
const acknowledgeEvery = 64

// fill fills frame for the connection l of w. When nothing is left to do for w, fill ends it.
func (p *Pool) fill(w *worker, l *link, frame *wire.ToHandler) dispatch.Filled {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !w.uses(l) {
		return dispatch.Finished
	}
	filled := p.dispatch.Fill(w.session, frame)
	frame.Received, frame.Heard = 0, 0
	if frame.Ping != 0 {
		w.pinged = ping{frame.Ping, time.Now()}
	}
	if open := w.finishes - w.answered; open > 0 && (filled == dispatch.Something || open >= acknowledgeEvery || w.Drained()) {
		frame.Received, w.answered, filled = w.finishes, w.finishes, dispatch.Something
	}
	switch filled {
	case dispatch.Something:
		frame.Heard = w.heard
	case dispatch.Finished:
		how := error(nil)
		if p.isClosing {
			how = errStopping
		}
		p.log.Info("a worker has left", "worker", w.name)
		p.end(w, how, nil)
	}
	return filled
}

// handleFrame handles a frame from the connection l of w. A frame of a replaced connection has no effect: the worker
// repeats its answers and reports.
func (p *Pool) handleFrame(w *worker, l *link, frame *wire.FromHandler) {
	for _, line := range frame.GetLogs() {
		p.logLine(w, line)
	}
	var room [4]*call
	ended := p.finish(w, l, frame, room[:0])
	p.dispatch.Answer(ended, frame.GetFinishes(), l.rights.AnswerOf)
}

// finish handles a frame except its log lines. It appends the call for each finish in the frame to ended, nil for a finish
// that answers none.
func (p *Pool) finish(w *worker, l *link, frame *wire.FromHandler, ended []*call) []*call {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !w.uses(l) {
		return nil
	}
	now := time.Now()
	w.heardAt = now
	if n := frame.GetPong(); n > w.heard && n <= w.pinged.number {
		w.heard = n
		if n == w.pinged.number {
			w.hearClock(frame.GetClock(), w.pinged.at, now)
		}
	}
	ended = p.dispatch.Receive(w.session, frame, now, ended)
	w.finishes += uint64(len(ended))
	for _, c := range ended {
		if c != nil { // else it was cut off: its task may run elsewhere
			p.losses.remove(c.ID())
		}
	}
	if frame.GetLeaving() && !w.Draining() {
		w.Leave()
		p.log.Info("a worker wants to leave", "worker", w.name, "running", w.Running())
		p.refuseIfHopeless()
	}
	if w.finishes-w.answered >= acknowledgeEvery || w.Drained() {
		w.Wake()
	}
	p.notifyUses()
	return ended
}

// logLine logs a line that w sent.
func (p *Pool) logLine(w *worker, l *wire.LogLine) {
	c := p.dispatch.CallOf(w.session, l.GetRunId())
	var reporter task.Reporter
	var id task.ID
	if c != nil {
		reporter, id = c.Reporter, c.ID()
	}
	programlog.Emit(p.programLog.With("worker", w.name), reporter, id, programlog.RecordOf(l))
}
