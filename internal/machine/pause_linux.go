package machine

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Pause sleeps for d. Timers of the runtime are late by up to a millisecond on some machines; kernel
// timers are not.
func Pause(d time.Duration) {
	if d > 0 {
		ts := syscall.NsecToTimespec(d.Nanoseconds())
		_ = syscall.Nanosleep(&ts, nil) // a caller that waits for a time calls again
	}
}

// Sharpen makes the pauses of this thread exact: otherwise the kernel may add 50 us.
func Sharpen() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) }
