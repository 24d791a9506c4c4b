package limits

import (
	"errors"
	"syscall"
	"time"
)

func kernelTimerProbes() []probe {
	return []probe{sleepProbe("timer/nanosleep", "the kernel's nanosleep", nanosleep)}
}

// nanosleep sleeps in the kernel, and blocks a thread.
func nanosleep(d time.Duration) {
	left := syscall.NsecToTimespec(int64(d))
	for {
		rest := left
		if err := syscall.Nanosleep(&rest, &left); !errors.Is(err, syscall.EINTR) {
			return
		}
	}
}
