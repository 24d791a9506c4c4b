// Package ended names and bounds the partitions of the table ended. The table is divided
// twice: by the time for which rows are kept (the class), and within a class by the time at
// which they ended (the slot). The expiry drops a slot as a whole when no row of it is to be
// kept any longer.
package ended

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

// Spare is the partition for rows without a partition of their own. It is there as long as the table ended, and has no
// other partitions of its class. Its rows move to their own partitions when these are made.
var Spare = Partition{Class: Class{Keep: 2147483646}}

// Class is a table that is attached to the table ended. It has partitions, and no rows itself.
type Class struct {
	Keep  int32 // how long rows are kept, in seconds; 0 is for ever
	Early bool  // of rows that ended more than an hour before the time in their id
}

// foreverEarly is the number of the class of rows that ended early and are kept for ever. No
// other class has this number.
const foreverEarly = -(120*day + 1)

// Number returns the value of the column keep by which the table ended is divided: the time for
// which rows are kept, negative if they ended early.
func (c Class) Number() int32 {
	switch {
	case !c.Early:
		return c.Keep
	case c.Keep == 0:
		return foreverEarly
	}
	return -c.Keep
}

// Name returns the name of the table.
func (c Class) Name() string {
	if c.Early {
		return fmt.Sprintf("ended_early_%d", c.Keep)
	}
	return fmt.Sprintf("ended_%d", c.Keep)
}

// span returns the length of the partitions of the class in microseconds. A row is kept for up to
// this much longer than its retention time.
func (c Class) span() int64 {
	if c.Keep == 0 {
		return 120 * day / 4 * 1e6
	}
	return int64(c.Keep) / 4 * 1e6
}

// Partition returns the partition for rows of the class that ended at a time, in microseconds since
// 1970.
func (c Class) Partition(ended int64) Partition {
	if c == Spare.Class {
		return Spare
	}
	n := ended / c.span()
	if ended%c.span() < 0 {
		n--
	}
	return Partition{c, n * c.span()}
}

// Partition is a table that has the rows of a class that ended within its span.
type Partition struct {
	Class
	From int64 // the beginning of its span, in microseconds since 1970
}

// To returns the end of the span, which is not part of it, in microseconds since 1970.
func (s Partition) To() int64 { return s.From + s.span() }

// Over returns when no row of the partition is to be kept any longer; the zero time is never.
func (s Partition) Over() time.Time {
	if s.Keep == 0 || s == Spare {
		return time.Time{}
	}
	return time.UnixMicro(s.To() + int64(s.Keep)*1e6).UTC()
}

// Name returns the name of the table. If a detached table has this name, the name of the one that
// is used instead ends in x and a number.
func (s Partition) Name() string { return fmt.Sprintf("%s_%d", s.Class.Name(), s.From/1e6) }

// PartitionNames matches the names of partitions, in the syntax of Go and of PostgreSQL.
const PartitionNames = `^ended_(early_)?([0-9]+)_(-?[0-9]+)(x[0-9]+)?$`

var partitionName = regexp.MustCompile(PartitionNames)

// PartitionNamed returns the partition of a name; ok is false if it is not the name of a partition.
func PartitionNamed(name string) (s Partition, ok bool) {
	m := partitionName.FindStringSubmatch(name)
	if m == nil {
		return s, false
	}
	keep, err := strconv.ParseInt(m[2], 10, 32)
	from, err2 := strconv.ParseInt(m[3], 10, 64)
	return Partition{Class{Keep: int32(keep), Early: m[1] != ""}, from * 1e6}, err == nil && err2 == nil
}

// PartitionName returns an SQL expression for [Partition.Name], by the columns keep and since (its From, in seconds) of the table tally.
func PartitionName() string {
	return fmt.Sprintf(`('ended_' || case when keep < 0 then 'early_' || case keep when %d then 0 else -keep end else keep::text end || '_' || since)`, foreverEarly)
}

// PartitionBase returns an SQL expression for [Partition.Name], by the column relname of a table c.
func PartitionBase() string { return `regexp_replace(c.relname::text, 'x[0-9]+$', '')` }
