package workers

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/plugins/internal/calls"
	"github.com/taskengine/taskengine/plugins/internal/dispatch"
	"github.com/taskengine/taskengine/plugins/internal/wire"
	"github.com/taskengine/taskengine/task"
)

// worker is a session of a worker: the runs that it has, through any number of connections.
type worker struct {
	key     string // of its session, 16 bytes that it has chosen
	name    string // for logs and lists
	handler string
	number  int // among the workers of the pool that have connected so far
	since   time.Time

	*session // the runs that it has

	// The pool's mutex guards the fields below.

	link     *link          // the newest connection; nil when the worker has ended
	isOver   bool           // the runs will be given to others: the worker gets another session when it connects again
	sdk      string         // the library that it uses and its version, printable
	version  string         // of the worker, printable
	finishes uint64         // arrived, over all connections
	answered uint64         // how many of them are acknowledged
	pinged   ping           // the newest sent
	heard    uint64         // the newest pong that has arrived
	heardAt  time.Time      // when the newest frame arrived
	ahead    *time.Duration // how far its clock is ahead of the clock of this node; nil if it does not report it
}

// ping is a ping that was sent to a worker.
type ping struct {
	number uint64
	at     time.Time
}

// link is one connection of a worker.
type link struct {
	stream grpc.BidiStreamingServer[wire.FromHandler, wire.ToHandler]
	rights calls.Rights
	pulse  dispatch.Pulse
	ended  chan struct{} // closed when the node ends the connection
	why    error         // the status that ends it; set before ended is closed
}

// The statuses with which a node ends a connection. A worker connects again, except after a nil status.
var (
	errStopping = status.Error(codes.Unavailable, "the node stops")
	errTaken    = status.Error(codes.Aborted, "the worker has connected again")
	errSilent   = status.Error(codes.Aborted, "the worker was silent for too long: its tasks run elsewhere")
)

// String implements [fmt.Stringer].
func (w *worker) String() string { return fmt.Sprintf("worker %q of handler %q", w.name, w.handler) }

// uses reports whether l is the connection of w and not broken.
func (w *worker) uses(l *link) bool { return w.link == l && w.Connected() }

// hearClock takes a reading of the worker's clock, made between two times of this node, in microseconds of Unix time; 0
// if the worker does not report it. The pool's mutex must be held.
func (w *worker) hearClock(clock int64, from, to time.Time) {
	if clock == 0 {
		return
	}
	ahead := time.UnixMicro(clock).Sub(from.Add(to.Sub(from) / 2).Round(0))
	w.ahead = &ahead
}

// end has the connection end with a status.
func (l *link) end(why error) {
	select {
	case <-l.ended:
	default:
		l.why = why
		close(l.ended)
	}
}

// attach makes l the connection of the worker that sent this first frame, and returns the worker, the signal that wakes its
// writer, and the welcome. It returns the status of an error for a worker that is not wanted.
func (p *Pool) attach(l *link, greeting *wire.FromHandler) (*worker, wakeup.Signal, *wire.Welcome, error) {
	offer, hello, now := greeting.GetOffer(), greeting.GetHello(), time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	w, resumed := p.workerOf(offer), true
	switch {
	case w == nil && p.isClosing:
		return nil, wakeup.Signal{}, nil, errStopping
	case w == nil:
		resumed = false
		p.status.Starts++
		w = &worker{key: string(offer.GetSession()), name: offer.GetName(), handler: p.cfg.Name, number: p.status.Starts, since: now}
		w.session = p.dispatch.NewSession(w, &p.queue, false, p.cfg.Grace)
		p.dispatch.Add(w.session)
	case w.Connected():
		w.link.end(errTaken)
	}
	wake := w.Connect(hello, p.cfg.Slots, l.rights) // the worker sends the checkpoints again that it has no answer to
	w.link, w.heard, w.heardAt, w.answered = l, 0, now, w.finishes
	w.sdk, w.version = printable(strings.TrimSpace(hello.GetSdk()+" "+hello.GetSdkVersion())), printable(hello.GetVersion())
	w.hearClock(greeting.GetClock(), now, now)
	welcome := &wire.Welcome{
		Protocol: wire.Protocol, Host: p.cfg.Host, Name: p.cfg.Name, Slots: uint32(w.Slots()),
		MaxResultBytes: uint64(p.cfg.MaxResult), MaxPayloadBytes: uint64(p.cfg.MaxPayload), Features: calls.Features,
		Resumed: resumed, Received: w.finishes, Runs: w.Resume(offer.GetRuns(), errNotDelivered),
		Liveness: p.cfg.Liveness.Microseconds(), Reconnect: p.cfg.Reconnect.Microseconds(), Lease: p.Lease().Microseconds(),
	}
	p.notifyUses()
	p.log.Info("a worker is connected", "worker", w.name, "sdk", w.sdk, "version", w.version,
		"types", hello.GetTypes(), "slots", w.Slots(), "resumed", resumed, "running", w.Running())
	return w, wake, welcome, nil
}

// workerOf returns the worker that made an offer, nil if it is not known. mu must be held.
func (p *Pool) workerOf(offer *wire.Offer) *worker {
	for _, s := range p.dispatch.Sessions() {
		if w := s.Owner; w.key == string(offer.GetSession()) && !w.isOver {
			return w
		}
	}
	return nil
}

// broke notes that the connection l of w is broken. The runs of w are kept for a while, unless the worker broke the
// protocol, and in any case for as long as the worker may begin them.
func (p *Pool) broke(w *worker, l *link, why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !w.uses(l) {
		return
	}
	w.Disconnect()
	p.log.Info("a worker has lost its connection", "worker", w.name, "running", w.Running(), "because", why)
	keep, text := p.cfg.Reconnect, fmt.Sprintf("it did not connect again within %v", p.cfg.Reconnect)
	if keep == 0 || status.Code(why) == codes.ResourceExhausted {
		keep, text, w.isOver = 0, fmt.Sprintf("its connection broke: %v", why), true
	}
	if keep = max(keep, p.Lease()-time.Since(w.heardAt)); w.Running() == 0 || keep <= 0 {
		p.lose(w, text)
		return
	}
	p.refuseIfHopeless()
	p.notifyUses()
	time.AfterFunc(keep, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if w.link == l && !w.Connected() {
			p.lose(w, text)
		}
	})
}

// silent cuts off w after its silence on l.
func (p *Pool) silent(w *worker, l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !w.uses(l) {
		return
	}
	p.lose(w, fmt.Sprintf("it was silent for %v", p.cfg.Liveness))
}

// lose ends w because of a failure. mu must be held.
func (p *Pool) lose(w *worker, why string) {
	running := w.Running()
	if !w.Draining() || running > 0 {
		p.status.Lost++
		p.status.LastLoss = fmt.Sprintf("%v was lost: %s", w, why)
		p.log.Error("a worker is lost", "worker", w.name, "running", running, "because", why)
	}
	p.end(w, errSilent, func(c *call) error {
		cause := task.ErrInterrupted
		if p.losses.add(c.ID()) > tolerated {
			cause = task.ErrCrashed
		}
		return fmt.Errorf("%w: %v was lost while it ran %d tasks: %s", cause, w, running, why)
	})
}

// end removes w, ends its connection with the status how, and answers each call with the error of why. mu must be held.
func (p *Pool) end(w *worker, how error, why func(*call) error) {
	if w.Connected() {
		w.link.end(how)
	}
	w.link = nil
	p.dispatch.Remove(w.session, why)
	p.refuseIfHopeless()
	p.notifyUses()
	p.ended()
}

// beginDrain has w end after its running calls. mu must be held.
func (p *Pool) beginDrain(w *worker) {
	switch {
	case !w.Connected() && w.Running() == 0:
		p.end(w, nil, nil)
	default:
		w.Drain()
	}
}
