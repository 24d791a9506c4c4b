package timeslice_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/timeslice"
)

var epoch = time.Date(2026, 3, 28, 0, 0, 0, 0, time.UTC) // a day before the clocks of Europe change

// line is a platform in virtual time, with the fate of each of its slices.
type line struct {
	t        *testing.T
	platform timeslice.Platform
	state    timeslice.State
	created  time.Time
	now      time.Time
	next     time.Time
	fate     map[task.ID]timeslice.Status
	made     []timeslice.Slice
	last     *timeslice.Run
}

func newLine(t *testing.T, values map[string]string) *line {
	t.Helper()
	l := &line{
		t: t, platform: timeslice.Platform{Source: "orders", Name: "a"}, created: epoch, now: epoch, next: epoch,
		fate: make(map[task.ID]timeslice.Status),
	}
	l.state.Type = "fetch"
	l.state.Layers.File = valuesOf(t, map[string]string{"spread": "0s"})
	l.state.Layers.File = valuesOf(t, values).Over(l.state.Layers.File)
	return l
}

func valuesOf(t *testing.T, all map[string]string) (v timeslice.Values) {
	t.Helper()
	for name, text := range all {
		if err := v.Set(name, text); err != nil {
			t.Fatal(err)
		}
	}
	return v
}

// run runs the cursor now. Its state is stored in between, as it is by an engine.
func (l *line) run() *timeslice.Run {
	l.t.Helper()
	payload, err := json.Marshal(l.platform)
	if err != nil {
		l.t.Fatal(err)
	}
	p, s, err := timeslice.Decode(payload, l.state.Encode())
	if err != nil {
		l.t.Fatal(err)
	}
	seen := make([]timeslice.Status, len(s.Open))
	for i := range s.Open {
		seen[i] = l.fate[s.Open[i].ID(p.Cursor())]
	}
	r := timeslice.Decide(p, s, seen, l.created, l.now)
	for _, one := range r.Retried {
		id := one.ID(p.Cursor())
		if l.fate[id].State != timeslice.Failed {
			l.t.Fatalf("%v: slice %v is retried, and has not failed", l.now, one.Start)
		}
		l.fate[id] = timeslice.Status{}
	}
	for _, one := range r.Made {
		id := r.Request(one).ID
		if _, ok := l.fate[id]; ok {
			l.t.Fatalf("%v: slice %v is made twice", l.now, one.Start)
		}
		l.fate[id] = timeslice.Status{}
	}
	l.made = append(l.made, r.Made...)
	l.state, l.next, l.last = r.State, r.Next, r
	return r
}

// order gives an order, and runs.
func (l *line) order(o timeslice.Order) {
	l.t.Helper()
	o.At = l.now
	l.state.Orders = append(l.state.Orders, o)
	l.run()
}

// until lets time pass, and runs the cursor whenever it wants to. each is called before each run.
func (l *line) until(end time.Time, each func()) {
	l.t.Helper()
	for runs := 0; !l.next.IsZero() && !l.next.After(end); runs++ {
		if runs > 200_000 {
			l.t.Fatal("the cursor does not rest")
		}
		if l.next.After(l.now) {
			l.now = l.next
		}
		each()
		if l.run(); !l.next.IsZero() && !l.next.After(l.now) {
			l.t.Fatalf("%v: the cursor wants to run again at %v, which is no progress", l.now, l.next)
		}
	}
	l.now = end
}

// end gives a fate to all open slices.
func (l *line) end(c timeslice.Condition) func() {
	return func() {
		for i := range l.state.Open {
			if id := l.state.Open[i].ID(l.platform.Cursor()); l.fate[id].State == timeslice.Live {
				l.fate[id] = timeslice.Status{State: c}
			}
		}
	}
}

// tiles checks that the slices of each epoch tile the time line without a gap and without an overlap.
func (l *line) tiles() {
	l.t.Helper()
	for i := 1; i < len(l.made); i++ {
		before, one := l.made[i-1], l.made[i]
		if one.Epoch == before.Epoch && !one.Start.Equal(before.End) {
			l.t.Errorf("slice %d begins at %v, and the one before ends at %v", i, one.Start, before.End)
		}
	}
	for i, one := range l.made {
		if !one.Start.Before(one.End) {
			l.t.Errorf("slice %d is from %v to %v", i, one.Start, one.End)
		}
	}
}

func TestASliceIsMadeWhenItIsDueAndNotBefore(t *testing.T) {
	l := newLine(t, map[string]string{"interval": "1m", "overlap": "5s", "lag": "10s"})
	l.until(epoch.Add(time.Minute+9*time.Second), func() {})
	if len(l.made) != 0 || !l.next.Equal(epoch.Add(time.Minute+10*time.Second)) {
		t.Fatalf("made %v, next %v", l.made, l.next)
	}
	l.until(epoch.Add(time.Minute+10*time.Second), func() {})
	if len(l.made) != 1 {
		t.Fatalf("made %v", l.made)
	}
	var w timeslice.Work
	if err := json.Unmarshal(l.last.Request(l.made[0]).Payload, &w); err != nil {
		t.Fatal(err)
	}
	if !w.From.Equal(epoch.Add(-5*time.Second)) || !w.Start.Equal(epoch) || !w.End.Equal(epoch.Add(time.Minute)) {
		t.Errorf("%+v", w)
	}
}

// The set of slices does not depend on the zone of the machine, and has all of the 23 or 25 hours of a day with a clock change.
func TestClockChangesDoNotChangeTheTiling(t *testing.T) {
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	l := newLine(t, map[string]string{"interval": "1h"})
	l.now = epoch.In(zone)
	l.until(epoch.Add(72*time.Hour), func() { l.end(timeslice.Done)(); l.now = l.now.In(zone) })
	if l.tiles(); len(l.made) != 72 {
		t.Errorf("%d slices in 72 hours", len(l.made))
	}
}

func TestAStartInTheFutureIsNotDue(t *testing.T) {
	l := newLine(t, map[string]string{"interval": "1m", "start": epoch.Add(time.Hour).Format(time.RFC3339)})
	l.until(epoch.Add(time.Hour), l.end(timeslice.Done))
	if len(l.made) != 0 {
		t.Fatalf("made %v", l.made)
	}
	l.until(epoch.Add(time.Hour+3*time.Minute), l.end(timeslice.Done))
	if l.tiles(); len(l.made) != 3 {
		t.Errorf("made %v", l.made)
	}
}

func TestAnIntervalThatChangesLeavesNoGap(t *testing.T) {
	l := newLine(t, map[string]string{"interval": "1h"})
	l.until(epoch.Add(150*time.Minute), l.end(timeslice.Done))
	l.order(timeslice.Order{Set: map[string]string{"interval": "1m"}})
	l.until(epoch.Add(160*time.Minute), l.end(timeslice.Done))
	l.order(timeslice.Order{Set: map[string]string{"interval": ""}})
	l.until(epoch.Add(5*time.Hour), l.end(timeslice.Done))
	l.tiles()
	if last := l.made[len(l.made)-1]; len(l.made) != 2+40+2 || !last.End.Equal(epoch.Add(280*time.Minute)) {
		t.Errorf("%d slices, the last one %+v", len(l.made), last)
	}
}

func TestAStartThatChangesMovesNoCursor(t *testing.T) {
	l := newLine(t, map[string]string{"interval": "1m"})
	l.until(epoch.Add(time.Hour), l.end(timeslice.Done))
	l.order(timeslice.Order{Set: map[string]string{"start": epoch.Add(-time.Hour).Format(time.RFC3339)}})
	if !l.state.Cursor.Equal(epoch.Add(time.Hour)) {
		t.Errorf("the cursor is at %v", l.state.Cursor)
	}
	back := epoch.Add(30 * time.Minute)
	l.order(timeslice.Order{Reset: &back, By: "anna", Reason: "the platform had lost orders"})
	l.until(epoch.Add(61*time.Minute), l.end(timeslice.Done))
	l.tiles()
	if n := len(l.made); n != 60+31 {
		t.Errorf("%d slices", n)
	}
	want := "reset the cursor to 2026-03-28T00:30:00Z: the platform had lost orders"
	if last := l.state.History[len(l.state.History)-1]; last.By != "anna" || last.What != want {
		t.Errorf("%+v", l.state.History)
	}
}

// Settings that cannot be leave the last good ones in force, and say what is wrong.
func TestSettingsThatCannotBeLeaveTheLastGoodOnes(t *testing.T) {
	l := newLine(t, map[string]string{"interval": "1m", "overlap": "10s"})
	l.run()
	l.order(timeslice.Order{Set: map[string]string{"interval": "5s"}})
	if l.state.Problem != "overlap: 10s is not shorter than interval, 5s" || l.state.Used.Interval != time.Minute {
		t.Errorf("%q, %+v", l.state.Problem, l.state.Used)
	}
	l.order(timeslice.Order{Set: map[string]string{"overlap": "1s"}})
	if l.state.Problem != "" || l.state.Used.Interval != 5*time.Second || l.state.Used.Overlap != time.Second {
		t.Errorf("%q, %+v", l.state.Problem, l.state.Used)
	}
}

// A slow slice does not hold up later ones, and the low-water mark stays at it.
func TestASlowSliceHoldsTheLowWaterMark(t *testing.T) {
	l := newLine(t, map[string]string{"interval": "1m"})
	l.until(epoch.Add(time.Minute), func() {})
	slow := l.made[0].ID(l.platform.Cursor())
	l.until(epoch.Add(time.Hour), func() { l.end(timeslice.Done)(); l.fate[slow] = timeslice.Status{} })
	if len(l.made) != 60 || !l.state.Low().Equal(epoch) {
		t.Errorf("%d slices, low %v", len(l.made), l.state.Low())
	}
	l.fate[slow] = timeslice.Status{State: timeslice.Done}
	l.run()
	if len(l.state.Open) > 1 || l.state.Low().Before(epoch.Add(59*time.Minute)) {
		t.Errorf("low %v", l.state.Low())
	}
}

// A clock that is ahead has slices made before they are due. When it has gone back they are made again, once their time has come.
func TestSlicesOfAClockThatWasAheadAreMadeAgain(t *testing.T) {
	l := newLine(t, map[string]string{"interval": "1m", "lag": "10s"})
	l.until(epoch.Add(30*time.Minute), l.end(timeslice.Done))
	l.until(epoch.Add(90*time.Minute), l.end(timeslice.Done)) // the clock is an hour ahead
	l.now = epoch.Add(31 * time.Minute)
	first := len(l.made)
	l.run()
	if !l.state.Cursor.After(epoch.Add(-time.Minute)) || l.state.Cursor.After(epoch.Add(30*time.Minute)) {
		t.Errorf("the cursor goes back to %v", l.state.Cursor)
	}
	l.until(epoch.Add(40*time.Minute), func() {
		l.end(timeslice.Done)()
	})
	l.tiles()
	for _, one := range l.made[first:] {
		if one.End.After(epoch.Add(40*time.Minute - 10*time.Second)) {
			t.Errorf("slice %+v is not due", one)
		}
	}
	if last := l.made[len(l.made)-1]; !last.End.Equal(epoch.Add(39 * time.Minute)) {
		t.Errorf("the last slice is %+v", last)
	}
	if what := l.state.History[0].What; !strings.HasPrefix(what, "the clock has gone back by 58m") {
		t.Errorf("%q", what)
	}
}

// A platform that was added by a clock that was ahead, and whose cursor runs first when that is right, begins at the right time, and its
// low-water mark is not ahead.
func TestAPlatformThatWasAddedByAClockThatWasAheadBeginsNow(t *testing.T) {
	p, now := timeslice.Platform{Source: "orders", Name: "a"}, epoch.Add(7*time.Minute+30*time.Second)
	var s timeslice.State
	if err := s.Layers.File.Set("interval", "1m"); err != nil {
		t.Fatal(err)
	}
	r := timeslice.Decide(p, s, nil, now.Add(2*time.Hour), now)
	if want := epoch.Add(7 * time.Minute); !r.State.Cursor.Equal(want) || !r.State.First.Equal(want) || r.State.Low().After(now) {
		t.Errorf("it begins at %v, and its low-water mark is %v", r.State.Cursor, r.State.Low())
	}
}

// A slice that is longer than the clock was wrong for is made again, too: its cursor has not run since.
func TestALongSliceOfAClockThatWasAheadIsMadeAgain(t *testing.T) {
	l := newLine(t, map[string]string{"interval": "6h"})
	l.until(epoch.Add(5*time.Hour), l.end(timeslice.Done))
	l.now = epoch.Add(6*time.Hour + 30*time.Minute) // the clock is an hour ahead
	l.run()
	l.end(timeslice.Done)()
	if len(l.made) != 1 {
		t.Fatalf("made %v", l.made)
	}
	l.now = epoch.Add(6*time.Hour + 20*time.Minute) // 50 minutes later it is right again
	l.run()
	l.until(epoch.Add(7*time.Hour), l.end(timeslice.Done))
	if len(l.made) != 2 || !l.made[1].Start.Equal(epoch) || !l.made[1].End.Equal(epoch.Add(6*time.Hour)) {
		t.Errorf("made %v", l.made)
	}
}

// A slice that waits behind a failed one of its platform, because slices ran in order when they were made, shows nothing: the breaker tries the failed one.
func TestASliceThatWaitsBehindAFailedOneIsNoProbe(t *testing.T) {
	l := newLine(t, map[string]string{"interval": "1m", "breaker": "0", "probe": "1m", "order": "in_order", "max_open": "2"})
	l.until(epoch.Add(3*time.Minute), func() {})
	l.fate[l.state.Open[0].ID(l.platform.Cursor())] = timeslice.Status{State: timeslice.Failed}
	l.run()
	l.order(timeslice.Order{Set: map[string]string{"order": "parallel", "breaker": "1", "max_open": "10"}})
	if running, failed := l.state.Running(); l.state.Stopped == nil || running != 1 || failed != 1 {
		t.Fatalf("%d slices run, %d have failed, %+v", running, failed, l.state.Stopped)
	}
	retried := 0
	l.until(l.now.Add(time.Hour), func() {
		if running, failed := l.state.Running(); running == 2 && failed == 0 { // the failed one was tried again, and the other one is behind it
			retried++
			l.end(timeslice.Done)()
		}
	})
	if l.state.Stopped != nil || retried == 0 {
		t.Errorf("the breaker has not ended: %+v", l.state)
	}
}

// The pause of the breaker does not depend on the clock that was ahead: a failed slice is tried again soon after that is right.
func TestTheBreakerTriesAgainThoughTheClockWasAhead(t *testing.T) {
	for _, order := range []string{"parallel", "in_order"} {
		l := newLine(t, map[string]string{"interval": "1m", "breaker": "2", "probe": "1m", "order": order, "max_open": "3"})
		l.until(epoch.Add(10*time.Minute), l.end(timeslice.Done))
		isHeld := false
		fail := func() {
			isHeld = false
			for _, one := range l.state.Open {
				if id := one.ID(l.platform.Cursor()); l.fate[id].State == timeslice.Live && !isHeld {
					l.fate[id] = timeslice.Status{State: timeslice.Failed}
				}
				isHeld = order == "in_order"
			}
		}
		l.now = l.now.AddDate(1, 0, 0)
		l.next = l.now
		l.until(l.now.Add(3*time.Hour), fail)
		if l.state.Stopped == nil {
			t.Fatalf("%s: the breaker has not stopped it: %+v", order, l.state)
		}
		l.now = epoch.Add(13 * time.Hour)
		l.run()
		l.until(l.now.Add(time.Hour), fail) // some more failures
		l.until(l.now.Add(time.Hour), l.end(timeslice.Done))
		if running, failed := l.state.Running(); l.state.Stopped != nil || failed > 0 || running > 3 {
			t.Errorf("%s: %d failed and %d open slices, %+v", order, failed, running, l.state.Stopped)
		}
	}
}

// A small step back, such as those between clocks that are compared, does nothing.
func TestASmallStepOfTheClockDoesNothing(t *testing.T) {
	l := newLine(t, map[string]string{"interval": "1m"})
	l.until(epoch.Add(30*time.Minute), l.end(timeslice.Done))
	cursor := l.state.Cursor
	l.now = l.now.Add(-timeslice.Tolerance)
	l.run()
	if !l.state.Cursor.Equal(cursor) || len(l.state.History) > 0 {
		t.Errorf("%+v", l.state)
	}
}

func TestCatchingUpIsBoundedAndUsesLongerSlices(t *testing.T) {
	l := newLine(t, map[string]string{"interval": "1m", "catch_up_interval": "1h", "max_open": "4", "start": epoch.Add(-72 * time.Hour).Format(time.RFC3339)})
	longest := time.Duration(0)
	l.until(epoch.Add(10*time.Minute), func() {
		if running, _ := l.state.Running(); running > 4 {
			t.Fatalf("%d slices are open", running)
		}
		l.end(timeslice.Done)()
	})
	l.tiles()
	for _, one := range l.made {
		longest = max(longest, one.End.Sub(one.Start))
	}
	if longest != time.Hour || len(l.made) > 200 || l.state.Cursor.Before(epoch.Add(9*time.Minute)) {
		t.Errorf("%d slices, the longest %v, cursor %v", len(l.made), longest, l.state.Cursor)
	}
	// Each is a multiple of the interval, so that the slices of the live edge begin as they would have.
	for _, one := range l.made {
		if one.End.Sub(one.Start)%time.Minute != 0 {
			t.Errorf("slice %+v", one)
		}
	}
}

func TestSlicesThatWereSplitAreFollowedByShorterOnes(t *testing.T) {
	l := newLine(t, map[string]string{"interval": "1m", "catch_up_interval": "1h", "max_open": "1", "start": epoch.Add(-72 * time.Hour).Format(time.RFC3339)})
	l.until(epoch.Add(20*time.Minute), func() {
		for _, one := range l.state.Open { // the platform has too much for more than four minutes
			id := one.ID(l.platform.Cursor())
			if was := l.fate[id]; one.End.Sub(one.Start) > 4*time.Minute && !was.Split {
				l.fate[id] = timeslice.Status{Split: true}
			} else {
				l.fate[id] = timeslice.Status{State: timeslice.Done, Split: was.Split}
			}
		}
	})
	l.tiles()
	long := 0
	for _, one := range l.made {
		if one.End.Sub(one.Start) > 8*time.Minute {
			long++
		}
	}
	if long > 0 || l.state.Cursor.Before(epoch) {
		t.Errorf("%d slices are longer than twice what the platform can do, of %d, cursor %v", long, len(l.made), l.state.Cursor)
	}
}

// After some failures in a row the platform stops, one slice is tried again and again, and when it is done the others follow.
func TestTheBreakerStopsAPlatformUntilAProbeIsDone(t *testing.T) {
	for _, order := range []string{"parallel", "in_order"} {
		l := newLine(t, map[string]string{"interval": "1m", "breaker": "3", "probe": "1m", "order": order})
		isDown, probes := true, 0
		l.until(epoch.Add(10*time.Hour), func() {
			isHeld := false
			for _, one := range l.state.Open {
				id := one.ID(l.platform.Cursor())
				switch was := l.fate[id]; {
				case was.State == timeslice.Failed:
					isHeld = order == "in_order"
				case was.State == timeslice.Live && isHeld: // it waits behind a failed one
				case isDown:
					probes++
					l.fate[id] = timeslice.Status{State: timeslice.Failed}
					isHeld = order == "in_order"
				default:
					l.fate[id] = timeslice.Status{State: timeslice.Done}
				}
			}
		})
		if _, failed := l.state.Running(); failed > 3 || l.state.Stopped == nil {
			t.Errorf("%s: %d failed slices, %+v", order, failed, l.state.Stopped)
		}
		if probes < 20 || probes > 60 {
			t.Errorf("%s: %d attempts in ten hours", order, probes)
		}
		isDown = false
		l.until(epoch.Add(11*time.Hour), func() {
			for _, one := range l.state.Open {
				if id := one.ID(l.platform.Cursor()); l.fate[id].State == timeslice.Live {
					l.fate[id] = timeslice.Status{State: timeslice.Done}
				}
			}
		})
		running, failed := l.state.Running()
		if l.tiles(); failed > 0 || running > 1 || l.state.Stopped != nil || l.state.Cursor.Before(epoch.Add(10*time.Hour+58*time.Minute)) {
			t.Errorf("%s: %d failed and %d open slices, %+v, cursor %v", order, failed, running, l.state.Stopped, l.state.Cursor)
		}
	}
}

// A slice that has failed while slices ran in parallel holds up the platform once they run in order: the breaker tries it again.
func TestAFailedSliceOfAParallelPlatformIsProbedInOrder(t *testing.T) {
	l := newLine(t, map[string]string{"interval": "1m", "breaker": "3"})
	l.until(epoch.Add(time.Minute), func() {})
	bad := l.made[0].ID(l.platform.Cursor())
	l.fate[bad] = timeslice.Status{State: timeslice.Failed}
	l.until(epoch.Add(10*time.Minute), l.end(timeslice.Done))
	if _, failed := l.state.Running(); failed != 1 || l.state.Stopped != nil || !l.state.Low().Equal(epoch) {
		t.Fatalf("%d failed slices, %+v, low %v", failed, l.state.Stopped, l.state.Low())
	}
	l.order(timeslice.Order{Set: map[string]string{"order": "in_order"}})
	if l.state.Stopped == nil {
		t.Error("nothing will try the slice again that holds up the platform")
	}
	l.until(epoch.Add(30*time.Minute), l.end(timeslice.Done))
	if _, failed := l.state.Running(); failed != 0 || l.state.Stopped != nil || l.state.Low().Before(epoch.Add(28*time.Minute)) {
		t.Errorf("%d failed slices, %+v, low %v", failed, l.state.Stopped, l.state.Low())
	}
	l.tiles()
}

func TestFailedSlicesAreKeptUntilTheyAreRetried(t *testing.T) {
	l := newLine(t, map[string]string{"interval": "1m", "breaker": "0"})
	l.until(epoch.Add(10*time.Minute), l.end(timeslice.Failed))
	l.until(epoch.Add(20*time.Minute), l.end(timeslice.Done))
	if _, failed := l.state.Running(); failed == 0 || !l.state.Low().Equal(epoch) {
		t.Fatalf("%d failed slices, low %v", failed, l.state.Low())
	}
	l.order(timeslice.Order{Retry: &timeslice.Range{From: epoch.Add(2 * time.Minute), Until: epoch.Add(4 * time.Minute)}})
	if len(l.last.Retried) != 2 || !l.last.Retried[0].Start.Equal(epoch.Add(2*time.Minute)) {
		t.Errorf("retried %+v", l.last.Retried)
	}
	l.order(timeslice.Order{Retry: &timeslice.Range{}}) // those that run are not retried twice
	l.until(epoch.Add(30*time.Minute), l.end(timeslice.Done))
	if _, failed := l.state.Running(); failed > 0 || l.state.Low().Before(epoch.Add(29*time.Minute)) {
		t.Errorf("%d failed slices, low %v", failed, l.state.Low())
	}
}

func TestAPausedOrRemovedPlatformGoesOnAtItsCursor(t *testing.T) {
	for name, c := range map[string]struct{ off, on timeslice.Order }{
		"paused":  {timeslice.Order{Pause: true}, timeslice.Order{Resume: true}},
		"removed": {timeslice.Order{Remove: true}, timeslice.Order{Add: true}},
	} {
		l := newLine(t, map[string]string{"interval": "1m"})
		l.until(epoch.Add(10*time.Minute), l.end(timeslice.Done))
		l.order(c.off)
		l.until(epoch.Add(20*time.Minute), l.end(timeslice.Done))
		if n := len(l.made); n != 10 {
			t.Errorf("%s: %d slices", name, n)
		}
		l.order(c.on)
		l.until(epoch.Add(30*time.Minute), l.end(timeslice.Done))
		if l.tiles(); len(l.made) != 30 {
			t.Errorf("%s: %d slices", name, len(l.made))
		}
	}
}

func TestPlatformsAreDueAtDifferentTimes(t *testing.T) {
	const platforms = 1000
	perTenth := make([]int, 10)
	for i := range platforms {
		p := timeslice.Platform{Source: "orders", Name: fmt.Sprint("shop-", i)}
		l := newLine(t, map[string]string{"interval": "1m", "lag": "10s", "spread": "20s"})
		l.platform = p
		delay := p.Delay(20 * time.Second)
		if delay < 0 || delay >= 20*time.Second {
			t.Fatalf("%s has a delay of %v", p, delay)
		}
		perTenth[delay/(2*time.Second)]++
		due := epoch.Add(time.Minute + 10*time.Second + delay)
		if l.run(); !l.next.Equal(due) {
			t.Fatalf("%s runs at %v, and is due at %v", p, l.next, due)
		}
		l.until(due, l.end(timeslice.Done))
		if len(l.made) != 1 || l.state.Late(p, due.Add(3*time.Second)) != 3*time.Second {
			t.Fatalf("%s: made %v, late %v", p, l.made, l.state.Late(p, due.Add(3*time.Second)))
		}
	}
	for i, n := range perTenth {
		if n < platforms/20 || n > platforms/5 {
			t.Errorf("%d of %d platforms are due in tenth %d", n, platforms, i)
		}
	}
	p := timeslice.Platform{Source: "orders", Name: "shop-a"}
	if one, other := p.Delay(time.Minute), p.Delay(time.Minute); one != other || p.Delay(0) != 0 {
		t.Errorf("delays %v and %v, %v without a spread", one, other, p.Delay(0))
	}
}

func TestTheUsualSpreadGrowsWithTheNumberOfPlatforms(t *testing.T) {
	for _, c := range []struct {
		platforms int
		interval  string
		want      time.Duration
	}{{0, "1m", 0}, {7, "1m", 7 * time.Millisecond}, {10_000, "1m", 6 * time.Second}, {10_000, "1h", 10 * time.Second}, {10_000, "1s", 100 * time.Millisecond}} {
		l := timeslice.Layers{File: valuesOf(t, map[string]string{"interval": c.interval}), Platforms: c.platforms}
		if s, err := l.Settings(); err != nil || s.Spread != c.want {
			t.Errorf("%+v: spread %v, %v", c, s.Spread, err)
		}
		l.Own = valuesOf(t, map[string]string{"spread": "1s"})
		if s, err := l.Settings(); err != nil || s.Spread != time.Second {
			t.Errorf("%+v: spread %v instead of the one that is set, %v", c, s.Spread, err)
		}
	}
}

// A repeated run makes the same slices: an attempt of which the end was not stored leaves nothing behind that differs.
func TestARunIsRepeatable(t *testing.T) {
	l := newLine(t, map[string]string{"interval": "1m", "start": epoch.Add(-time.Hour).Format(time.RFC3339)})
	before := l.state
	first := l.run()
	again := timeslice.Decide(l.platform, before, nil, l.created, l.now)
	if !slices.Equal(first.Made, again.Made) || string(first.State.Encode()) != string(again.State.Encode()) {
		t.Errorf("%v\n%v", first, again)
	}
}
