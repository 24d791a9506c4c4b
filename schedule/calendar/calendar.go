package calendar

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Calendar has the fire times of a schedule. It is immutable and safe for concurrent use. ParseCron
// and Every make one; the zero Calendar never fires.
type Calendar struct {
	text     string
	cron     *cron // of ParseCron, else nil
	interval *interval
}

// Options complete a cron expression.
type Options struct {
	// Location is the time zone of the wall clock; nil is UTC. time.Local is refused, because a
	// schedule must not depend on the machine. LoadLocation finds a zone by its name. Its offset
	// from UTC is at most 26 hours, as RFC 8536 has it.
	Location *time.Location
	Gap      Gap    // of the times that the clock jumps over
	Repeat   Repeat // of the times that the clock shows again
	// Hash is the name to derive H from, such as the name of the schedule. An expression with H needs one.
	Hash string
}

// ParseCron reads a cron expression with five or six fields, or a macro. Its error is an
// *ExpressionError if the expression is wrong, which includes one that never fires, such as
// 30 February.
func ParseCron(expr string, o Options) (*Calendar, error) {
	if o.Location == nil {
		o.Location = time.UTC
	}
	if isLocal(o.Location.String()) {
		return nil, errors.New(refuseLocal)
	}
	if o.Gap > Skip {
		return nil, fmt.Errorf("gap %d does not exist; use RunAfter or Skip", o.Gap)
	}
	if o.Repeat > Both {
		return nil, fmt.Errorf("repeat %d does not exist; use First or Both", o.Repeat)
	}
	p := parser{expr: expr, hash: o.Hash}
	times, days, text, err := p.parse()
	if err != nil {
		return nil, err
	}
	c := &cron{times: times, days: days, in: o.Location, makesUp: o.Gap == RunAfter, repeats: o.Repeat == Both}
	if times.hour == allHours {
		c.makesUp, c.repeats = false, true
	}
	return &Calendar{text: text, cron: c}, nil
}

// Every fires at anchor + k*d for every whole number k, negative ones included, in absolute time:
// clock changes do not matter. A zero anchor is the Unix epoch. d is at least one second, and the
// anchor in the years 1970 to 9999.
func Every(d time.Duration, anchor time.Time) (*Calendar, error) {
	if anchor.IsZero() {
		anchor = time.Unix(0, 0).UTC()
	}
	if d < time.Second {
		return nil, fmt.Errorf("interval %v is too short; want at least 1s", d)
	}
	if y := anchor.UTC().Year(); y < firstYear || y > lastYear {
		return nil, fmt.Errorf("anchor in the year %d is out of range; want %d to %d", y, firstYear, lastYear)
	}
	text := fmt.Sprintf("every %s from %s", plain(d), anchor.Format(time.RFC3339Nano))
	return &Calendar{text: text, interval: &interval{d, anchor.Round(0)}}, nil
}

// plain writes a duration without units that are zero, such as 1h for 1h0m0s.
func plain(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}

// Next returns the first fire strictly after a time, in the zone of the calendar: that of
// Options.Location, or of the anchor of an interval. Fires are in the years 1970 to 9999, by the
// clock of the zone or, of an interval, by UTC. If none is left, Next returns false.
//
// The fires of a calendar are a fixed set: Next is the same for all times between two fires.
func (c *Calendar) Next(after time.Time) (time.Time, bool) {
	switch {
	case c.cron != nil:
		return c.cron.next(after)
	case c.interval != nil:
		return c.interval.next(after)
	}
	return time.Time{}, false
}

// String returns the expression in one form: numbers instead of names, macros written out, and the
// values that H stands for. ParseCron reads it as the same times. An interval is written with its
// anchor, to be read only.
func (c *Calendar) String() string { return c.text }
