package calendar

import "math/bits"

// days has the days that match, by month, day of the month and day of the week. In the sets of
// days of a month, bit n is the n-th day.
type days struct {
	month      uint16 // bit n is the n-th month of the year, from 1
	day        uint32
	beforeLast uint32 // bit n: n days before the last one (L is 0)
	nearest    uint32 // bit n: the weekday that is nearest to the n-th day; bit 0: to the last one
	weekday    uint8  // bit n: n days after Sunday
	last       uint8  // likewise: the last one of the month
	nth        [6]uint8
	either     bool // a day matches by the month or by the week; otherwise it must match both
}

// The calendar with its days of the week repeats every 400 years, which are 146097 days or 20871
// weeks. So a set of days without a match in that time has none.
const cycle = 400 * 12 // months

// next returns the first matching day from a given one on, as days since 1970-01-01, or -1 if
// there is none before the year 10000.
func (d *days) next(from int64) int64 {
	year, month, dayOfMonth := date(from)
	first := from - int64(dayOfMonth-1)
	past := uint32(1)<<dayOfMonth - 1 // the days of the first month that are before
	for year <= lastYear {
		n := daysIn(year, month)
		if d.month>>month&1 != 0 {
			if m := d.in(n, weekdayOf(first)) &^ past; m != 0 {
				return first + int64(bits.TrailingZeros32(m)-1)
			}
		}
		past = 0
		first += int64(n)
		if month++; month > 12 {
			year, month = year+1, 1
		}
	}
	return -1
}

// never reports that no day matches in any year.
func (d *days) never() bool {
	const from = 10957 // 2000-01-01
	first, year, month := int64(from), 2000, 1
	for range cycle {
		n := daysIn(year, month)
		if d.month>>month&1 != 0 && d.in(n, weekdayOf(first)) != 0 {
			return false
		}
		first += int64(n)
		if month++; month > 12 {
			year, month = year+1, 1
		}
	}
	return true
}

// in returns the matching days of a month that has n days and begins on a day of the week.
func (d *days) in(n, begins int) uint32 {
	month := d.ofMonth(n, begins)
	week := d.ofWeek(n, begins)
	if d.either {
		return month | week
	}
	return month & week
}

func (d *days) ofMonth(n, begins int) uint32 {
	all := uint32(1)<<(n+1) - 2
	set := d.day
	for b := d.beforeLast; b != 0; b &= b - 1 {
		if last := n - bits.TrailingZeros32(b); last > 0 {
			set |= 1 << last
		}
	}
	for b := d.nearest; b != 0; b &= b - 1 {
		near := bits.TrailingZeros32(b)
		if near == 0 {
			near = n
		}
		if near <= n {
			set |= 1 << nearestWeekday(near, n, begins)
		}
	}
	return set & all
}

// nearestWeekday returns the day from Monday to Friday that is nearest to a day of a month.
func nearestWeekday(near, n, begins int) int {
	switch (begins + near - 1) % 7 {
	case 6: // Saturday
		if near == 1 {
			return 3
		}
		return near - 1
	case 0: // Sunday
		if near == n {
			return n - 2
		}
		return near + 1
	}
	return near
}

func (d *days) ofWeek(n, begins int) uint32 {
	const everyWeek = 1 | 1<<7 | 1<<14 | 1<<21 | 1<<28
	all := uint32(1)<<(n+1) - 2
	if d.weekday == 1<<7-1 {
		return all
	}
	var set uint32
	for b := d.weekday; b != 0; b &= b - 1 {
		set |= everyWeek << firstOf(bits.TrailingZeros8(b), begins)
	}
	for b := d.last; b != 0; b &= b - 1 {
		first := firstOf(bits.TrailingZeros8(b), begins)
		set |= 1 << (first + (n-first)/7*7)
	}
	for i, nth := range d.nth {
		for b := nth; b != 0; b &= b - 1 {
			set |= 1 << (firstOf(bits.TrailingZeros8(b), begins) + (i-1)*7)
		}
	}
	return set & all
}

// firstOf returns the first day of a month that is the given day of the week.
func firstOf(weekday, begins int) int { return 1 + (weekday-begins+7)%7 }

// weekdayOf returns the day of the week of a day since 1970-01-01, which was a Thursday.
func weekdayOf(day int64) int { return int((day + 4) % 7) }

func daysIn(year, month int) int {
	if month == 2 {
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	}
	return 30 + (month+month>>3)&1
}

// date returns the date of a day since 1970-01-01, which is not negative. Years are counted from
// March here, so that leap days end them.
func date(day int64) (year, month, dayOfMonth int) {
	const fromYear0, in400Years = 719468, 146097 // 0000-03-01 to 1970-01-01
	z := int(day) + fromYear0
	of400 := z % in400Years
	ofEra := (of400 - of400/1460 + of400/36524 - of400/146096) / 365
	ofYear := of400 - (365*ofEra + ofEra/4 - ofEra/100)
	m := (5*ofYear + 2) / 153 // 0 is March
	dayOfMonth = ofYear - (153*m+2)/5 + 1
	month = m + 3
	year = z/in400Years*400 + ofEra
	if month > 12 {
		month -= 12
		year++
	}
	return year, month, dayOfMonth
}
