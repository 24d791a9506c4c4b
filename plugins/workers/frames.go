package workers

import (
	"time"

	"github.com/taskengine/taskengine/plugins/internal/calls"
	"github.com/taskengine/taskengine/plugins/internal/programlog"
	"github.com/taskengine/taskengine/plugins/internal/wire"
	"github.com/taskengine/taskengine/task"
)

// acknowledgeEvery is how many finishes may arrive before an acknowledgement, if no other frame goes to the
// worker.
const acknowledgeEvery = 64

// filled is the result of [Pool.fill].
type filled uint8

const (
	nothing   filled = iota
	something        // the frame is to be sent
	finished         // no frame follows
)

// fill fills frame for the connection l of w. It moves calls from the queue to the running calls of w, as many as slots
// and credits allow. When nothing is left to do for w, fill ends it.
func (p *Pool) fill(w *worker, l *link, frame *wire.ToHandler) filled {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(frame.Runs) // so that answered runs are freed
	frame.Runs, frame.Cancels, frame.Ping, frame.Drain, frame.Received, frame.Heard, frame.Stored = frame.Runs[:0], nil, 0, nil, 0, 0, nil
	if w.link != l {
		return finished
	}
	frame.Cancels, frame.Ping, w.cancels, w.ping = w.cancels, w.ping, nil, 0
	frame.Stored, w.stored = w.stored, nil
	if frame.Ping != 0 {
		w.pinged = ping{frame.Ping, time.Now()}
	}
	switch {
	case w.drain == toDrain:
		frame.Drain, w.drain = &wire.Drain{}, drained
	case w.serves():
		p.take(w, frame)
	}
	empty := len(frame.Runs) == 0 && len(frame.Cancels) == 0 && frame.Ping == 0 && frame.Drain == nil && len(frame.Stored) == 0
	if untold := w.finishes - w.told; untold > 0 && (!empty || untold >= acknowledgeEvery || w.drain == drained) {
		frame.Received, w.told = w.finishes, w.finishes
		empty = false
	}
	switch {
	case !empty:
		frame.Heard = w.heard
		return something
	case w.drain == drained && len(w.running) == 0:
		how := error(nil)
		if p.isClosing {
			how = errStopping
		}
		p.log.Info("a worker has left", "worker", w.name)
		p.end(w, how, nil)
		return finished
	}
	return nothing
}

// waiting returns how many calls no worker has taken yet.
func (p *Pool) waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.queue.Len()
}

// take moves a share of the waiting calls to w. mu must be held.
func (p *Pool) take(w *worker, frame *wire.ToHandler) {
	size, share := 0, p.share()
	for c := p.queue.First(); c != nil && len(frame.Runs) < share && w.freeSlots() > 0; c = p.queue.First() {
		if size += c.Size; size > wire.FrameBytes && len(frame.Runs) > 0 {
			break
		}
		c.Leave()
		if c.Begin() != nil {
			w.wake() // there may be other calls
			continue
		}
		w.credits--
		p.lastRun++
		c.Session, c.Run.RunId = w, p.lastRun
		w.running[p.lastRun] = c
		frame.Runs = append(frame.Runs, c.Run)
	}
	if p.queue.Len() > 0 {
		p.wakeFreest()
	}
}

// share returns how many of the waiting calls one worker may take at a time. It divides them equally among the workers
// with free slots. mu must be held.
func (p *Pool) share() int {
	n := 0
	for _, w := range p.workers {
		if w.serves() && w.freeSlots() > 0 {
			n++
		}
	}
	if n <= 1 {
		return wire.FrameMessages
	}
	return min(wire.FrameMessages, (p.queue.Len()+n-1)/n)
}

// undelivered hands back the runs of a frame that was not sent to w.
func (p *Pool) undelivered(w *worker, runs []*wire.Run) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, run := range runs {
		if c := w.running[run.GetRunId()]; c != nil {
			w.release(c)
			c.Deliver(answer{Err: calls.Unavailable(errNotDelivered)})
		}
	}
	p.notifyUses()
}

// handleFrame handles a frame from the connection l of w. A frame of a replaced connection has no effect: the worker
// repeats its answers and reports.
func (p *Pool) handleFrame(w *worker, l *link, frame *wire.FromHandler) {
	for _, line := range frame.GetLogs() {
		p.logLine(w, line)
	}
	ended := p.finish(w, l, frame)
	for i, f := range frame.GetFinishes() {
		if ended != nil && ended[i] != nil {
			ended[i].Done <- calls.Forbid(f, l.adds)
		}
	}
}

// finish handles a frame except its log lines. It returns the call for each finish in the frame, nil for a finish that
// answers none.
func (p *Pool) finish(w *worker, l *link, frame *wire.FromHandler) []*call {
	finishes := frame.GetFinishes()
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.link != l {
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
	ended := make([]*call, len(finishes))
	p.forward.Add(frame, w, w.running)
	w.credits = min(w.credits+int(min(frame.GetCredits(), maxSlots)), maxSlots)
	w.finishes += uint64(len(finishes))
	for i, f := range finishes {
		c := w.running[f.GetRunId()]
		if c == nil { // it was cut off: its task may run elsewhere
			continue
		}
		w.release(c)
		p.losses.remove(c.ID())
		if !c.Hold(func() answer { return calls.Forbid(f, l.adds) }) {
			ended[i] = c
		}
	}
	if frame.GetLeaving() && w.drain == serving {
		w.drain = drained
		p.log.Info("a worker wants to leave", "worker", w.name, "running", len(w.running))
		p.refuseIfHopeless()
	}
	if p.queue.Len() > 0 && w.serves() || w.finishes-w.told >= acknowledgeEvery || w.drain == drained {
		w.wake()
	}
	p.notifyUses()
	return ended
}

// logLine logs a line that w sent.
func (p *Pool) logLine(w *worker, l *wire.LogLine) {
	p.mu.Lock()
	c := w.running[l.GetRunId()]
	p.mu.Unlock()
	var reporter task.Reporter
	var id task.ID
	if c != nil {
		reporter, id = c.Reporter, c.ID()
	}
	programlog.Emit(p.programLog.With("worker", w.name), reporter, id, programlog.RecordOf(l))
}
