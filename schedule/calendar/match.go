package calendar

import "math/bits"

// times has the times of the day that match: bit n of a field is the value n.
type times struct {
	second, minute uint64
	hour           uint32
}

const allHours = 1<<24 - 1

// match returns the first local time from a given one on that matches the expression.
func (c *cron) match(from int64) (int64, bool) {
	from = max(from, begin)
	if from >= end {
		return 0, false
	}
	date, rest := from/day, from%day
	d := c.days.next(date)
	if d == date {
		if at, ok := c.times.next(int(rest)); ok {
			return date*day + int64(at), true
		}
		d = c.days.next(date + 1)
	}
	if d < 0 {
		return 0, false
	}
	return d*day + int64(c.times.first()), true
}

// next returns the first matching second of a day from a given one on.
func (t *times) next(from int) (int, bool) {
	hour, minute, second := from/3600, from/60%60, from%60
	if t.hour>>hour&1 != 0 {
		if t.minute>>minute&1 != 0 {
			if s := t.second >> second; s != 0 {
				return from + bits.TrailingZeros64(s), true
			}
		}
		if m := t.minute >> minute >> 1; m != 0 {
			minute += 1 + bits.TrailingZeros64(m)
			return hour*3600 + minute*60 + bits.TrailingZeros64(t.second), true
		}
	}
	if h := t.hour >> hour >> 1; h != 0 {
		hour += 1 + bits.TrailingZeros32(h)
		return hour*3600 + bits.TrailingZeros64(t.minute)*60 + bits.TrailingZeros64(t.second), true
	}
	return 0, false
}

func (t *times) first() int {
	return bits.TrailingZeros32(t.hour)*3600 + bits.TrailingZeros64(t.minute)*60 + bits.TrailingZeros64(t.second)
}
