package capacity

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// compute uses a core for d. What others take of the core meanwhile does not count.
func compute(d time.Duration) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	until := threadTime() + d
	churnWhile(func() bool { return threadTime() < until })
}

// threadTime returns how long this thread has computed.
func threadTime() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts) // there always is one
	return time.Duration(ts.Nano())
}
