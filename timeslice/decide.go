package timeslice

import (
	"slices"
	"time"

	"github.com/taskengine/taskengine/task"
)

const (
	leastPace  = 50 * time.Millisecond
	mostPace   = time.Second
	fewOpen    = 8           // open slices of a platform without a limit of its threads, while slices get longer
	lookAgain  = time.Minute // how long the end of an open slice may go unnoticed
	mostProbes = 4           // doublings of the pause between probes
)

// Status is what has become of an open slice.
type Status struct {
	State Condition
	Split bool // its handler has split it
	Waits bool // it is live, and no attempt has begun
}

// Condition is the condition of an open slice.
type Condition uint8

// The conditions.
const (
	Live    Condition = iota // it runs, or will
	Failed                   // its task is in the state error
	Done                     // it is done, or it was done and is not stored any more
	GivenUp                  // it was cancelled or failed by hand
)

// Run is one run of a cursor, as data. It has no effects by itself.
type Run struct {
	Platform Platform
	State    State // after the run

	Made    []Slice   // the slices to add
	Retried []Slice   // failed slices to be resumed before that
	Next    time.Time // when to run again; zero is at the next order
	SetBack bool      // the clock has gone back: open slices may wait for a time by the clock as it was before

	now     time.Time
	redo    *Redo // that this run carries out; nil if there is none
	isTaken bool  // in this run, from another node
	running int   // open slices that have not failed
	failed  int
	waiting int // open slices of which no attempt has begun, without those that this run makes
	ended   int // open slices that have ended since the last run
	done    int // likewise, and are done
}

// Decide returns the run of a cursor at the time now. seen has what has become of each slice of s.Open. created is when the
// platform was added.
func Decide(p Platform, s State, seen []Status, created, now time.Time) *Run {
	r := &Run{Platform: p, State: s, now: task.Stamp(now)}
	r.State.History, r.State.Parked = slices.Clone(s.History), false
	r.look(seen)
	r.obey()
	r.settle()
	if used := r.State.Used; used != nil {
		if r.State.Cursor.IsZero() {
			r.State.Cursor = task.Stamp(used.Start)
			if used.Start.IsZero() {
				if first := r.State.Held.Created; !first.IsZero() { // on another node
					created = first
				}
				r.State.Cursor = earlier(task.Stamp(created), r.now).Truncate(used.Interval) // a clock may have been ahead
			}
			r.State.First = r.State.Cursor
		}
		r.rewind(used)
		r.guard(used)
		r.retry(used)
		r.make(used)
		r.rearm(used)
	}
	return r
}

// look takes up what has become of the open slices.
func (r *Run) look(seen []Status) {
	s := &r.State
	open := make([]Slice, 0, len(s.Open))
	for i, one := range s.Open {
		if seen[i].Split && !one.WasSplit {
			one.WasSplit = true
			s.Length = one.End.Sub(one.Start) / 2
		}
		switch seen[i].State {
		case Done:
			s.Done++
			s.FailedInRow = 0
			r.done++
			r.ended++
			if one.CatchUp && !one.WasSplit {
				s.Length = max(s.Length, 2*one.End.Sub(one.Start))
			}
			continue
		case GivenUp:
			s.GivenUp++
			r.ended++
			continue
		case Failed:
			r.failed++
			if one.Failed.IsZero() {
				if one.Failed = r.now; s.FailedInRow == 0 {
					s.RowSince = r.now
				}
				s.Failed++
				s.FailedInRow++
				if one.CatchUp {
					s.Length = one.End.Sub(one.Start) / 2
				}
			}
		case Live:
			one.Failed, one.Retry = time.Time{}, false // a person may have resumed it
			r.running++
			if seen[i].Waits {
				r.waiting++
			}
		}
		open = append(open, one)
	}
	s.Open = open
}

// obey carries out the orders.
func (r *Run) obey() {
	s := &r.State
	for i := range s.Orders {
		o := &s.Orders[i]
		switch {
		case o.Source != nil:
			if o.Source.Revision >= s.Revision {
				s.Revision, s.Type = o.Source.Revision, o.Source.Type
				s.Layers.File, s.Layers.Live, s.Layers.FileOwn = o.Source.File, o.Source.Live, o.Source.FileOwn
				s.Layers.Platforms = o.Source.Platforms
			}
			if redo := o.Source.Redo; redo != nil && redo.Number > s.Redone {
				s.Redone, r.redo = redo.Number, redo
			}
			continue // its history is that of the source
		case o.Set != nil:
			for name, text := range o.Set {
				_ = s.Layers.Own.Set(name, text) // it was checked when the order was given
			}
		case o.Pause:
			if s.Paused == nil {
				s.Paused = &Pause{Since: o.At, Reason: o.Reason}
			}
		case o.Resume:
			s.Paused = nil
		case o.Add:
			s.Removed, s.ByFile = false, false
		case o.Remove:
			s.Removed, s.ByFile = true, o.ByFile
		case o.Reset != nil:
			s.Cursor = task.Stamp(*o.Reset)
			if s.Cursor.Before(s.First) {
				s.First = s.Cursor
			}
			s.Epoch++
		case o.Retry != nil:
			for i := range s.Open {
				if one := &s.Open[i]; !one.Failed.IsZero() && o.Retry.has(one) {
					one.Retry = true
				}
			}
		case o.Take != nil:
			s.taken(o.Take)
			r.isTaken = true
		}
		s.History = append(s.History, Event{At: o.At, By: o.By, What: o.String()})
	}
	s.Orders = nil
	s.History = s.History[max(0, len(s.History)-MaxHistory):]
}

// settle finds the settings that are in force.
func (r *Run) settle() {
	s := &r.State
	settings, err := s.Layers.Settings()
	if s.Problem = ""; err != nil {
		s.Problem = err.Error()
		return
	}
	if s.Used == nil || *s.Used != settings {
		s.Used = &settings
	}
}

// guard is the breaker: it stops the platform after some failed slices in a row, and ends that when a slice is done.
func (r *Run) guard(used *Settings) {
	s := &r.State
	most := used.Breaker
	if most > 1 && used.Order == InOrder {
		most = 1 // nothing runs behind a failed slice
	}
	switch {
	case s.Stopped != nil && (most == 0 || r.done > 0 && s.FailedInRow < most):
		for i := range s.Open { // the failures had one reason, which is gone
			if one := &s.Open[i]; !one.Failed.IsZero() && !one.Failed.Before(s.Stopped.From) {
				one.Retry = true
			}
		}
		s.Stopped = nil
	case s.Stopped == nil && most > 0 && (s.FailedInRow >= most || r.isHeld(used)):
		s.Stopped = &Stop{Since: r.now, From: r.failedFrom(used), Next: r.now.Add(used.Probe)}
	case s.Stopped != nil && !r.probes(used) && !r.now.Before(s.Stopped.Next) && s.Paused == nil:
		stop := *s.Stopped
		stop.Probes++
		stop.Next = r.now.Add(used.Probe << min(stop.Probes, mostProbes))
		s.Stopped = &stop
		if i := slices.IndexFunc(s.Open, func(one Slice) bool { return !one.Failed.IsZero() }); i >= 0 {
			s.Open[i].Retry = true
		} else { // people have decided about all of them: a new slice is the probe
			s.Stopped, s.FailedInRow = nil, most-1
		}
	}
}

// probes reports whether an open slice may still show that the platform works again.
func (r *Run) probes(used *Settings) bool {
	if used.Order == InOrder && r.failed > 0 {
		return false
	}
	isHeld := false // slices in order behind a failed one wait, also if later ones run in parallel
	for i := range r.State.Open {
		switch one := &r.State.Open[i]; {
		case !one.Failed.IsZero():
			isHeld = isHeld || one.InOrder
		case !one.InOrder || !isHeld:
			return true
		}
	}
	return false
}

// retry resumes failed slices, as far as there is room for them.
func (r *Run) retry(used *Settings) {
	for i := range r.State.Open {
		one := &r.State.Open[i]
		if !one.Retry || r.running >= used.MaxOpen && !one.InOrder {
			continue
		}
		one.Failed, one.Retry = time.Time{}, false
		r.Retried = append(r.Retried, *one)
		r.running++
		r.failed--
	}
}

// make makes the slices that are due, as far as there is room for them.
func (r *Run) make(used *Settings) {
	s := &r.State
	for r.makes(used) && r.running < r.room(used) && !r.due(used).After(r.now) {
		length := used.Interval
		if behind := r.behind(used); behind >= 2*used.Interval {
			longest := max(used.Interval, min(s.Length, used.CatchUp))
			length = min(behind, longest) / used.Interval * used.Interval
		}
		if s.Length = min(max(s.Length, used.Interval), used.CatchUp); used.CatchUp > used.Interval && length == used.Interval {
			s.Length = max(s.Length, 2*used.Interval)
		}
		one := Slice{Start: s.Cursor, End: s.Cursor.Add(length), Epoch: s.Epoch, CatchUp: length > used.Interval, InOrder: used.Order == InOrder}
		s.Cursor = one.End
		s.Open = append(s.Open, one)
		s.Made++
		r.Made = append(r.Made, one)
		r.running++
	}
}

// behind returns how far the platform is behind the time of which the slices are due.
func (r *Run) behind(used *Settings) time.Duration {
	return r.now.Add(-r.delay(used)).Sub(r.State.Cursor)
}

// room returns how many slices may be open. While slices still get longer these are few: those that wait stay as short as they are.
func (r *Run) room(used *Settings) int {
	length := max(r.State.Length, used.Interval)
	if length >= used.CatchUp || r.behind(used) < 2*length {
		return used.MaxOpen
	}
	return min(used.MaxOpen, max(fewOpen, used.Threads, used.NodeThreads))
}

// makes reports whether the platform makes slices, if there is room for them.
func (r *Run) makes(used *Settings) bool {
	s := &r.State
	return s.Stopped == nil && s.Paused == nil && !s.Removed && r.failed < MaxFailed && !r.isHeld(used)
}

// isHeld reports whether a failed slice holds up the platform.
func (r *Run) isHeld(used *Settings) bool { return used.Order == InOrder && r.failed > 0 }

// failedFrom returns when the first slice failed of those that stop the platform.
func (r *Run) failedFrom(used *Settings) time.Time {
	if !r.isHeld(used) {
		return r.State.RowSince
	}
	from := r.now
	for i := range r.State.Open { // also those that had failed before, while slices ran in parallel
		if failed := r.State.Open[i].Failed; !failed.IsZero() {
			from = earlier(from, failed)
		}
	}
	return from
}

// due returns when the next slice is due.
func (r *Run) due(used *Settings) time.Time { return r.State.Cursor.Add(used.Interval + r.delay(used)) }

// delay returns how long after its end a slice of the platform is due, in whole microseconds: the engine runs nothing in between.
func (r *Run) delay(used *Settings) time.Duration {
	return (used.Lag + r.Platform.Delay(used.Spread) + time.Microsecond - 1).Truncate(time.Microsecond)
}

// rearm says when the cursor runs again.
func (r *Run) rearm(used *Settings) {
	s := &r.State
	at := func(t time.Time) {
		if r.Next.IsZero() || t.Before(r.Next) {
			r.Next = t
		}
	}
	room := r.room(used)
	isFull := r.running >= room
	s.Pace = min(max(s.Pace, leastPace), mostPace)
	switch {
	case !isFull:
		s.Pace = 0
	case 2*r.ended >= room:
		s.Pace = max(leastPace, s.Pace/2)
	case r.ended == 0, r.waiting >= 4*r.ended: // the threads have enough for the next looks
		s.Pace = min(mostPace, 2*s.Pace)
	}
	hasRetry := slices.ContainsFunc(s.Open, func(one Slice) bool { return one.Retry })
	if isFull && hasRetry {
		at(r.now.Add(s.Pace))
	}
	if r.makes(used) {
		next := r.due(used)
		if isFull {
			next = later(next, r.now.Add(s.Pace))
		}
		at(next)
	}
	if s.Stopped != nil && s.Paused == nil {
		at(later(s.Stopped.Next, r.now.Add(mostPace)))
		if r.probes(used) {
			at(r.now.Add(mostPace))
		}
	}
	if r.running > 0 {
		at(r.now.Add(lookAgain))
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Request returns the task of a slice.
func (r *Run) Request(one Slice) task.Request {
	used := r.State.Used
	q := task.Request{
		ID: one.ID(r.Platform.Cursor()), Type: r.State.Type, Headers: map[string]string{Header: r.Platform.String()},
		Payload: Work{
			Source: r.Platform.Source, Platform: r.Platform.Name, From: one.Start.Add(-used.Overlap), Start: one.Start, End: one.End,
			Timeout: Span(used.Timeout), Retries: used.Retries, RetryInterval: Span(used.RetryInterval), LeastPart: Span(used.LeastPart), InOrder: used.Order == InOrder,
		}.Encode(),
	}
	if used.Order == InOrder {
		q.OrderingKey = r.Platform.String()
	}
	return q
}
