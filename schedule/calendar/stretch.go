package calendar

import "time"

const (
	none    = -1 << 62
	forever = 1 << 62
)

// stretch returns the offset of a zone from UTC at an instant, in seconds, and an instant up to where
// it does not change.
func stretch(at int64, in *time.Location) (offset, until int64) {
	t := time.Unix(at, 0).In(in)
	_, seconds := t.Zone()
	_, last := t.ZoneBounds()
	if last.IsZero() {
		return int64(seconds), forever
	}
	until = last.Unix()
	if until <= at {
		// Package time ends every year in the distant future after 365 days, so this is 31
		// December of a leap year, by UTC.
		until = at - at%day + day
	}
	return int64(seconds), until
}

func (c *cron) instant(at int64) time.Time { return time.Unix(at, 0).In(c.in) }
