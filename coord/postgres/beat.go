package postgres

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/engine/task"
)

// gap is the least time from one heartbeat to the next, whoever rings.
const gap = 5 * time.Millisecond

// session is what everything is held by.
type session struct {
	id    task.ID
	open  bool          // the database has confirmed it
	beat  int64         // number of the newest heartbeat: see nextBeat
	order int64         // number of the newest request for permits
	until time.Time     // when it is over unless it is renewed; nothing is held before open
	slept time.Duration // how long the machine had slept when the heartbeat began that renewed it
	end   *time.Timer   // takes away what is held at until
}

// beatRequest and beatAnswer are what coord_beat in schema.sql describes.
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

	reigning []*candidate // those that led when it was made
}

type beatAnswer struct {
	Alive     bool          `json:"alive"`
	Held      []string      `json:"held"`
	Strangers []task.ID     `json:"strangers"`
	Peers     bool          `json:"peers"`
	Settings  int64         `json:"settings"`
	Version   int64         `json:"version"`
	List      []memberEntry `json:"list"`
}

// keepBeating renews the session until Close.
func (c *Coord) keepBeating() {
	if !c.begin() {
		return
	}
	pause := backoff{most: c.slowest}
	for !c.isClosed() {
		var a beatAnswer
		slept, _ := asleep()
		start := time.Now()
		q := c.nextBeat(start)
		if err := c.call("coord_beat", q, &a); err != nil {
			c.out.failed("renewing the lease", err)
			c.rest(pause.next(), nil)
			continue
		}
		c.out.worked("renewing the lease")
		pause.reset()
		c.takeBeat(q, a, start, slept)
		c.rest(gap, nil)
		c.rest(c.lease/3-time.Since(start)-rand.N(c.lease/100), c.beats)
	}
}

// nextBeat says all that the process wants to have, in a heartbeat that begins now. Its
// number only has to grow, and so can tell people what the clock of this process says: it is
// when the lease would be over by that, in microseconds since 1970. See [Ahead].
func (c *Coord) nextBeat(now time.Time) beatRequest {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := &c.session
	if s.id.IsZero() {
		s.id = newID()
	}
	s.beat = max(s.beat+1, now.Add(c.lease).UnixMicro())
	q := beatRequest{Session: s.id, Beat: s.beat, Lease: c.lease.Milliseconds(), Open: !s.open, Former: slices.Clone(c.former)}
	for role, cand := range c.roles {
		if cand.lost { // it may clean up for as long as it likes
			continue
		}
		q.Roles = append(q.Roles, role)
		if cand.leads {
			q.reigning = append(q.reigning, cand)
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

// firstClock is the least number of a heartbeat that tells a time: that of the year 2001.
// Older programs count from 1.
const firstClock = 1e15

// Ahead returns how far the clock of a process is ahead of the database's, by beats and
// expires_at of its session: both say when its lease is over, by the one clock and by the
// other. What the heartbeat took to arrive makes it less, by up to a third of the lease. A
// clock that was set back while the session lasted is told as it was before, until it gets
// there again. It reports false if the process runs an older program, which does not tell.
func Ahead(beats int64, expiresAt time.Time) (time.Duration, bool) {
	return time.UnixMicro(beats).Sub(expiresAt), beats >= firstClock
}

// takeBeat applies the answer to a heartbeat that was begun at start.
func (c *Coord) takeBeat(q beatRequest, a beatAnswer, start time.Time, slept time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session.id != q.Session || c.isClosed() {
		return // given up meanwhile
	}
	if !a.Alive {
		c.lose(ErrLeaseOver)
		return
	}
	if !c.renew(start) {
		return
	}
	c.session.slept = slept
	c.former = c.former[len(q.Former):] // what came after it was made comes behind
	c.peers = a.Peers
	if a.Settings != c.settings {
		c.settings = a.Settings
		c.ringWatches()
	}
	c.takeRoles(q, a.Held)
	c.takeMembers(q, a)
}

// renew moves the session's end, unless that has passed. It is called with mu held.
func (c *Coord) renew(start time.Time) bool {
	s := &c.session
	s.until = start.Add(c.lease - c.lease/6)
	rest := time.Until(s.until)
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
		c.orders.ring()
	}
	return true
}

// expire takes away what is held by a session that was not renewed in time.
func (c *Coord) expire(id task.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session.id == id && !time.Now().Before(c.session.until) {
		c.lose(ErrLeaseOver)
	}
}

// lose takes away what is held, and gives up the session. It is called with mu held.
func (c *Coord) lose(why error) {
	if c.session.open {
		c.session.end.Stop()
		c.former = append(c.former, c.session.id)
	}
	c.session = session{}
	c.peers = true // for all that is known
	for _, cand := range c.roles {
		if cand.leads {
			cand.leads, cand.lost = false, true
			cand.end(why)
		}
	}
	c.loseMembers(why)
	c.losePermits(why)
	c.beats.ring()
}

// takeRoles is called with mu held.
func (c *Coord) takeRoles(q beatRequest, held []string) {
	for _, cand := range q.reigning {
		if cand.leads && !slices.Contains(held, cand.role) { // somebody else meddled
			cand.leads, cand.lost = false, true
			cand.end(ErrLeaseOver)
		}
	}
	for _, role := range held {
		if cand := c.roles[role]; cand != nil && !cand.leads && !cand.lost && slices.Contains(q.Roles, role) {
			cand.leads = true
			close(cand.elected)
		}
	}
}

// takeMembers is called with mu held.
func (c *Coord) takeMembers(q beatRequest, a beatAnswer) {
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
			m.live = true
			m.changed.ring()
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
			if m.live {
				m.changed.ring()
			}
		}
	}
}
