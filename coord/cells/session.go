package cells

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/taskengine/taskengine/coord/internal/lease"
	"github.com/taskengine/taskengine/coord/internal/retry"
	"github.com/taskengine/taskengine/task"
)

// session is the lease by which the node holds roles, permits and members.
type session struct {
	Session
	id task.ID // in the values of its cells

	roles  map[string]bool // guarded by Node.mu: roles with its id in their cells
	strays map[string]bool // guarded by Node.mu: keys of its cells of members and holders, which may be gone

	unproved []renewal   // guarded by Node.mu: renewals that were answered since the end of the watch
	renewals []renewal   // guarded by Node.mu: by age, from the newest that has counted on; none if its Lag is 0
	proof    lease.Proof // guarded by Node.mu: of the newest renewal that counts
	until    time.Time   // guarded by Node.mu: when everything is taken away, unless a renewal counts before
	end      *time.Timer // takes everything away at until
}

// renewal is a renewal of a session that was answered.
type renewal struct {
	begun, answered time.Time
	at              uint64        // of its answer: see [Renewal]
	suspended       time.Duration // how long the machine had been suspended when it began
}

// holds reports whether the session lasts: see [lease.Proof]. It is called with Node.mu held.
func (s *session) holds(now time.Time, suspended time.Duration) bool {
	return s != nil && s.proof.Holds(now, suspended)
}

// count returns the newest renewal that has certainly reached the server that ends sessions, if r is the newest that was
// answered. It reports false if there is none. It is called with Node.mu held.
func (s *session) count(r renewal) (renewal, bool) {
	lag := s.Lag()
	if lag == 0 {
		return r, true
	}
	s.renewals = append(s.renewals, r)
	for i, earlier := range slices.Backward(s.renewals) {
		if !earlier.answered.Add(lag).After(r.begun) {
			s.renewals = s.renewals[i:]
			return earlier, true
		}
	}
	return renewal{}, false
}

// every returns how long after the beginning of a renewal the next one begins. With a Lag a renewal counts only when
// another one has followed, so they are more frequent.
func (s *session) every() time.Duration {
	if s.Lag() > 0 {
		return s.Lease() / 6
	}
	return s.Lease() / 3
}

// openWithin is how long opening a session may take.
const openWithin = 10 * time.Second

// sessionLoop opens sessions and renews them, until Close.
func (n *Node) sessionLoop() {
	if !n.waitStart() {
		return
	}
	pause := retry.Backoff{Most: n.maxPause}
	for !n.isClosed() {
		may, err := n.mayOpen()
		start := time.Now()
		switch {
		case may:
			err = n.renew(start)
		case err == nil:
			continue
		}
		if err != nil {
			n.outage.Failed("renewing the lease", err)
			n.sleep(pause.Next(), n.sessionSoon)
			continue
		}
		n.outage.Worked("renewing the lease")
		pause.Reset()
		n.sleep(n.renewEvery()-time.Since(start), n.sessionSoon)
	}
}

func (n *Node) renewEvery() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.session == nil {
		return 0
	}
	return n.session.every()
}

// realLease returns the lease of the session, or of the one before; before the first session it is the wanted one.
func (n *Node) realLease() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.lease
}

// renew renews the session, or opens one.
func (n *Node) renew(start time.Time) error {
	n.mu.Lock()
	s, era, newest := n.session, n.era, n.newest
	n.mu.Unlock()
	if s == nil {
		return n.open(era)
	}
	r := renewal{begun: start}
	r.suspended, _ = lease.Suspended()
	ctx, cancel := context.WithTimeout(n.ctx, s.every())
	defer cancel()
	answer, err := s.Renew(ctx)
	n.mu.Lock()
	defer n.mu.Unlock()
	isOver := errors.Is(err, ErrOver)
	switch {
	case err != nil && !isOver:
		return err
	case n.session != s: // the session was lost
	case isOver:
		n.lose(ErrLeaseOver)
	case n.era != era: // the answer may be of a time that the store has lost
		n.sessionSoon.Set()
	case answer.At < newest:
		n.doubtAll()
	case !n.present.whole: // it counts when all cells were read
		r.answered, r.at = time.Now(), answer.At
		s.unproved = append(s.unproved, r)
	default:
		n.renewed(s, r, answer)
	}
	return nil
}

// open opens a session in an era and renews it: opening may take longer than a lease.
func (n *Node) open(era uint64) error {
	opening, cancel := context.WithTimeout(n.ctx, openWithin)
	defer cancel()
	asked := renewal{begun: time.Now()}
	asked.suspended, _ = lease.Suspended()
	opened, err := n.store.Open(opening, n.options.Lease)
	if err != nil {
		return err
	}
	first := renewal{begun: time.Now()}
	first.suspended, _ = lease.Suspended()
	ctx, cancel := n.call()
	defer cancel()
	s := &session{Session: opened, id: newID(), roles: map[string]bool{}, strays: map[string]bool{}}
	answer, err := s.Renew(ctx)
	if err != nil {
		n.endSession(s)
		return err
	}
	if lag := s.Lag(); lag > 0 { // that it was opened is known to the server that ends it
		asked.answered = first.begun.Add(-lag)
		s.renewals = append(s.renewals, asked)
	}
	n.begin(s, era, first, answer)
	return nil
}

// begin makes s, which was opened in an era, the session, unless the node is closed or does not watch since then.
func (n *Node) begin(s *session, era uint64, first renewal, answer Renewal) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.isClosed() || n.era != era || !n.present.whole {
		n.loops.Go(func() { n.endSession(s) })
		return
	}
	n.session, n.lease = s, s.Lease()
	s.until = n.heldUntil(first)
	s.end = time.AfterFunc(time.Until(s.until), func() { n.expire(s) })
	n.renewed(s, first, answer)
	n.suspectAll()
	for key := range n.full { // the coordinator may take larger values now
		n.dirty[key] = true
	}
	n.syncSoon.Set()
}

// heldUntil returns the time after a renewal at which a node loses all that it holds. That is a sixth of the lease before
// others can get it: users of a role or a permit need time to stop. It is called with mu held.
func (n *Node) heldUntil(r renewal) time.Time { return r.begun.Add(n.lease - n.lease/6) }

// renewed applies the answer to a renewal, and moves the end of the session, unless that has passed. It is
// called with mu held.
func (n *Node) renewed(s *session, r renewal, answer Renewal) {
	for _, c := range answer.Members {
		n.learn(c)
	}
	if r.answered.IsZero() {
		r.answered = time.Now()
	}
	counts, ok := s.count(r)
	if n.session != s || !ok {
		return
	}
	until := n.heldUntil(counts)
	if rest := time.Until(until); rest > 0 && until.After(s.proof.Until) {
		s.proof, s.until = lease.Proof{Until: until, Suspended: counts.suspended}, until
		s.end.Reset(rest)
		for _, m := range n.members {
			m.list.Renew(s.proof)
		}
	}
	n.syncSoon.Set()
}

// expire takes away all that a session holds if it was not renewed in time.
func (n *Node) expire(s *session) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.session == s && !time.Now().Before(s.until) {
		n.lose(ErrLeaseOver)
	}
}

// lose takes away all that the session holds and abandons it. If it has permits, it lasts in the store until its lease is
// over: users of the permits need time to stop. It is called with mu held.
func (n *Node) lose(why error) {
	if s := n.session; s != nil {
		n.session = nil
		s.end.Stop()
		switch {
		case n.isClosed(): // Close ends it
		case n.usesPermits():
			s.Abandon()
		default:
			n.loops.Go(func() { n.endSession(s) })
		}
	}
	n.restore = n.cluster != ""
	n.loseRoles(why)
	n.loseMembers(why)
	n.loseHolders(why)
	n.wakeWatches()
	n.sessionSoon.Set()
	n.syncSoon.Set()
}

// endSession ends a session that has nothing that is in use. If that fails, its lease ends it.
func (n *Node) endSession(s *session) {
	ctx, cancel := context.WithTimeout(context.Background(), s.Lease()/3)
	defer cancel()
	if err := s.End(ctx); err != nil && !errors.Is(err, ErrOver) {
		n.options.Log.Debug("a session lasts until its lease is over", "error", err)
	}
}
