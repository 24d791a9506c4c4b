package handler

import (
	"time"

	"golang.org/x/sys/unix"
)

// sinceBoot returns the time since the start of the machine, including suspended time.
func sinceBoot() time.Duration {
	var at unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &at) != nil {
		return time.Duration(time.Now().UnixNano())
	}
	return time.Duration(at.Nano())
}
