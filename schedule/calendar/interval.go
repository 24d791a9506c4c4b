package calendar

import (
	"math/bits"
	"time"
)

// interval fires at anchor + k*every.
type interval struct {
	every  time.Duration // of 1 s or more
	anchor time.Time     // within the years of calendars
}

func (i *interval) next(after time.Time) (time.Time, bool) {
	switch {
	case after.Unix() > end:
		return time.Time{}, false
	case after.Before(time.Unix(begin, 0)):
		after = time.Unix(begin, -1)
	}
	step := i.every - i.since(after)
	next := time.Unix(after.Unix(), int64(after.Nanosecond())).Add(step)
	if next.Unix() >= end {
		return time.Time{}, false
	}
	return next.In(i.anchor.Location()), true
}

// since returns the time from the last fire to t, in [0, i.every). The distance from the anchor to t
// may be too long for a time.Duration.
func (i *interval) since(t time.Time) time.Duration {
	from, to, negative := i.anchor, t, false
	if to.Before(from) {
		from, to, negative = to, from, true
	}
	sec, nano := to.Unix()-from.Unix(), int64(to.Nanosecond()-from.Nanosecond())
	if nano < 0 {
		sec, nano = sec-1, nano+int64(time.Second)
	}
	hi, lo := bits.Mul64(uint64(sec), uint64(time.Second))
	lo, carry := bits.Add64(lo, uint64(nano), 0)
	rest := time.Duration(bits.Rem64(hi+carry, lo, uint64(i.every)))
	if negative && rest > 0 {
		rest = i.every - rest
	}
	return rest
}
