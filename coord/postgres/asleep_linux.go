package postgres

import (
	"time"

	"golang.org/x/sys/unix"
)

// asleep returns for how long the machine has slept since it was started, at least and at most:
// one clock counts that, and the other does not.
func asleep() (least, most time.Duration) {
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
