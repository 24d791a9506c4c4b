// Package partition names and bounds the partitions of the table ended. The table is divided
// twice: by the time for which rows are kept (the class), and within a class by the time at
// which they ended (the slot). The expiry drops a slot as a whole when no row of it is to be
// kept any longer.
package partition

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"time"
)

const (
	hour = 3600
	day  = 24 * hour
)

// keeps are the retention times, in seconds. A row with another retention time is kept for the
// next longer one, so that there are few partitions.
var keeps = [...]int32{
	hour, 2 * hour, 3 * hour, 6 * hour, 12 * hour, day, 2 * day, 3 * day, 5 * day, 7 * day, 10 * day, 14 * day,
	21 * day, 30 * day, 45 * day, 60 * day, 90 * day, 120 * day, 180 * day, 270 * day, 400 * day,
}

// Keep returns for how many seconds a row with the retention time d is kept. It is never 0,
// which stands for ever.
func Keep(d time.Duration) int32 {
	for _, keep := range keeps {
		if d <= time.Duration(keep)*time.Second {
			return keep
		}
	}
	years := int64(d/(365*day*time.Second)) + 1
	return int32(min(years*365*day, math.MaxInt32))
}

// Class is a first-level partition of the table ended.
type Class struct {
	Keep  int32 // how long rows are kept, in seconds; 0 is for ever
	Early bool  // of rows that ended more than an hour before the time in their id
}

// foreverEarly is the number of the class of rows that ended early and are kept for ever. No
// other class has this number.
const foreverEarly = -(120*day + 1)

// Number returns the partition key of the class, the column keep: the time for which its rows
// are kept, negative if they ended early.
func (c Class) Number() int32 {
	switch {
	case !c.Early:
		return c.Keep
	case c.Keep == 0:
		return foreverEarly
	}
	return -c.Keep
}

// Name returns the name of the partition.
func (c Class) Name() string {
	if c.Early {
		return fmt.Sprintf("ended_early_%d", c.Keep)
	}
	return fmt.Sprintf("ended_%d", c.Keep)
}

// span returns the length of the slots of a class in microseconds. A row is kept for up to this
// much longer than its retention time.
func (c Class) span() int64 {
	if c.Keep == 0 {
		return 120 * day / 4 * 1e6
	}
	return int64(c.Keep) / 4 * 1e6
}

// Slot returns the slot of the rows of the class that ended at a time, in microseconds since
// 1970.
func (c Class) Slot(ended int64) Slot {
	n := ended / c.span()
	if ended%c.span() < 0 {
		n--
	}
	return Slot{c, n * c.span()}
}

// Slot is a second-level partition of the table ended, the table that has rows: those of a class
// that ended within its span.
type Slot struct {
	Class
	From int64 // the beginning of its span, in microseconds since 1970
}

// To returns the end of the span, which is not part of it, in microseconds since 1970.
func (s Slot) To() int64 { return s.From + s.span() }

// Over returns when no row of the slot is to be kept any longer, the zero time for never.
func (s Slot) Over() time.Time {
	if s.Keep == 0 {
		return time.Time{}
	}
	return time.UnixMicro(s.To() + int64(s.Keep)*1e6).UTC()
}

// Name returns the name of the partition. If a detached table has this name, the name of the
// partition ends in x and a number.
func (s Slot) Name() string { return fmt.Sprintf("%s_%d", s.Class.Name(), s.From/1e6) }

// SlotNames matches the names of slots, in the syntax of Go and of PostgreSQL.
const SlotNames = `^ended_(early_)?([0-9]+)_(-?[0-9]+)(x[0-9]+)?$`

var slotName = regexp.MustCompile(SlotNames)

// SlotNamed returns the slot whose partition has a name; ok is false if the name is not that of
// a slot.
func SlotNamed(name string) (s Slot, ok bool) {
	m := slotName.FindStringSubmatch(name)
	if m == nil {
		return s, false
	}
	keep, err := strconv.ParseInt(m[2], 10, 32)
	from, err2 := strconv.ParseInt(m[3], 10, 64)
	return Slot{Class{Keep: int32(keep), Early: m[1] != ""}, from * 1e6}, err == nil && err2 == nil
}

// SlotPattern returns an SQL expression whose value is a pattern of the names of one slot, by the
// columns keep and since (its From, in seconds) of the table tally.
func SlotPattern() string {
	return fmt.Sprintf(`('^ended_' || case when keep < 0 then 'early_' || case keep when %d then 0 else -keep end else keep::text end || '_' || since || '(x[0-9]+)?$')`, foreverEarly)
}
