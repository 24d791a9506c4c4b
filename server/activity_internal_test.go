package server

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestADelayIsWithinItsSize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "delay"))
		size := sizeOfDelay(d)
		if d > boundOfDelay(size)+time.Nanosecond && size < delaySizes-1 {
			t.Errorf("%v has the size %d up to %v", d, size, boundOfDelay(size))
		}
		if size > 0 && d < boundOfDelay(size-1)-time.Nanosecond {
			t.Errorf("%v has the size %d from %v on", d, size, boundOfDelay(size-1))
		}
	})
}

// Types that do nothing cost one value, whatever the number of notes.
func TestNotesOfActivityAreBoundedAndSumUpTheLastMinute(t *testing.T) {
	m := NewMetrics([]string{"a", "b"}, Build{})
	begin := time.Now()
	for i := range 100 {
		m.types["a"].activity.submitted.Add(1)
		m.noteActivity(begin.Add(time.Duration(i) * activityEvery))
	}
	m.types["a"].activity.submitted.Add(5)
	now := begin.Add(99*activityEvery + time.Second)
	notes, from := m.activityUntil(now)
	if len(notes) != activityNotes+1 || now.Sub(from.at) < activityWindow || now.Sub(from.at) > activityWindow+activityEvery {
		t.Errorf("there are %d notes, and the window is %v long", len(notes), now.Sub(from.at))
	}
	if got := between(from, &notes[len(notes)-1], "a", "b"); got.submitted != 6+5 {
		t.Errorf("the window has %d tasks", got.submitted)
	}
	if notes[0].byType["b"] != notes[activityNotes].byType["b"] {
		t.Error("a type that does nothing has values of its own")
	}
}
