// Package dispatch gives the tasks of a host to the sessions that serve it, and their answers back. A session is one
// process that the host has started, or one worker that has connected to the node. [Core] decides: it has the sessions, the
// calls that wait for one and the calls that they run. [Dispatcher] waits: for answers, for the engine and for streams.
//
// Starting and ending processes, and accepting connections, is up to the host.
package dispatch

import (
	"slices"
	"time"

	"github.com/taskengine/taskengine/plugins/internal/calls"
	"github.com/taskengine/taskengine/plugins/internal/wire"
)

// Core is the state of the calls of one host, and decides which session gets which call. It reads no clock, sends nothing
// and never waits: the channels of answers and wake-ups have room. O is the host's part of a session.
//
// The host's mutex guards it, with its queues, sessions and calls. The zero value has no session.
type Core[O any] struct {
	sessions []*Session[O] // in the order of Add
	lastRun  uint64        // id of the newest run
}

// Sessions returns the sessions in the order of Add. The caller does not change the slice.
func (c *Core[O]) Sessions() []*Session[O] { return c.sessions }

// Add adds a session, which takes calls from now on. It has no writer yet.
func (c *Core[O]) Add(s *Session[O]) { c.sessions = append(c.sessions, s) }

// Remove removes a session, and answers each call that it runs with an error.
func (c *Core[O]) Remove(s *Session[O], why func(*Call[O]) error) {
	c.sessions = slices.DeleteFunc(c.sessions, func(o *Session[O]) bool { return o == s })
	s.Disconnect()
	for _, call := range s.running {
		call.End(why(call))
	}
}

// Push adds a call to a queue and wakes the session of the queue that has the most room. It reports false if no session has
// any.
func (c *Core[O]) Push(q *Queue[O], call *Call[O]) bool {
	q.push(call)
	return c.wakeFreest(q)
}

func (c *Core[O]) wakeFreest(q *Queue[O]) bool {
	var best *Session[O]
	for _, s := range c.sessions {
		if s.queue == q && s.room() > 0 && (best == nil || s.room() > best.room()) {
			best = s
		}
	}
	if best == nil {
		return false
	}
	best.Wake()
	return true
}

// HasRoom reports whether a session can take a call of q.
func (c *Core[O]) HasRoom(q *Queue[O]) bool {
	return slices.ContainsFunc(c.sessions, func(s *Session[O]) bool { return s.queue == q && s.room() > 0 })
}

// Cancel asks for the end of a call. It reports whether the call still waited: then it has left its queue and is not
// answered. The session of a running call gets the message.
func (c *Core[O]) Cancel(call *Call[O], message *wire.Cancel) (waited bool) {
	if call.queue != nil {
		call.queue.remove(call)
		return true
	}
	if s := call.session; s != nil {
		message.RunId = call.Run.RunId
		call.cancel = message
		s.cancels = append(s.cancels, message)
		s.Wake()
	}
	return false
}

// Filled is the result of [Core.Fill].
type Filled uint8

// The results of [Core.Fill].
const (
	Nothing   Filled = iota // the frame is empty, until the session is woken
	Something               // the frame is to be sent
	Finished                // the frame is empty, and so are all later ones: the session is drained
)

// Fill fills frame with the messages that are to be sent to s. It moves calls from the queue to the running calls of s, as many as slots
// and credits allow. It calls begin for each of them, and answers those that begin returns an error for. Only one
// goroutine calls it for a connection of s, again after each frame.
func (c *Core[O]) Fill(s *Session[O], frame *wire.ToHandler, begin func(*Call[O]) error) Filled {
	clear(frame.Runs) // so that answered runs are freed
	frame.Runs, frame.Cancels, frame.Ping, frame.Drain, frame.Stored = frame.Runs[:0], s.cancels, s.ping, nil, s.stored
	s.cancels, s.ping, s.stored, frame.Checked, frame.Documents = nil, 0, nil, s.takeChecked(), s.takeRead()
	if s.drain == toDrain {
		frame.Drain, s.drain = &wire.Drain{}, drained
	}
	c.take(s, frame, begin)
	switch {
	case len(frame.Runs) > 0 || len(frame.Cancels) > 0 || frame.Ping != 0 || frame.Drain != nil || len(frame.Stored)+len(frame.Checked)+len(frame.Documents) > 0:
		return Something
	case s.drain == drained && len(s.running) == 0:
		return Finished
	}
	return Nothing
}

// take moves a share of the waiting calls to s.
func (c *Core[O]) take(s *Session[O], frame *wire.ToHandler, begin func(*Call[O]) error) {
	size, share := 0, c.share(s.queue)
	for call := s.queue.first; call != nil && len(frame.Runs) < share && s.room() > 0; call = s.queue.first {
		if size += call.size; size > wire.FrameBytes && len(frame.Runs) > 0 {
			break
		}
		s.queue.remove(call)
		if err := begin(call); err != nil {
			call.Done <- calls.Answer{Err: calls.Unavailable(err)}
			continue
		}
		c.lastRun++
		call.session, call.Run.RunId = s, c.lastRun
		s.running[c.lastRun] = call
		s.credits--
		s.taken++
		frame.Runs = append(frame.Runs, call.Run)
	}
	if s.queue.n > 0 {
		c.wakeFreest(s.queue)
	}
}

// share returns how many of the waiting calls one session may take at a time. It divides them equally among the sessions
// that have room.
func (c *Core[O]) share(q *Queue[O]) int {
	n := 0
	for _, s := range c.sessions {
		if s.queue == q && s.room() > 0 {
			n++
		}
	}
	if n <= 1 {
		return wire.FrameMessages
	}
	return min(wire.FrameMessages, (q.n+n-1)/n)
}

// Undelivered hands the runs of a frame back that was not sent to s.
func (c *Core[O]) Undelivered(s *Session[O], runs []*wire.Run, why error) {
	for _, run := range runs {
		if call := s.running[run.GetRunId()]; call != nil {
			call.End(calls.Unavailable(why))
		}
	}
}

// Receive takes a frame from s that has arrived now. It appends the call of each finish to ended, nil for a finish of a run
// that is not running; the caller answers them. It also returns the calls that have reports again, which the caller takes
// by [Core.NextReports] until there are none.
func (c *Core[O]) Receive(s *Session[O], frame *wire.FromHandler, now time.Time, ended []*Call[O]) (all, reporting []*Call[O]) {
	reporting = c.addReports(s, frame, now)
	s.AddCredits(frame.GetCredits())
	ended = slices.Grow(ended, len(frame.GetFinishes()))
	for _, f := range frame.GetFinishes() {
		call := s.running[f.GetRunId()]
		if call != nil {
			call.leave()
			s.finished++
		}
		ended = append(ended, call)
	}
	s.hasRoom() // not before: the writer would wait for the mutex
	return ended, reporting
}
