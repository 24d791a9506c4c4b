package calendar

import "time"

// Local times are counted as Unix times are, but by the wall clock: seconds since 1970-01-01
// 00:00:00 on it. Instants are Unix times.
const (
	day       = 24 * 60 * 60
	firstYear = 1970
	lastYear  = 9999
	begin     = 0                    // the first local time at which anything fires
	end       = 2932897 * int64(day) // the local time 10000-01-01 00:00:00
)

// No zone is more than 26 hours from UTC (RFC 8536). So a clock that shows a time shows an earlier
// one, or has shown a later one, only within twice that.
const (
	maxOffset = 26 * 60 * 60
	vicinity  = 3 * day // more than twice maxOffset
)

// cron fires at the local times of an expression.
type cron struct {
	times   times
	days    days
	in      *time.Location
	makesUp bool // fires at the end of a gap for the times in it
	repeats bool // fires at each pass of a repeat
}

// next walks over the stretches of time that have one offset, beginning before the time in
// question: the local times that the clock has shown until then are reached, and do not come
// again. The loop ends, because each stretch begins where the one before ends, and stretches
// without a match are left out.
func (c *cron) next(after time.Time) (time.Time, bool) {
	sec := after.Unix()
	if sec >= end+vicinity {
		return time.Time{}, false
	}
	from := max(sec, begin-vicinity) + 1 // fires are at whole seconds
	at, reached := from-vicinity, int64(none)
	for {
		offset, until := stretch(at, c.in)
		if jumped := at + offset; c.makesUp && at >= from && reached < jumped {
			if x, ok := c.match(reached); ok && x < jumped {
				return c.instant(at), true
			}
		}
		if until > from {
			begins := max(at, from)
			local := begins + offset
			if !c.repeats {
				local = max(local, reached)
			}
			x, ok := c.match(local)
			if ok && x < until+offset {
				return c.instant(x - offset), true
			}
			if until-begins > vicinity { // what follows shows no time before local
				if !ok {
					return time.Time{}, false
				}
				if near := x - 2*day; near > until {
					from, at, reached = near, near-vicinity, none
					continue
				}
			}
		}
		reached = max(reached, until+offset)
		at = until
	}
}
