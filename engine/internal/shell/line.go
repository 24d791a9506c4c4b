package shell

import (
	"container/list"
	"slices"
	"time"

	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

// Bounds of the line of a backlog, so that waiting submissions cannot fill the memory. A full line
// refuses more.
const (
	maxPlaces     = 10_000   // places
	maxPlaceBytes = 64 << 20 // of payloads
)

// placeKept is for how long a place is kept for a task that does not ask again: it waits for a slot, was
// changed, or runs on another node.
const placeKept = 5 * time.Minute

// place is the turn of a submission, or of a task that adds others by its handler, that waits for room
// in backlogs that pause their sources. A place is in the line of each such backlog that it needs, and
// all of its lines have their places in the same order, so the first of all places is the first in
// each of its lines.
type place struct {
	claims  []claim
	lines   []*list.Element // by index into claims; nil if the backlog has no line, or the place has left it
	bytes   int             // of payloads
	sub     *Submission     // nil if a task waits
	task    task.ID         // zero if a submission waits
	until   time.Time       // steady: when the place of a task is given up
	granted bool            // the place of a task has left its lines, and its claims are made
	isUsed  bool            // it was granted, and the task is about to add its rows
}

// pauses reports whether the sources of tasks wait for room.
func (b *backlog) pauses() bool { return b.WhenFull == policy.PauseSource }

// canWait reports whether a place may be taken because of full. It says in full why not.
func (s *Shell) canWait(full *Full, p *place) bool {
	if full.WhenFull != policy.PauseSource || full.New > full.Max || s.closing {
		return false
	}
	for _, c := range p.claims {
		if c.pauses() && c.line.Len() > 0 && (c.line.Len() >= maxPlaces || c.lineBytes+p.bytes > maxPlaceBytes) {
			full.IsCrowded = true
		}
	}
	return !full.IsCrowded
}

// wait puts p at the end of its lines.
func (s *Shell) wait(now time.Time, p *place) {
	p.lines = make([]*list.Element, len(p.claims))
	for i, c := range p.claims {
		if !c.pauses() {
			continue
		}
		p.lines[i] = c.line.PushBack(p)
		c.lineBytes += p.bytes
		c.waiting += c.rows
		if c.line.Len() == 1 && c.pauseLine.allow(s.steady(now)) {
			s.log(Warn, "calls that add tasks wait because the backlog of their type is full", "type", c.name, "tasks", c.stored+c.claimed, "max_backlog", c.Max)
		}
	}
	if p.sub != nil {
		p.sub.place = p
		return
	}
	p.until = s.steady(now).Add(placeKept)
	s.places[p.task], s.placesUntil = p, earlier(s.placesUntil, p.until)
}

// leave takes p out of its lines.
func (p *place) leave() {
	for i, at := range p.lines {
		if at == nil {
			continue
		}
		c := p.claims[i]
		c.line.Remove(at)
		c.lineBytes -= p.bytes
		c.waiting -= c.rows
	}
	p.lines = nil
	if p.sub != nil {
		p.sub.place = nil
	}
}

// giveUp ends the place of a task.
func (s *Shell) giveUp(p *place) {
	if p.granted {
		for _, c := range p.claims {
			c.claimed -= c.rows
		}
	}
	p.leave()
	delete(s.places, p.task)
}

// serve gives room to waiting places, in their order.
func (s *Shell) serve(now time.Time) {
	for again := true; again; { // another line may begin with a place that has left a later one
		again = false
		for _, b := range s.pausing {
			for b.line.Len() > 0 && s.serveFirst(now, b.line.Front().Value.(*place)) {
				again = true
			}
		}
	}
}

// serveFirst serves the first place of a line. It reports whether the place has left its lines.
func (s *Shell) serveFirst(now time.Time, p *place) bool {
	for i, at := range p.lines {
		if at != nil && p.claims[i].line.Front() != at {
			return false
		}
	}
	full := fullOf(p.claims, false)
	if full != nil && full.WhenFull == policy.PauseSource {
		return false
	}
	sub := p.sub
	p.leave()
	switch {
	case full != nil && sub != nil: // another type of the submission refuses, or its caller has to drop tasks
		s.effects.Replies = append(s.effects.Replies, Reply{Submission: sub, Err: full})
	case full != nil:
		delete(s.places, p.task)
	case sub != nil:
		sub.claim(p.claims)
		s.accept(now, sub)
	default:
		p.granted = true
		for _, c := range p.claims {
			c.claimed += c.rows
		}
	}
	return true
}

// RoomFor returns a [Full] if the backlogs have no room for the rows that a task adds. A task has a
// slot, which the tasks of the backlog may need, so it does not wait for room: it runs again later. If
// take is set, a place is kept for it, in the order of all places, until it has not asked for
// [placeKept].
func (s *Shell) RoomFor(now time.Time, id task.ID, rows []*task.Task, take bool) *Full {
	wanted := s.claimsOf(rows)
	p := s.places[id]
	if p != nil {
		p.until = s.steady(now).Add(placeKept)
		if p.granted && p.covers(wanted) {
			p.isUsed = true
			return nil
		}
	}
	if p != nil && p.granted { // it wants more than before
		s.giveUp(p)
		p = nil
	}
	full := fullOf(wanted, true)
	switch {
	case full == nil && p != nil:
		s.giveUp(p)
		return nil
	case full == nil:
		return nil
	case p != nil:
		full.IsKept = full.WhenFull == policy.PauseSource
		return full
	}
	p = &place{claims: wanted, task: id}
	if full.CanWait = s.canWait(full, p); full.CanWait && take {
		s.wait(now, p)
		full.IsKept = true
	}
	return full
}

// LacksRoomFor is RoomFor without any effect.
func (s *Shell) LacksRoomFor(id task.ID, rows []*task.Task) *Full {
	wanted := s.claimsOf(rows)
	if p := s.places[id]; p != nil && p.granted {
		if p.covers(wanted) {
			return nil
		}
		for _, c := range p.claims { // it would be given up
			c.claimed -= c.rows
			defer func() { c.claimed += c.rows }()
		}
	}
	return fullOf(wanted, true)
}

// covers reports whether the claims of p suffice for others.
func (p *place) covers(wanted []claim) bool {
	for _, w := range wanted {
		if !slices.ContainsFunc(p.claims, func(c claim) bool { return c.backlog == w.backlog && c.rows >= w.rows }) {
			return false
		}
	}
	return true
}

// Withdraw ends the wait of a submission for room. It returns why there was no room, or nil if the
// submission does not wait: then its rows are being added, or it is answered.
func (s *Shell) Withdraw(now time.Time, sub *Submission) *Full {
	p := sub.place
	if p == nil {
		return nil
	}
	full := fullOf(p.claims, true)
	p.leave()
	s.serve(now)
	return full
}

// expire gives up the places of tasks that have not asked for too long.
func (s *Shell) expire(now time.Time) {
	at := s.steady(now)
	s.placesUntil = time.Time{}
	for _, p := range s.places {
		if isDue(p.until, at) {
			s.giveUp(p)
		} else {
			s.placesUntil = earlier(s.placesUntil, p.until)
		}
	}
	s.serve(now)
}

// refuseWaiting answers all submissions that wait for room, and keeps no place.
func (s *Shell) refuseWaiting() {
	for _, p := range s.places {
		s.giveUp(p)
	}
	for _, b := range s.pausing {
		for b.line.Len() > 0 {
			p := b.line.Front().Value.(*place)
			sub, full := p.sub, fullOf(p.claims, true)
			p.leave()
			s.effects.Replies = append(s.effects.Replies, Reply{Submission: sub, Err: full})
		}
	}
}
