package workers

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/plugins/internal/calls"
	"github.com/taskengine/taskengine/plugins/internal/wire"
	"github.com/taskengine/taskengine/task"
)

// worker is a session of a worker: the runs that it has, through any number of connections.
type worker struct {
	session string // its name, of 16 bytes
	name    string // for logs and lists
	handler string
	number  int // among the workers of the pool that have connected so far
	since   time.Time

	// The pool's mutex guards the fields below.

	link      *link // the connection; nil while there is none
	broken    *link // the connection before, while there is none
	isOver    bool  // the runs will be given to others: the worker gets another session when it connects again
	running   map[uint64]*call
	cancelled map[uint64]*wire.Cancel // of running runs that were asked to end
	cancels   []*wire.Cancel          // unsent
	stored    []*wire.Stored          // unsent; empty while there is no link
	slots     int                     // runs that it takes at once
	sdk       string                  // the library that it uses and its version, printable
	version   string                  // of the worker, printable
	credits   int                     // runs that may be sent now
	finishes  uint64                  // arrived, over all connections
	told      uint64                  // how many of them are acknowledged
	ping      uint64                  // unsent, if not 0
	lastPing  uint64                  // the newest, over all connections
	pinged    ping                    // the newest sent
	heard     uint64                  // the newest pong that has arrived
	heardAt   time.Time               // when the newest frame arrived
	ahead     *time.Duration          // how far its clock is ahead of the clock of this node; nil if it does not report it
	drain     drainState
}

// ping is a ping that was sent to a worker.
type ping struct {
	number uint64
	at     time.Time
}

type drainState uint8

const (
	serving drainState = iota
	toDrain            // no more runs are sent; the drain is to be sent
	drained            // the drain was sent, or the worker wants to leave
)

// link is one connection of a worker.
type link struct {
	stream grpc.BidiStreamingServer[wire.FromHandler, wire.ToHandler]
	adds   func(types ...string) error // why the worker may not add tasks of some types; nil if it may add all
	wake   wakeup.Signal               // wakes the writer when there may be something to send
	heard  atomic.Bool                 // a frame was received since the last ping
	ended  chan struct{}               // closed when the node ends the connection
	why    error                       // the status that ends it; set before ended is closed
}

// The statuses with which a node ends a connection. A worker connects again, except after a nil status.
var (
	errStopping = status.Error(codes.Unavailable, "the node stops")
	errTaken    = status.Error(codes.Aborted, "the worker has connected again")
	errSilent   = status.Error(codes.Aborted, "the worker was silent for too long: its tasks run elsewhere")
)

// String implements [fmt.Stringer].
func (w *worker) String() string { return fmt.Sprintf("worker %q of handler %q", w.name, w.handler) }

// serves reports whether w takes calls from the queue.
func (w *worker) serves() bool { return w.link != nil && w.drain == serving }

// freeSlots returns how many more runs may be sent to w.
func (w *worker) freeSlots() int { return min(w.credits, w.slots-len(w.running)) }

// wake wakes the writer of the connection, if there is one.
func (w *worker) wake() {
	if w.link != nil {
		w.link.wake.Set()
	}
}

// release removes c from the running calls.
func (w *worker) release(c *call) {
	delete(w.running, c.Run.RunId)
	if len(w.cancelled) > 0 {
		delete(w.cancelled, c.Run.RunId)
	}
	c.Session = nil
}

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

// attach makes l the connection of the worker that sent this first frame, and returns the worker and the welcome. It
// returns the status of an error for a worker that is not wanted.
func (p *Pool) attach(l *link, greeting *wire.FromHandler) (*worker, *wire.Welcome, error) {
	offer, hello, now := greeting.GetOffer(), greeting.GetHello(), time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	w, resumed := p.sessionOf(offer), true
	if w == nil {
		if p.isClosing {
			return nil, nil, errStopping
		}
		resumed = false
		w = &worker{
			session: string(offer.GetSession()), name: offer.GetName(), handler: p.cfg.Name, number: p.status.Starts + 1, since: now,
			running: make(map[uint64]*call), cancelled: make(map[uint64]*wire.Cancel),
		}
		p.workers = append(p.workers, w)
		p.status.Starts++
	} else if w.link != nil {
		w.link.end(errTaken)
	}
	w.link, w.broken, w.credits, w.heard, w.heardAt = l, nil, 0, 0, now
	w.stored = nil // the worker sends the checkpoints again that it has no answer to
	w.slots = int(min(hello.GetSlots(), maxSlots))
	if most := p.cfg.Slots; most > 0 {
		w.slots = min(w.slots, most)
	}
	w.sdk, w.version = printable(strings.TrimSpace(hello.GetSdk()+" "+hello.GetSdkVersion())), printable(hello.GetVersion())
	w.told = w.finishes
	w.hearClock(greeting.GetClock(), now, now)
	welcome := &wire.Welcome{
		Protocol: wire.Protocol, Host: p.cfg.Host, Name: p.cfg.Name, Slots: uint32(w.slots),
		MaxResultBytes: uint64(p.cfg.MaxResult), MaxPayloadBytes: uint64(p.cfg.MaxPayload), Features: calls.Features,
		Resumed: resumed, Received: w.finishes, Runs: p.resume(w, offer.GetRuns()),
		Liveness: p.cfg.Liveness.Microseconds(), Reconnect: p.cfg.Reconnect.Microseconds(), Lease: p.Lease().Microseconds(),
	}
	p.notifyUses()
	p.log.Info("a worker is connected", "worker", w.name, "sdk", w.sdk, "version", w.version,
		"types", hello.GetTypes(), "slots", w.slots, "resumed", resumed, "running", len(w.running))
	return w, welcome, nil
}

// sessionOf returns the worker that made an offer, nil if it is not known. mu must be held.
func (p *Pool) sessionOf(offer *wire.Offer) *worker {
	i := slices.IndexFunc(p.workers, func(w *worker) bool { return w.session == string(offer.GetSession()) && !w.isOver })
	if i < 0 {
		return nil
	}
	return p.workers[i]
}

// resume returns the runs of w that are open and that the worker has. The others have not reached it and are handed back.
// mu must be held.
func (p *Pool) resume(w *worker, has []uint64) (open []uint64) {
	w.cancels = nil
	known := make(map[uint64]bool, len(w.running))
	for _, id := range has {
		if w.running[id] == nil || known[id] {
			continue
		}
		known[id] = true
		open = append(open, id)
		if c := w.cancelled[id]; c != nil {
			w.cancels = append(w.cancels, c)
		}
	}
	for id, c := range w.running {
		if !known[id] {
			w.release(c)
			c.Deliver(answer{Err: calls.Unavailable(errNotDelivered)})
		}
	}
	if w.drain == drained {
		w.drain = toDrain // the drain may not have arrived
	}
	return open
}

// broke notes that the connection l of w is broken. The runs of w are kept for a while, unless the worker broke the
// protocol, and in any case for as long as the worker may begin them.
func (p *Pool) broke(w *worker, l *link, why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.link != l {
		return
	}
	w.link, w.broken = nil, l
	p.log.Info("a worker has lost its connection", "worker", w.name, "running", len(w.running), "because", why)
	keep, text := p.cfg.Reconnect, fmt.Sprintf("it did not connect again within %v", p.cfg.Reconnect)
	if keep == 0 || status.Code(why) == codes.ResourceExhausted {
		keep, text, w.isOver = 0, fmt.Sprintf("its connection broke: %v", why), true
	}
	if keep = max(keep, p.Lease()-time.Since(w.heardAt)); len(w.running) == 0 || keep <= 0 {
		p.lose(w, text)
		return
	}
	p.refuseIfHopeless()
	p.notifyUses()
	time.AfterFunc(keep, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if w.broken == l {
			p.lose(w, text)
		}
	})
}

// silent cuts off w after its silence on l.
func (p *Pool) silent(w *worker, l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.link != l {
		return
	}
	p.lose(w, fmt.Sprintf("it was silent for %v", p.cfg.Liveness))
}

// lose ends w because of a failure. mu must be held.
func (p *Pool) lose(w *worker, why string) {
	running := len(w.running)
	if w.drain == serving || running > 0 {
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
	p.workers = slices.DeleteFunc(p.workers, func(o *worker) bool { return o == w })
	if w.link != nil {
		w.link.end(how)
	}
	w.link, w.broken = nil, nil
	for _, c := range w.running {
		w.release(c)
		c.Deliver(answer{Err: why(c)})
	}
	p.refuseIfHopeless()
	p.notifyUses()
	p.ended()
}

// beginDrain has w end after its running calls. mu must be held.
func (p *Pool) beginDrain(w *worker) {
	switch {
	case w.link == nil && len(w.running) == 0:
		p.end(w, nil, nil)
	case w.drain == serving:
		w.drain = toDrain
		w.wake()
	}
}
