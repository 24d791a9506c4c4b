package timeslice

import (
	"fmt"
	"slices"
	"time"
)

// Tolerance is by how much the clock may be set without any effect.
const Tolerance = 2 * time.Second

// noticed is within which time nodes that share a clock notice a step of it.
const noticed = time.Minute

// MaxSteps is how many steps of the clock a source keeps.
const MaxSteps = 16

// Step is a step of the clock by which a source goes, as a node has noticed it. From and Until are times by the clock after the step.
type Step struct {
	From  time.Time     `json:"from"`  // the node had not noticed it
	Until time.Time     `json:"until"` // and then had
	By    time.Duration `json:"by"`    // negative if the clock was set back
}

// isSame reports whether two nodes have noticed one step.
func (s *Step) isSame(other *Step) bool {
	return (s.By-other.By).Abs() <= Tolerance && !s.From.After(other.Until.Add(noticed)) && !other.From.After(s.Until.Add(noticed))
}

// Redo has each platform of a source make slices again, because the clock was set back: those that it has made since a time were made
// too early. To and After are times by the clock after that.
type Redo struct {
	Number   uint64        `json:"number"`   // of the redos of the source
	Revision uint64        `json:"revision"` // of the source with this redo
	By       time.Duration `json:"by"`       // by how much the clock was set back
	After    time.Time     `json:"after"`    // the clock was not set back before it
	To       time.Time     `json:"to"`       // slices that end later were made too early
}

// with returns the redo of a platform that has not carried out an earlier one either, unless done is the number of that.
func (r *Redo) with(earlier *Redo, done uint64) *Redo {
	if r == nil || earlier == nil || earlier.Number <= done || !earlier.To.Before(r.To) {
		return r
	}
	both := *r
	both.To = earlier.To
	return &both
}

// Rewound says that a platform has moved its cursor back, because the clock was set back.
type Rewound struct {
	At time.Time `json:"at"`
	To time.Time `json:"to"` // no slice before it was made too early
}

// covers reports whether the platform has made again all that a redo wants.
func (r *Rewound) covers(redo *Redo) bool {
	return r != nil && !r.At.Before(redo.After) && !redo.To.Before(r.To.Add(-Tolerance))
}

// HasStep reports whether the source knows of a step.
func (s *SourceState) HasStep(one *Step) bool {
	return slices.ContainsFunc(s.Clock, func(known Step) bool { return known.isSame(one) })
}

// Unstepped returns by how much the clock was set back while no node was there to notice it, if it is at least by back: by as much as it was set
// forward before, or by back if it was set forward by less.
func (s *SourceState) Unstepped(back time.Duration) time.Duration {
	var forward time.Duration
	for i := len(s.Clock) - 1; i >= 0; i-- {
		if forward += s.Clock[i].By; forward >= back-Tolerance {
			return forward
		}
	}
	return back
}

// Explains reports whether a platform that has last run at a time, and not since, may have run before the last step that the source knows of, if that
// is one back.
func (s *SourceState) Explains(ran, now time.Time) bool {
	if len(s.Clock) == 0 {
		return false
	}
	last := &s.Clock[len(s.Clock)-1]
	return last.By < 0 && !last.From.After(now.Add(Tolerance)) && !ran.After(last.Until.Add(noticed-last.By))
}

// stepped takes up a step of the clock.
func (s *SourceState) stepped(one Step) {
	s.Clock = append(slices.Clone(s.Clock), one)
	s.Clock = s.Clock[max(0, len(s.Clock)-MaxSteps):]
	var waiting *Redo
	var last uint64
	if s.Redo != nil {
		redo := *s.Redo
		redo.To = redo.To.Add(one.By)
		if last = redo.Number; s.Passed < redo.Revision {
			waiting = &redo
			s.Redo = waiting
		}
	}
	if one.By >= 0 {
		return
	}
	s.Revision++
	redo := &Redo{Number: last + 1, Revision: s.Revision, By: -one.By, After: one.From, To: earlySince(s.Clock)}
	if waiting != nil {
		redo.To = earlier(redo.To, waiting.To)
	}
	s.Redo = redo
}

// earlySince returns since when slices were made too early, by the clock after the last of these steps, which is one back. If the clock was set
// forward by as much before, that is when. Otherwise it is not known, and the clock is taken to have been ahead for as long as
// it has been set back by.
func earlySince(steps []Step) time.Time {
	last := &steps[len(steps)-1]
	ahead := -last.By // of the clock before the step of the loop, in relation to that after the last step
	for i := len(steps) - 2; i >= 0 && ahead > Tolerance; i-- {
		at := steps[i].From.Add(-ahead)
		if ahead -= steps[i].By; ahead.Abs() <= Tolerance {
			return at
		}
	}
	return last.From.Add(last.By)
}

// rewind moves the cursor back if the clock was ahead and was set back: slices were made before they were due. The source says since when and
// by how much the clock was ahead, if a node has noticed. A platform that runs before it knows that has the time of its last run:
// the clock has gone back by as much as that is ahead of now, and by as much as has passed since then, which is less than the time until the next
// run of a platform that makes slices. A platform that was taken over by a low-water mark in the future has that from a node whose clock was ahead.
func (r *Run) rewind(used *Settings) {
	s := &r.State
	back, idle := s.Ran.Sub(r.now), max(0, min(r.due(used).Sub(s.Ran), used.Interval))
	s.Ran = r.now
	to := r.now
	if r.redo != nil && !s.Rewound.covers(r.redo) {
		to = earlier(to, r.redo.To.Add(-noticed))
	}
	if back > Tolerance {
		to = earlier(to, r.now.Add(-back-idle))
	}
	if ahead := s.Cursor.Sub(r.now); r.isTaken && ahead > Tolerance && s.Cursor.After(used.Start) {
		to = earlier(to, r.now.Add(-ahead))
		back = max(back, ahead)
		s.First = earlier(s.First, later(s.Held.Created, used.Start))
	}
	if r.SetBack = r.redo != nil || back > Tolerance; r.SetBack {
		r.correct(used)
	}
	if !to.Before(r.now) {
		return
	}
	if used.Start.IsZero() && s.First.After(r.now) { // the platform was added by that clock
		s.First = r.now.Truncate(used.Interval)
	}
	s.Rewound = &Rewound{At: r.now, To: to}
	to = to.Add(-used.Lag)
	if early := s.Cursor.Sub(to); early > 0 {
		to = later(s.First, s.Cursor.Add(-(early + used.Interval - 1).Truncate(used.Interval)))
	}
	if to.Before(s.Cursor) {
		s.Cursor = to
		s.Epoch++
		if r.redo != nil {
			back = r.redo.By
		}
		s.History = append(s.History, Event{At: r.now, What: fmt.Sprintf("the clock has gone back by %v: slices are made again from %s", back, to.UTC().Format(time.RFC3339Nano))})
	}
}

// correct replaces times that the clock has not reached yet, because it was ahead.
func (r *Run) correct(used *Settings) {
	s := &r.State
	for i := range s.Open {
		s.Open[i].Failed = earlier(s.Open[i].Failed, r.now)
	}
	s.RowSince = earlier(s.RowSince, r.now)
	if s.Stopped != nil {
		stop := *s.Stopped
		stop.Since, stop.From = earlier(stop.Since, r.now), earlier(stop.From, r.now)
		stop.Next = earlier(stop.Next, r.now.Add(used.Probe<<min(stop.Probes, mostProbes)))
		s.Stopped = &stop
	}
}
