package schedule

import (
	"time"

	"github.com/taskengine/taskengine/schedule/calendar"
)

// Moment is one fire time of a schedule.
type Moment struct {
	Time time.Time // in the zone of the schedule
	// Named is the time of the day that the expression names, if the wall clock has jumped over it, so that the schedule
	// fires at Time instead. It is zero for other moments. It is a reading of the wall clock, not a moment: its zone is UTC.
	Named time.Time
	// Again says that the clock was put back, and shows the time of the day for the second time.
	Again bool
}

// Preview returns the first n times from a given one on, or fewer if the schedule has no more. Pauses, CatchUp, Overlap and
// Jitter are ignored. An error describes the mistake in d.
func (d *Definition) Preview(name string, from time.Time, n int) ([]Moment, error) {
	all, err := d.times(name)
	if err != nil {
		return nil, err
	}
	zone, err := d.zone()
	if err != nil {
		return nil, err
	}
	var named *calendar.Calendar // the times of the day that the expression names
	if d.Cron != "" {
		if named, err = calendar.ParseCron(d.Cron, calendar.Options{Hash: name}); err != nil {
			return nil, err
		}
	}
	var moments []Moment
	for after := from.Add(-1); len(moments) < n; {
		at, ok := all.next(after)
		if !ok {
			break
		}
		m := Moment{Time: at.In(zone)}
		if named != nil {
			m.compare(named)
		}
		moments, after = append(moments, m), at
	}
	return moments, nil
}

// compare sets Named or Again of m if a clock change affects it.
func (m *Moment) compare(named *calendar.Calendar) {
	change, _ := m.Time.ZoneBounds()
	if change.IsZero() {
		return // the clock never changed before
	}
	_, offset := m.Time.Zone()
	_, before := change.Add(-1).Zone()
	put := time.Duration(offset-before) * time.Second // by how much the clock was put forward
	m.Again = m.Time.Sub(change) < -put
	if reads := face(m.Time, offset); put > 0 && m.Time.Equal(change) && !fires(named, reads) {
		m.Named, _ = named.Next(face(m.Time, before).Add(-1))
	}
}

// face returns the reading of a wall clock, as a time in UTC.
func face(at time.Time, offset int) time.Time {
	return at.UTC().Add(time.Duration(offset) * time.Second)
}

// fires reports whether a calendar has a time.
func fires(c *calendar.Calendar, at time.Time) bool {
	next, ok := c.Next(at.Add(-1))
	return ok && next.Equal(at)
}

// Count returns the number of fire times from from to to, both included, but at most most. An error describes the mistake
// in d.
func (d *Definition) Count(name string, from, to time.Time, most uint64) (uint64, error) {
	all, err := d.times(name)
	if err != nil {
		return 0, err
	}
	return all.count(from.Add(-1), to.Add(1), most), nil
}
