package timeslice_test

import (
	"testing"
	"time"

	"github.com/taskengine/taskengine/timeslice"
)

// fetchBy gives the slices that have ended by now that fate, if two threads take 100 ms for each. Those behind them wait.
func (l *line) fetchBy(ended *int) func() {
	return func() {
		for i, one := range l.state.Open {
			id := one.ID(l.platform.Cursor())
			switch {
			case l.fate[id].State == timeslice.Done:
			case *ended < int(l.now.Sub(epoch)/(50*time.Millisecond)):
				l.fate[id] = timeslice.Status{State: timeslice.Done}
				*ended++
			default:
				l.fate[id] = timeslice.Status{Waits: i >= 2}
			}
		}
	}
}

// While most of the open slices wait for threads, there is time until the next look.
func TestACursorLooksRarelyWhileManySlicesWait(t *testing.T) {
	l := newLine(t, map[string]string{"interval": "1m", "max_open": "64", "start": epoch.Add(-24 * time.Hour).Format(time.RFC3339)})
	ended, runs := 0, 0
	fetch := l.fetchBy(&ended)
	l.until(epoch.Add(time.Minute), func() { runs++; fetch() })
	if ended < 1100 {
		t.Errorf("%d slices have ended, and %d were made", ended, l.state.Made)
	}
	if runs > 120 {
		t.Errorf("the cursor has looked %d times in a minute", runs)
	}
}

// While slices still get longer, few are open: a day behind takes few slices.
func TestSlicesOfAPlatformThatIsFarBehindAreSoonLong(t *testing.T) {
	for most, want := range map[string]int{"1h": 100, "10m": 200, "1m": 1460} {
		l := newLine(t, map[string]string{"interval": "1m", "catch_up_interval": most, "max_open": "64", "start": epoch.Add(-24 * time.Hour).Format(time.RFC3339)})
		ended := 0
		l.until(epoch.Add(5*time.Minute), l.fetchBy(&ended))
		l.tiles()
		if len(l.made) > want || l.now.Sub(l.state.Low()) > 2*time.Minute {
			t.Errorf("catch_up_interval %s: %d slices, low %v", most, len(l.made), l.state.Low())
		}
	}
}

// A platform with room for no more slices looks for the end of one when it needs the room: when the next slice is due.
func TestACursorWithoutRoomRestsUntilItsNextSliceIsDue(t *testing.T) {
	l := newLine(t, map[string]string{"interval": "1m", "max_open": "1"})
	runs := 0
	l.until(epoch.Add(time.Hour), func() {
		runs++
		for _, one := range l.state.Open {
			if l.now.Sub(one.End) >= 30*time.Second {
				l.fate[one.ID(l.platform.Cursor())] = timeslice.Status{State: timeslice.Done}
			}
		}
	})
	if l.tiles(); len(l.made) != 60 || runs > 130 {
		t.Errorf("%d slices were made, and the cursor has looked %d times", len(l.made), runs)
	}
}

// Slices that wait behind a failed one cannot end before that is tried again.
func TestACursorRestsWhileAFailedSliceHoldsUpThoseBehindIt(t *testing.T) {
	l := newLine(t, map[string]string{"interval": "1m", "order": "in_order", "probe": "1h", "start": epoch.Add(-10 * time.Minute).Format(time.RFC3339)})
	runs := 0
	l.until(epoch.Add(time.Hour-time.Second), func() {
		runs++
		if len(l.made) > 0 {
			l.fate[l.made[0].ID(l.platform.Cursor())] = timeslice.Status{State: timeslice.Failed}
		}
	})
	if len(l.made) != 10 || l.state.Stopped == nil || runs > 70 {
		t.Errorf("%d slices were made, and the cursor has looked %d times: %+v", len(l.made), runs, l.state.Stopped)
	}
	l.until(epoch.Add(65*time.Minute), func() { // the probe and the slices behind it are done, and it catches up
		runs++
		l.end(timeslice.Done)()
	})
	if l.tiles(); l.state.Stopped != nil || l.now.Sub(l.state.Low()) > 2*time.Minute {
		t.Errorf("the low-water mark is %v at %v: %+v", l.state.Low(), l.now, l.state)
	}
}
