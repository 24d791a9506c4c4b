package postgres

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/internal/lease"
	"github.com/taskengine/taskengine/coord/internal/retry"
	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/task"
)

// minPause is the shortest time between two heartbeats, however often beatSoon is set.
const minPause = 5 * time.Millisecond

// session is the lease by which the process holds roles, permits and members. It holds none
// before it is open.
type session struct {
	id       task.ID
	open     bool        // the database has confirmed it
	beat     int64       // number of the newest heartbeat: see nextBeat
	order    int64       // number of the newest request of orders
	answered int64       // number of the newest request of orders that was answered
	proof    lease.Proof // of the newest heartbeat
	end      *time.Timer // takes everything away when proof ends
}

// beatRequest and beatAnswer are described at coord_beat and coord_renew in functions.sql.
type beatRequest struct {
	Session task.ID       `json:"session"`
	Beat    int64         `json:"beat"`
	Lease   int64         `json:"lease"`
	Open    bool          `json:"open"`
	Former  []task.ID     `json:"former,omitempty"`
	Joining []memberEntry `json:"joining,omitempty"`
	Members []task.ID     `json:"members,omitempty"`
	Leaving []task.ID     `json:"leaving,omitempty"`
	Roles   []string      `json:"roles,omitempty"`
	Seen    *int64        `json:"seen,omitempty"`
	Orders  int64         `json:"orders"`

	leaders []*candidate // candidates that led when the request was made
}

type beatAnswer struct {
	Alive     bool          `json:"alive"`
	Held      []string      `json:"held"`
	Strangers []task.ID     `json:"strangers"`
	Peers     bool          `json:"peers"`
	Settings  int64         `json:"settings"`
	Version   int64         `json:"version"`
	List      []memberEntry `json:"list"`
	News      bool          `json:"news"`
}

// beatLoop renews the session until Close.
func (c *Coord) beatLoop() {
	if !c.waitStart() {
		return
	}
	pause := retry.Backoff{Most: c.maxPause}
	for !c.isClosed() {
		least, _ := lease.Suspended()
		start := time.Now()
		q := c.nextBeat(start)
		a, err := c.callTimed("coord_renew", q)
		if err != nil {
			c.outage.Failed("renewing the lease", err)
			c.sleep(pause.Next(), wakeup.Signal{})
			continue
		}
		c.outage.Worked("renewing the lease")
		pause.Reset()
		c.applyBeat(q, a, start, least)
		c.sleep(minPause, wakeup.Signal{})
		c.sleep(c.lease/3-time.Since(start)-rand.N(c.lease/100), c.beatSoon)
	}
}

// nextBeat returns a heartbeat that begins now and names everything that the process wants to
// hold. Its number only has to grow, and so can show the clock of this process: it is
// the time when the lease ends by that clock, in microseconds since 1970. See [Ahead].
func (c *Coord) nextBeat(now time.Time) beatRequest {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := &c.session
	if s.id.IsZero() {
		s.id = newID()
	}
	s.beat = max(s.beat+1, now.Add(c.lease).UnixMicro())
	q := beatRequest{Session: s.id, Beat: s.beat, Lease: c.lease.Milliseconds(), Open: !s.open, Former: slices.Clone(c.abandoned), Orders: s.answered}
	for role, cand := range c.roles {
		if cand.lost { // its function has not returned yet
			continue
		}
		q.Roles = append(q.Roles, role)
		if cand.leads {
			q.leaders = append(q.leaders, cand)
		}
	}
	for id, m := range c.members {
		switch {
		case m.leaving:
			q.Leaving = append(q.Leaving, id)
		case m.live:
			q.Members = append(q.Members, id)
		default:
			m.sent = true
			q.Joining = append(q.Joining, entryOf(m.self))
		}
	}
	if len(c.members) > 0 {
		seen := c.version
		q.Seen = &seen
	}
	return q
}

// firstClock is the lowest number of a heartbeat that is a time: that of the year 2001. Older
// programs count from 1.
const firstClock = 1e15

// Ahead returns how far the clock of a process is ahead of the database's clock. It compares
// beats and expires_at of the process's session, which are the end of its lease by the one clock
// and by the other. The result is too low by the time that the heartbeat took to arrive, at most
// a third of the lease. If the clock of the process was set back during the session, the result
// is that of before, until the clock gets there again. Ahead reports false if the process runs
// an older program, which does not record its clock.
func Ahead(beats int64, expiresAt time.Time) (time.Duration, bool) {
	return time.UnixMicro(beats).Sub(expiresAt), beats >= firstClock
}

// applyBeat applies the answer to a heartbeat that was begun at start.
func (c *Coord) applyBeat(q beatRequest, a beatAnswer, start time.Time, suspended time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session.id != q.Session || c.isClosed() {
		return // this session was abandoned
	}
	if !a.Alive {
		c.lose(ErrLeaseOver)
		return
	}
	if !c.renew(start, suspended) {
		return
	}
	c.abandoned = c.abandoned[len(q.Former):] // newer ones were appended
	c.peers = a.Peers
	if a.Settings != c.settings {
		c.settings = a.Settings
		c.wakeWatches()
	}
	if a.News {
		c.news = true
		c.ordersSoon.Set()
	}
	c.applyRoles(q, a.Held)
	c.applyMembers(q, a)
	for _, m := range c.members {
		m.list.Renew(c.session.proof)
	}
}

// renew moves the session's end, unless that has passed. It is called with mu held.
func (c *Coord) renew(start time.Time, suspended time.Duration) bool {
	s := &c.session
	s.proof = lease.Proof{Until: start.Add(c.lease - c.lease/6), Suspended: suspended}
	rest := time.Until(s.proof.Until)
	if rest <= 0 {
		c.lose(ErrLeaseOver)
		return false
	}
	if s.end == nil {
		id := s.id
		s.end = time.AfterFunc(rest, func() { c.expire(id) })
	} else {
		s.end.Reset(rest)
	}
	if !s.open {
		s.open = true
		c.openHolders()
	}
	return true
}

// expire takes away all that a session holds if it was not renewed in time.
func (c *Coord) expire(id task.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session.id == id && !time.Now().Before(c.session.proof.Until) {
		c.lose(ErrLeaseOver)
	}
}

// lose takes away all that the session holds and abandons it. If it has permits, it lasts in the
// database until its lease is over: users of the permits need time to stop. It is called with mu held.
func (c *Coord) lose(why error) {
	if c.session.open {
		c.session.end.Stop()
		if !c.usesPermits() {
			c.abandoned = append(c.abandoned, c.session.id)
		}
	}
	c.session = session{}
	c.peers = true // until a heartbeat says otherwise
	c.settings = -1
	for _, cand := range c.roles {
		if cand.leads {
			c.loseRole(cand, why)
		}
	}
	c.loseMembers(why)
	c.loseHolders(why)
	c.beatSoon.Set()
}

// applyRoles is called with mu held.
func (c *Coord) applyRoles(q beatRequest, held []string) {
	for _, cand := range q.leaders {
		if cand.leads && !slices.Contains(held, cand.role) { // another program changed the table
			c.loseRole(cand, ErrLeaseOver)
		}
	}
	for _, role := range held {
		if cand := c.roles[role]; cand != nil && !cand.leads && !cand.lost && slices.Contains(q.Roles, role) {
			cand.leads = true
			cand.Grant()
		}
	}
}

// applyMembers is called with mu held.
func (c *Coord) applyMembers(q beatRequest, a beatAnswer) {
	for _, id := range q.Leaving {
		if m := c.members[id]; m != nil {
			delete(c.members, id)
			close(m.gone)
		}
	}
	news := q.Seen != nil && a.Version != c.version && a.List != nil
	if news {
		c.version = a.Version
		c.list = make([]coord.Member, 0, len(a.List))
		for _, e := range a.List {
			c.list = append(c.list, coord.Member(e))
		}
	}
	for _, e := range q.Joining {
		if m := c.members[e.Incarnation]; m != nil && !slices.Contains(a.Strangers, e.Incarnation) {
			m.live = reflect.DeepEqual(e, entryOf(m.self)) // otherwise it was announced again during the heartbeat
			m.tell()
		}
	}
	for _, id := range a.Strangers {
		if m := c.members[id]; m != nil && m.live {
			c.expel(m, ErrLeaseOver)
		} else if m != nil {
			c.expel(m, errNotNew(m.self))
		}
	}
	if news {
		for _, m := range c.members {
			m.list.Change() // after an announcement a member gets the list when the database has confirmed that
			if m.live {
				m.changed.Set()
			}
		}
	}
}
