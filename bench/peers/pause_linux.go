package main

import (
	"syscall"
	"time"
)

// pause sleeps for d. The runtime's own timers are late by up to a millisecond on some
// machines; the kernel's are not.
func pause(d time.Duration) {
	if d > 0 {
		ts := syscall.NsecToTimespec(d.Nanoseconds())
		_ = syscall.Nanosleep(&ts, nil) // too early is made up for by the next call
	}
}
