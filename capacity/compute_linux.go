package capacity

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// compute uses a core for d. Time that other threads take from the core does not count.
func compute(d time.Duration) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	until := threadTime() + d
	churnWhile(func() bool { return threadTime() < until })
}

// threadTime returns the CPU time of this thread.
func threadTime() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts) // this clock always exists
	return time.Duration(ts.Nano())
}
