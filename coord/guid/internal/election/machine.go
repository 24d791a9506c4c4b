package election

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/taskengine/taskengine/task"
)

// Machine is one candidate for one role. Times are by a clock that never goes back, since any moment. The methods
// that take a time return the messages that the candidate sends; before it sends them, the caller must look at [State].
// A Machine belongs to one goroutine.
type Machine struct {
	rules Rules
	self  task.ID
	rand  *rand.Rand // varies the times of announcements

	state State
	why   error // why the candidacy is over; nil: it was stopped

	now         time.Duration // of the newest event
	next        time.Duration // when Tick has something to do
	isConnected bool          // messages have arrived, or could
	others      known

	seq      uint64        // of the newest message
	sent     []sentMessage // messages with an echo that would count, oldest first
	lastSent time.Duration
	announce time.Duration // when the next announcement is due

	isFirst bool          // no older candidate is known
	since   time.Duration // when the time to settle began
	isHeard bool          // a message sent since then has come back
	heard   time.Duration // when the newest message was sent that has come back; before the first one, when it began

	out []Message
}

type sentMessage struct {
	seq uint64
	at  time.Duration
}

// New returns a candidate, which stands from now on. Its id must be new.
func New(now time.Duration, self task.ID, r Rules, chance *rand.Rand) *Machine {
	m := &Machine{rules: r, self: self, rand: chance, now: now, lastSent: now, heard: now}
	m.announce = now + r.gap() // the first one, unless it is connected before
	m.next = m.announce
	return m
}

// State returns the state of the candidate.
func (m *Machine) State() State { return m.state }

// Why returns the reason why the candidacy is over, or nil if it is not, or was stopped.
func (m *Machine) Why() error { return m.why }

// IsIsolated reports whether the candidate has not received its own messages for a lease.
func (m *Machine) IsIsolated() bool { return m.now >= m.heard+m.rules.Lease }

// Next returns when Tick should be called. It may be called at any other time as well.
func (m *Machine) Next() time.Duration { return m.next }

// Tick passes the time.
func (m *Machine) Tick(now time.Duration) []Message {
	return m.step(now, func() {})
}

// Connected says that messages arrive from now on, at first or after an interruption.
func (m *Machine) Connected(now time.Duration) []Message {
	return m.step(now, func() {
		if !m.isConnected && m.state == Waiting {
			m.isFirst = false // its silence from before does not count
		}
		m.isConnected = true
		m.send(Hello)
	})
}

// Received passes a message that has arrived.
func (m *Machine) Received(now time.Duration, msg Message) []Message {
	return m.step(now, func() {
		if msg.From == m.self {
			m.echo(msg)
			return
		}
		isNewer, isNew := m.others.learn(m.now, msg)
		if isNewer && msg.Kind != Bye && (isNew || msg.Kind == Hello) {
			m.announce = min(m.announce, m.lastSent+m.rules.gap())
		}
	})
}

// Stop ends the candidacy.
func (m *Machine) Stop(now time.Duration) []Message {
	if m.state == Over {
		return nil
	}
	m.now = max(m.now, now)
	m.end(nil)
	return m.flush()
}

// step handles an event. Everything but Stop goes through it.
func (m *Machine) step(now time.Duration, event func()) []Message {
	if m.state == Over {
		return nil
	}
	m.now = max(m.now, now)
	m.notePause()
	if m.state != Over {
		event()
	}
	m.others.expire(m.now)
	m.decide()
	if m.state != Over && m.announce <= m.now {
		m.send(m.kind())
	}
	m.plan()
	return m.flush()
}

// notePause notices that the process was stopped or too busy since it had something to do. It may have missed
// messages in that time, so the time does not count.
func (m *Machine) notePause() {
	if m.now <= m.next+m.rules.settle()/2 {
		return
	}
	if m.state == Waiting {
		m.isFirst = false
	} else if m.now >= m.lastSent+m.rules.Lease {
		m.end(ErrLate)
	}
}

// echo handles a message that comes from the id of this candidate.
func (m *Machine) echo(msg Message) {
	if msg.Seq > m.seq {
		m.state, m.why = Over, ErrDuplicate // without a Bye, which would be about the other one as well
		return
	}
	i := slices.IndexFunc(m.sent, func(s sentMessage) bool { return s.seq == msg.Seq })
	if i < 0 {
		return // it is too old
	}
	at := m.sent[i].at
	m.heard = max(m.heard, at)
	if m.isFirst && !m.isHeard && at >= m.since {
		m.isHeard, m.since = true, at
	}
}

// decide decides whether the candidate leads.
func (m *Machine) decide() {
	if m.state == Over {
		return
	}
	if m.others.hasOlder(m.self) {
		m.isFirst = false
		if m.state == Leading {
			m.end(ErrOlder)
		}
		return
	}
	if !m.isFirst {
		m.isFirst, m.since, m.isHeard = true, m.now, false
		m.send(Hello)
	}
	switch {
	case m.state == Waiting && m.now >= m.since+m.rules.settle() && (m.isHeard || !m.rules.MustHear):
		m.state = Leading
	case m.state == Leading && m.rules.MustHear && m.IsIsolated():
		m.end(ErrIsolated)
	}
}

// kind returns that of an announcement that is due.
func (m *Machine) kind() Kind {
	if m.isFirst && m.state == Waiting {
		return Hello
	}
	return Here
}

func (m *Machine) end(why error) {
	m.send(Bye)
	m.state, m.why = Over, why
}

// send sends a message, unless one of the kind was sent at this moment.
func (m *Machine) send(k Kind) {
	if n := len(m.out); n > 0 && m.out[n-1].Kind == k {
		return
	}
	m.seq++
	m.out = append(m.out, Message{Kind: k, From: m.self, Seq: m.seq, Lease: m.rules.Lease})
	m.sent = slices.DeleteFunc(m.sent, func(s sentMessage) bool { return s.at+m.rules.Lease <= m.now })
	m.sent = append(m.sent, sentMessage{m.seq, m.now})
	m.lastSent = m.now
	mean := m.rules.announce()
	m.announce = m.now + mean*9/10 + time.Duration(m.rand.Int64N(int64(mean/5)+1))
}

// plan computes when Tick has something to do.
func (m *Machine) plan() {
	m.next = m.others.next(m.announce)
	if settled := m.since + m.rules.settle(); m.state == Waiting && m.isFirst && settled > m.now {
		m.next = min(m.next, settled)
	}
	if m.state == Leading && m.rules.MustHear {
		m.next = min(m.next, m.heard+m.rules.Lease)
	}
}

func (m *Machine) flush() []Message {
	out := m.out
	m.out = nil
	return out
}
