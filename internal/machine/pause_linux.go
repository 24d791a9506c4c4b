package machine

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Pause sleeps for d. The runtime's own timers are late by up to a millisecond on some
// machines; the kernel's are not.
func Pause(d time.Duration) {
	if d > 0 {
		ts := syscall.NsecToTimespec(d.Nanoseconds())
		_ = syscall.Nanosleep(&ts, nil) // too early is made up for by the next call
	}
}

// Sharpen makes the pauses of this thread exact: the kernel may otherwise add 50 us.
func Sharpen() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) }
