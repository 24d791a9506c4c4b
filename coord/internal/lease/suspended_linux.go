package lease

import (
	"time"

	"golang.org/x/sys/unix"
)

// Suspended returns for how long the machine was suspended since it was started, as a lower and
// an upper bound: CLOCK_BOOTTIME counts that time, CLOCK_MONOTONIC does not.
func Suspended() (least, most time.Duration) {
	var before, with, after unix.Timespec
	for _, c := range [...]struct {
		id   int32
		time *unix.Timespec
	}{{unix.CLOCK_MONOTONIC, &before}, {unix.CLOCK_BOOTTIME, &with}, {unix.CLOCK_MONOTONIC, &after}} {
		if unix.ClockGettime(c.id, c.time) != nil {
			return 0, 0
		}
	}
	return time.Duration(with.Nano() - after.Nano()), time.Duration(with.Nano() - before.Nano())
}
