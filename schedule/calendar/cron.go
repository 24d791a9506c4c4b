package calendar

import "time"

// Local times are counted as Unix times are, but by the wall clock: seconds since 1970-01-01
// 00:00:00 on it. Instants are Unix times.
const (
	day       = 24 * 60 * 60
	firstYear = 1970
	lastYear  = 9999
	begin     = 0                    // the first local time that can fire
	end       = 2932897 * int64(day) // the local time 10000-01-01 00:00:00
)

// No zone is more than 26 hours from UTC (RFC 8536). So an earlier reading of a clock is ahead of the
// present one by less than twice that, and vicinity is more.
const vicinity = 3 * day

// cron fires at the local times of an expression.
type cron struct {
	times   times
	days    days
	in      *time.Location
	makesUp bool // fires at the end of a gap for the times in it
	repeats bool // fires at each pass of a repeat
}

// next walks over the stretches of time that have one offset. It begins by vicinity before the time
// in question, to know which local times are reached: all those before the latest that the clock
// has shown. Each stretch begins where the one before ends, and those without a match are left out.
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
			if until-begins > vicinity { // no later stretch shows a time before local
				if !ok {
					return time.Time{}, false
				}
				if near := x - 2*day; near > until { // no clock shows x as early as that
					from, at, reached = near, near-vicinity, none
					continue
				}
			}
		}
		reached = max(reached, until+offset)
		at = until
	}
}
