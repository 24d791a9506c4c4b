package timeslice_test

import (
	"testing"
	"time"

	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/timeslice"
)

// stepOf is a step that a node has noticed within a second.
func stepOf(at time.Time, by time.Duration) *timeslice.Step {
	return &timeslice.Step{From: at, Until: at.Add(time.Second), By: by}
}

// After a step back a source knows since when slices were made too early, by the clock as it is then: since the clock was set forward by as much.
func TestASourceKnowsSinceWhenTheClockWasAhead(t *testing.T) {
	at := func(minutes int) time.Time { return epoch.Add(time.Duration(minutes) * time.Minute) }
	for name, c := range map[string]struct {
		steps []*timeslice.Step
		to    time.Time // zero: there is no redo
	}{
		"forward and back":                   {[]*timeslice.Step{stepOf(at(600), 10*time.Hour), stepOf(at(300), -10*time.Hour)}, at(0)},
		"ahead for longer than by":           {[]*timeslice.Step{stepOf(at(60), time.Hour), stepOf(at(3000), -time.Hour)}, at(0)},
		"back only":                          {[]*timeslice.Step{stepOf(at(300), -time.Hour)}, at(240)},
		"back in two steps":                  {[]*timeslice.Step{stepOf(at(180), 3*time.Hour), stepOf(at(250), -time.Hour), stepOf(at(200), -2*time.Hour)}, at(0)},
		"back in the first of two steps":     {[]*timeslice.Step{stepOf(at(180), 3*time.Hour), stepOf(at(250), -time.Hour)}, at(190)},
		"forward in two steps":               {[]*timeslice.Step{stepOf(at(60), time.Hour), stepOf(at(190), 2*time.Hour), stepOf(at(30), -3*time.Hour)}, at(0)},
		"behind, and right again":            {[]*timeslice.Step{stepOf(at(0), -time.Hour), stepOf(at(90), time.Hour)}, at(-60)},
		"behind, and later ahead":            {[]*timeslice.Step{stepOf(at(0), -time.Hour), stepOf(at(90), time.Hour), stepOf(at(180), time.Hour), stepOf(at(130), -time.Hour)}, at(120)},
		"forward only":                       {[]*timeslice.Step{stepOf(at(60), time.Hour)}, time.Time{}},
		"forward by more than back":          {[]*timeslice.Step{stepOf(at(180), 3*time.Hour), stepOf(at(130), -time.Hour)}, at(70)},
		"within the tolerance of each other": {[]*timeslice.Step{stepOf(at(60), time.Hour+time.Second), stepOf(at(20), -time.Hour)}, at(0)},
		"noticed by two nodes":               {[]*timeslice.Step{stepOf(at(60), time.Hour), stepOf(at(60), time.Hour), stepOf(at(20), -time.Hour), stepOf(at(20).Add(time.Second), -time.Hour)}, at(0)},
	} {
		t.Run(name, func(t *testing.T) {
			var s timeslice.SourceState
			for _, one := range c.steps {
				s.Orders = append(s.Orders, timeslice.SourceOrder{Step: one})
				if s = s.Obey(); s.Redo == nil || s.Redo.Revision == s.Revision {
					s.Passed = s.Revision
				}
			}
			switch {
			case c.to.IsZero():
				if s.Redo != nil || s.Revision != 0 {
					t.Errorf("%+v", s.Redo)
				}
			default:
				if off := s.Redo.To.Sub(c.to); off.Abs() > time.Second {
					t.Errorf("it is to be redone from %v, and not from %v", s.Redo.To, c.to)
				}
			}
		})
	}
}

// A redo that not all platforms have had is a part of the next one.
func TestARedoThatWasNotPassedIsAPartOfTheNext(t *testing.T) {
	var s timeslice.SourceState
	s.Orders = []timeslice.SourceOrder{{Step: stepOf(epoch, -4*time.Hour)}, {Step: stepOf(epoch.Add(10*time.Minute), -time.Minute)}}
	if s = s.Obey(); s.Redo.Number != 2 || !s.Redo.To.Equal(epoch.Add(-4*time.Hour-time.Minute)) {
		t.Errorf("%+v", s.Redo)
	}
	s.Passed = s.Revision
	s.Orders = []timeslice.SourceOrder{{Step: stepOf(epoch.Add(20*time.Minute), -time.Minute)}}
	if s = s.Obey(); s.Redo.Number != 3 || !s.Redo.To.Equal(epoch.Add(19*time.Minute)) {
		t.Errorf("%+v", s.Redo)
	}
	from := s.For("a")
	first := timeslice.Order{Source: &timeslice.FromSource{Redo: &timeslice.Redo{Number: 2, To: epoch}}}
	var p timeslice.State
	p.Give(first)
	p.Give(timeslice.Order{Source: &from})
	if len(p.Orders) != 1 || !p.Orders[0].Source.Redo.To.Equal(epoch) || p.Orders[0].Source.Redo.Number != 3 {
		t.Errorf("%+v", p.Orders[0].Source.Redo)
	}
}

// If the clock was set back while no node was there, it was set back by as much as it was set forward before, at least by as much as is seen.
func TestAStepBackThatNoNodeHasNoticedEndsTheStepForwardBeforeIt(t *testing.T) {
	var s timeslice.SourceState
	if by := s.Unstepped(time.Minute); by != time.Minute {
		t.Errorf("by %v", by)
	}
	s.Clock = []timeslice.Step{*stepOf(epoch, 9*time.Hour), *stepOf(epoch, -9*time.Hour), *stepOf(epoch, 2*time.Hour), *stepOf(epoch, time.Hour)}
	for back, want := range map[time.Duration]time.Duration{
		time.Minute: time.Hour, time.Hour: time.Hour, time.Hour + time.Minute: 3 * time.Hour, 3*time.Hour + time.Second: 3 * time.Hour, 4 * time.Hour: 4 * time.Hour,
	} {
		if by := s.Unstepped(back); by != want {
			t.Errorf("%v: by %v", back, by)
		}
	}
}

// A run later than now shows a step back that no node has noticed, unless the source knows of one after the run.
func TestARunBeforeAKnownStepBackShowsNoOther(t *testing.T) {
	s := timeslice.SourceState{Clock: []timeslice.Step{*stepOf(epoch.Add(3*time.Hour), 3*time.Hour), *stepOf(epoch, -2*time.Hour)}}
	for _, c := range []struct {
		ran, now  time.Duration // after epoch
		explained bool
	}{
		{2 * time.Hour, time.Second, true},
		{time.Hour, 30 * time.Minute, true},
		{3 * time.Hour, time.Second, false},
		{5 * time.Hour, 4 * time.Hour, false},
		{time.Hour, -10 * time.Second, false}, // the clock was set back again
	} {
		if is := s.Explains(epoch.Add(c.ran), epoch.Add(c.now)); is != c.explained {
			t.Errorf("a run at %v, now %v: %v", c.ran, c.now, is)
		}
	}
	s.Clock = append(s.Clock, *stepOf(epoch.Add(90*time.Minute), time.Hour))
	if s.Explains(epoch.Add(2*time.Hour), epoch.Add(40*time.Minute)) {
		t.Error("the run was after the step forward")
	}
}

// redo gives the order of a source to make slices again.
func (l *line) redo(number uint64, by time.Duration, to time.Time) {
	l.t.Helper()
	l.order(timeslice.Order{Source: &timeslice.FromSource{
		Revision: l.state.Revision, Type: l.state.Type, File: l.state.Layers.File, Live: l.state.Layers.Live, FileOwn: l.state.Layers.FileOwn,
		Redo: &timeslice.Redo{Number: number, By: by, After: l.now, To: to},
	}})
}

// The slices of a platform that has not run since long before the clock was set back are made again from the time on at which the clock was set
// forward: for it the clock has gone back by less, or not at all.
func TestAPausedPlatformMakesSlicesOfAClockThatWasAheadAgain(t *testing.T) {
	for _, ahead := range []time.Duration{50 * time.Minute, 5 * time.Hour} { // for how long
		l := newLine(t, map[string]string{"interval": "1m", "lag": "10s"})
		l.until(epoch.Add(30*time.Minute), l.end(timeslice.Done))
		l.now = l.now.Add(time.Hour)
		l.until(l.now.Add(2*time.Minute), l.end(timeslice.Done))
		l.order(timeslice.Order{Pause: true})
		l.end(timeslice.Done)()
		first := len(l.made)
		l.now = epoch.Add(30*time.Minute + ahead)
		l.redo(1, time.Hour, epoch.Add(30*time.Minute))
		l.redo(1, time.Hour, epoch.Add(30*time.Minute))
		l.order(timeslice.Order{Resume: true})
		l.until(l.now.Add(time.Hour), l.end(timeslice.Done))
		l.tiles()
		if one := l.made[first]; one.Start.After(epoch.Add(30*time.Minute)) || one.Start.Before(epoch.Add(28*time.Minute)) || l.state.Epoch != 1 {
			t.Errorf("%v: it goes on at %v, after %d moves", ahead, one.Start, l.state.Epoch)
		}
	}
}

// A platform that has run since the clock was set back, and has made its slices again, does not make them once more when its source knows.
func TestAPlatformThatKnowsBeforeItsSourceGoesBackOnce(t *testing.T) {
	l := newLine(t, map[string]string{"interval": "1m", "lag": "10s"})
	l.until(epoch.Add(30*time.Minute), l.end(timeslice.Done))
	l.now = l.now.Add(time.Hour)
	l.until(l.now.Add(20*time.Minute), l.end(timeslice.Done))
	l.now = epoch.Add(50 * time.Minute)
	l.run()
	l.end(timeslice.Done)()
	l.redo(1, time.Hour, epoch.Add(30*time.Minute))
	if l.state.Epoch != 1 || l.state.Redone != 1 {
		t.Errorf("%d moves, of redo %d", l.state.Epoch, l.state.Redone)
	}
	l.now = l.now.Add(time.Hour)
	l.run()
	l.redo(2, time.Minute, l.now.Add(-time.Minute)) // the next step is another one
	if l.state.Epoch != 2 {
		t.Errorf("%d moves", l.state.Epoch)
	}
}

// A node with a store of its own that takes a platform over from a node whose clock was ahead does not wait until its own clock is as late: it makes slices of
// as much time before again. A platform that begins in the future stays there.
func TestANodeTakesAPlatformBackFromAClockThatWasAhead(t *testing.T) {
	low := epoch.Add(2 * time.Hour)
	for name, c := range map[string]struct {
		start time.Time
		want  time.Time
	}{"no start": {time.Time{}, epoch}, "a start before": {epoch.Add(20 * time.Minute), epoch.Add(20 * time.Minute)}, "a start in the future": {low, low}} {
		values := map[string]string{"interval": "1m"}
		if !c.start.IsZero() {
			values["start"] = c.start.Format(time.RFC3339)
		}
		l := newLine(t, values)
		l.created = epoch.Add(30 * time.Minute)
		l.now = epoch.Add(time.Hour)
		l.order(timeslice.Order{Take: &timeslice.Hold{Owner: task.ID{1}, Term: 2, Created: epoch, Low: low}})
		from := l.state.Cursor
		if len(l.made) > 0 {
			from = l.made[0].Start
		}
		if !from.Equal(c.want) || l.state.First.After(c.want) {
			t.Errorf("%s: it goes on at %v, and the first place is %v", name, from, l.state.First)
		}
		l.until(l.now.Add(10*time.Minute), l.end(timeslice.Done))
		if epochs := l.state.Epoch; epochs > 2 {
			t.Errorf("%s: %d moves", name, epochs)
		}
	}
}
