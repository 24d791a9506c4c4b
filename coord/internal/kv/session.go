package kv

import (
	"context"
	"errors"
	"time"

	"github.com/taskengine/taskengine/coord/internal/lease"
	"github.com/taskengine/taskengine/coord/internal/retry"
	"github.com/taskengine/taskengine/engine/task"
)

// session is the lease by which the node holds roles, permits and members.
type session struct {
	Session
	id task.ID // in the values of its cells

	roles  map[string]bool // guarded by Node.mu: those whose cells have its id
	strays map[string]bool // guarded by Node.mu: keys of its cells of members and holders, which may be gone

	until     time.Time     // guarded by Node.mu: when it ends unless it is renewed
	suspended time.Duration // guarded by Node.mu: how long the machine had been suspended when the last successful renewal began
	end       *time.Timer   // takes everything away at until
}

// holds reports whether the session has not ended at a time of the monotonic clock. That clock stops while the machine
// is suspended, and that of the store does not: suspended is for how long the machine was suspended since it was
// started. It is called with Node.mu held.
func (s *session) holds(now time.Time, suspended time.Duration) bool {
	return s != nil && now.Add(suspended-s.suspended).Before(s.until)
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
		start := time.Now()
		if err := n.renew(start); err != nil {
			n.outage.Failed("renewing the lease", err)
			n.sleep(pause.Next(), n.sessionSoon)
			continue
		}
		n.outage.Worked("renewing the lease")
		pause.Reset()
		n.sleep(n.realLease()/3-time.Since(start), n.sessionSoon)
	}
}

// realLease returns the lease of the session, or of the one before, and before the first one what is asked for.
func (n *Node) realLease() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.lease
}

// renew renews the session, or opens one.
func (n *Node) renew(start time.Time) error {
	n.mu.Lock()
	s := n.session
	n.mu.Unlock()
	if s == nil {
		return n.open()
	}
	least, _ := lease.Suspended()
	ctx, cancel := n.call()
	defer cancel()
	err := s.Renew(ctx)
	n.mu.Lock()
	defer n.mu.Unlock()
	isOver := errors.Is(err, ErrOver)
	switch {
	case err != nil && !isOver:
		return err
	case n.session != s: // it was lost meanwhile
	case isOver:
		n.lose(ErrLeaseOver)
	default:
		n.prolong(s, start, least)
	}
	return nil
}

// open opens a session and renews it: opening may take longer than a lease.
func (n *Node) open() error {
	opening, cancel := context.WithTimeout(n.ctx, openWithin)
	defer cancel()
	opened, err := n.store.Open(opening, n.options.Lease)
	if err != nil {
		return err
	}
	least, _ := lease.Suspended()
	start := time.Now()
	ctx, cancel := n.call()
	defer cancel()
	s := &session{Session: opened, id: newID(), roles: map[string]bool{}, strays: map[string]bool{}}
	if err := s.Renew(ctx); err != nil {
		n.endSession(s)
		return err
	}
	n.begin(s, start, least)
	return nil
}

// begin makes s the session, unless it is too late for that or the node is closed.
func (n *Node) begin(s *session, start time.Time, suspended time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.isClosed() {
		n.loops.Go(func() { n.endSession(s) })
		return
	}
	n.session, n.lease = s, s.Lease()
	s.end = time.AfterFunc(n.lease, func() { n.expire(s) })
	n.prolong(s, start, suspended)
	n.suspectAll()
	for key := range n.full { // the coordinator may take larger values now
		n.dirty[key] = true
	}
	n.syncSoon.Set()
}

// prolong moves the end of the session, unless that has passed. What a node holds is lost a sixth of the lease before
// others can get it: what uses it needs time to stop. It is called with mu held.
func (n *Node) prolong(s *session, start time.Time, suspended time.Duration) {
	s.until = start.Add(n.lease - n.lease/6)
	s.suspended = suspended
	rest := time.Until(s.until)
	if rest <= 0 {
		n.lose(ErrLeaseOver)
		return
	}
	s.end.Reset(rest)
}

// expire takes away what a session holds that was not renewed in time.
func (n *Node) expire(s *session) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.session == s && !time.Now().Before(s.until) {
		n.lose(ErrLeaseOver)
	}
}

// lose takes away what is held and abandons the session. If it has permits, it lasts in the store until its lease is
// over: what uses them needs time to stop. It is called with mu held.
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
