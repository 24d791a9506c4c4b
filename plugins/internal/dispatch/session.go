package dispatch

import (
	"sync/atomic"
	"time"

	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/plugins/internal/calls"
	"github.com/taskengine/taskengine/plugins/internal/wire"
)

// MaxSlots is how many calls one session runs at once at most.
const MaxSlots = 1 << 16

// Session is one process or one worker, and the calls that it runs. The host's mutex guards it, except for Owner and Grace.
type Session[O any] struct {
	Owner O             // the host's part; never changed
	Grace time.Duration // how long a call may run after its cancellation; never changed

	core     *Core[O]
	queue    *Queue[O] // that it takes calls from
	once     bool      // it takes a single call in all
	running  map[uint64]*Call[O]
	slots    int // calls that it runs at once
	credits  int // calls that may be sent now
	taken    int // calls that were sent in all
	finished int // calls that it has answered

	wake      wakeup.Signal        // wakes the writer of the connection
	connected bool                 // frames are sent
	retired   bool                 // it takes no more calls
	drain     drain                // how far its end has got
	cancels   []*wire.Cancel       // unsent
	stored    []*wire.Stored       // unsent
	checked   []*wire.Checked      // unsent
	documents []*wire.DocumentRead // unsent
	unsent    int                  // bytes of documents
	rights    calls.Rights         // of the program
	ping      uint64               // unsent, if not 0
	lastPing  uint64               // the newest
}

type drain uint8

const (
	serving drain = iota
	toDrain       // no more calls are sent; the drain is to be sent
	drained       // the drain was sent, or is not needed
)

// NewSession returns a session for Add, which will take calls from q: a single one if once. It has no connection.
func (c *Core[O]) NewSession(owner O, q *Queue[O], once bool, grace time.Duration) *Session[O] {
	return &Session[O]{Owner: owner, Grace: grace, core: c, queue: q, once: once, running: make(map[uint64]*Call[O])}
}

// Connect notes that a new connection of a program with these rights sends the frames, and returns the signal that wakes its writer. The hello
// says how many calls the session takes at once; most bounds that if it is not 0. The credits and answers of the connection before are void.
func (s *Session[O]) Connect(hello *wire.Hello, most int, rights calls.Rights) wakeup.Signal {
	s.slots = int(min(hello.GetSlots(), MaxSlots))
	if most > 0 {
		s.slots = min(s.slots, most)
	}
	s.wake, s.connected, s.credits, s.rights = wakeup.New(), true, 0, rights
	s.stored, s.checked, s.documents, s.unsent = nil, nil, nil, 0
	s.yield()
	return s.wake
}

// hasRoom wakes the writer if it has something to do now that the session may have more room.
func (s *Session[O]) hasRoom() {
	if s.queue.n > 0 && s.Serves() || s.drain == drained && len(s.running) == 0 {
		s.Wake()
	}
}

// yield wakes another session for the calls that wait. It is called after s has lost room, because it may have been woken
// for them.
func (s *Session[O]) yield() {
	if s.queue.n > 0 {
		s.core.wakeFreest(s.queue)
	}
}

// Disconnect ends the sending of frames. The session keeps its calls.
func (s *Session[O]) Disconnect() {
	s.connected = false
	s.yield()
}

// Resume goes on with the calls that the other side has, and returns their runs. It sends their cancellations again, and
// the drain. The other calls have not arrived: they are answered with an error.
func (s *Session[O]) Resume(has []uint64, why error) (open []uint64) {
	s.cancels = nil
	known := make(map[uint64]bool, len(s.running))
	for _, id := range has {
		call := s.running[id]
		if call == nil || known[id] {
			continue
		}
		known[id] = true
		open = append(open, id)
		if call.cancel != nil {
			s.cancels = append(s.cancels, call.cancel)
		}
	}
	for id, call := range s.running {
		if !known[id] {
			call.End(calls.Unavailable(why))
		}
	}
	if s.drain == drained {
		s.drain = toDrain
	}
	return open
}

// AddCredits allows for more calls to be sent, before the writer begins.
func (s *Session[O]) AddCredits(credits uint32) {
	s.credits = min(s.credits+int(min(credits, MaxSlots)), MaxSlots)
}

// Retire ends the sending of calls. Other frames are sent.
func (s *Session[O]) Retire() {
	s.retired = true
	s.yield()
}

// Drain ends the session after its calls. The other side is notified.
func (s *Session[O]) Drain() {
	if s.drain == serving {
		s.drain = toDrain
		s.Wake()
		s.yield()
	}
}

// Leave ends the session after its calls, because the other side wants to leave.
func (s *Session[O]) Leave() {
	if s.drain == serving {
		s.drain = drained
		s.Wake()
		s.yield()
	}
}

// Ping adds a ping to the next frame.
func (s *Session[O]) Ping() {
	s.lastPing++
	s.ping = s.lastPing
	s.Wake()
}

// Wake wakes the writer of the connection, if there is one.
func (s *Session[O]) Wake() {
	if s.connected {
		s.wake.Set()
	}
}

// Connected reports whether frames are sent.
func (s *Session[O]) Connected() bool { return s.connected }

// Retired reports whether Retire was called.
func (s *Session[O]) Retired() bool { return s.retired }

// Draining reports whether Drain or Leave was called.
func (s *Session[O]) Draining() bool { return s.drain != serving }

// Drained reports whether the other side knows that no more calls are sent.
func (s *Session[O]) Drained() bool { return s.drain == drained }

// Serves reports whether the session takes calls, now or when it has room.
func (s *Session[O]) Serves() bool {
	return s.connected && !s.retired && s.drain == serving && !(s.once && s.taken > 0)
}

// Free returns how many more calls may be sent, if the session serves.
func (s *Session[O]) Free() int { return max(0, min(s.credits, s.slots-len(s.running))) }

// room returns how many more calls the session takes now.
func (s *Session[O]) room() int {
	if !s.Serves() {
		return 0
	}
	return s.Free()
}

// Slots returns how many calls the session runs at once.
func (s *Session[O]) Slots() int { return s.slots }

// Running returns how many calls the session runs.
func (s *Session[O]) Running() int { return len(s.running) }

// Taken returns how many calls the session was sent.
func (s *Session[O]) Taken() int { return s.taken }

// Finished returns how many calls the session has answered.
func (s *Session[O]) Finished() int { return s.finished }

// Call returns the call of a run, nil if the session does not run it.
func (s *Session[O]) Call(run uint64) *Call[O] { return s.running[run] }

// Only returns the call that the session runs, nil if it runs none or several.
func (s *Session[O]) Only() *Call[O] {
	if len(s.running) == 1 {
		for _, c := range s.running {
			return c
		}
	}
	return nil
}

// Pulse counts the pings of one connection that no frame has followed. The zero value has heard nothing.
type Pulse struct {
	heard  atomic.Bool // since the newest ping
	missed int         // pings in a row; the goroutine that calls Missed owns it
}

// Heard notes that a frame has arrived. Any goroutine may call it.
func (p *Pulse) Heard() { p.heard.Store(true) }

// Missed returns how many pings in a row got no answer. It is called once for each ping, when it is sent.
func (p *Pulse) Missed() int {
	if p.missed++; p.heard.Swap(false) {
		p.missed = 0
	}
	return p.missed
}
