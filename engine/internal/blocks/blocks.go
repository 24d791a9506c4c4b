// Package blocks notes what kept tasks from starting, and when: not for each task, but for each limit and type. It has no clock
// and does no I/O.
//
// Something that is noted when it begins and ends, such as a pause, has exact times. A limit is looked at now and then. Its
// span reaches from the first look that found tasks waiting for it to the last one, so that waits which are shorter than
// the time between two looks may be missing, and a limit that has room for a moment only remains blocked.
package blocks

import (
	"time"
)

// How much a Log notes.
const (
	MaxSpans = 4096   // that are over; the oldest are given up
	MaxOpen  = 10_000 // causes at a time
)

// Cause is what kept tasks from starting.
type Cause struct {
	Code  string
	Type  string // a type; "" for a limit
	Limit string // identifies a limit and its values; "" for a type
	Exact bool   // its begin and its end are noted
}

// Span is a time during which a cause kept tasks from starting.
type Span struct {
	Cause
	From, To time.Time
}

// Log has the notes of a node. It knows of no time before it was made by [New].
type Log struct {
	open  map[Cause]Span // To is the last look
	past  []Span         // a ring once it has MaxSpans
	next  int            // where the ring is written
	since time.Time      // the notes are complete from here on
	last  time.Time      // of the last look
}

// New returns a log that begins now.
func New(now time.Time) *Log { return &Log{open: make(map[Cause]Span), since: now} }

// Since returns from when on the notes are complete.
func (l *Log) Since() time.Time { return l.since }

// LookedAt returns the time of the last look.
func (l *Log) LookedAt() time.Time { return l.last }

// Look notes the causes that there are now. A limit that is missing has ended if the last look that found it is longer ago than
// patience.
func (l *Log) Look(now time.Time, patience time.Duration, causes []Cause) {
	l.last = now
	found := make(map[Cause]bool, len(causes))
	for _, c := range causes {
		found[c] = true
		s, ok := l.open[c]
		switch {
		case !ok && len(l.open) >= MaxOpen:
			l.since = now
			continue
		case !ok:
			s = Span{Cause: c, From: now}
		}
		s.To = now
		l.open[c] = s
	}
	for c, s := range l.open {
		switch {
		case found[c]:
		case c.Exact:
			s.To = now
			l.end(s)
		case now.Sub(s.To) >= patience:
			l.end(s)
		}
	}
}

// end notes that a span is over.
func (l *Log) end(s Span) {
	delete(l.open, s.Cause)
	switch {
	case !s.To.After(s.From):
	case len(l.past) < MaxSpans:
		l.past = append(l.past, s)
	default:
		if l.past[l.next].To.After(l.since) {
			l.since = l.past[l.next].To
		}
		l.past[l.next] = s
		l.next = (l.next + 1) % MaxSpans
	}
}

// Between returns the parts between two times of the spans with causes that match, in no particular order. now ends the spans of
// exact causes that are not over.
func (l *Log) Between(from, to, now time.Time, match func(Cause) bool) (all []Span) {
	add := func(s Span) {
		if s.From.Before(from) {
			s.From = from
		}
		if s.To.After(to) {
			s.To = to
		}
		if s.To.After(s.From) && match(s.Cause) {
			all = append(all, s)
		}
	}
	for _, s := range l.past {
		add(s)
	}
	for _, s := range l.open {
		if s.Exact {
			s.To = now
		}
		add(s)
	}
	return all
}
