package schedule

import (
	"time"

	"github.com/taskengine/taskengine/schedule/calendar"
)

// times are the fire times of a schedule: the times of a calendar between a start and an end.
type times struct {
	calendar   *calendar.Calendar
	start, end time.Time // both included; zero is no bound
}

func (d *Definition) times(name string) (times, error) {
	c, err := d.Calendar(name)
	return times{c, d.Start, d.End}, err
}

// next returns the first time after another one.
func (t times) next(after time.Time) (time.Time, bool) {
	if !t.start.IsZero() && after.Before(t.start) {
		after = t.start.Add(-1)
	}
	at, ok := t.calendar.Next(after)
	if !ok || !t.end.IsZero() && at.After(t.end) {
		return time.Time{}, false
	}
	return at, true
}

// last returns the last time in (after, until]. It bisects the interval, because a calendar only goes forward and may
// have very many times in it.
func (t times) last(after, until time.Time) (found time.Time, ok bool) {
	beyond := until // no time is after it and until the other
	for {
		at, some := t.next(after)
		if !some || at.After(until) {
			return found, ok
		}
		found, ok, after = at, true, at
		middle := at.Add(beyond.Sub(at) / 2)
		if at, some = t.next(middle); some && !at.After(until) {
			found, after = at, at
		} else {
			beyond = middle
		}
	}
}

// count returns how many times there are after one and before another, at most a number.
func (t times) count(after, before time.Time, most uint64) (n uint64) {
	for n < most {
		at, some := t.next(after)
		if !some || !at.Before(before) {
			break
		}
		after = at
		n++
	}
	return n
}

// due returns the times in (after, last] that add tasks at the time now, the oldest first, and the number of other times, which
// are missed.
func (t times) due(c CatchUp, after, last, now time.Time) (due []time.Time, missed uint64) {
	for until := last; len(due) < c.most(); until = due[0].Add(-1) {
		at, ok := t.last(after, until)
		late := now.Sub(at)
		isMissed := len(due) > 0 || late > OnTime
		if !ok || isMissed && (c.Policy == None || c.Window > 0 && late > c.Window) {
			break
		}
		due = append([]time.Time{at}, due...)
	}
	before := last.Add(1)
	if len(due) > 0 {
		before = due[0]
	}
	return due, t.count(after, before, CountedMisses)
}
