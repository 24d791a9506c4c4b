package main

import (
	"syscall"
	"time"

	"github.com/taskengine/taskengine/internal/machine"
)

// busy is the CPU time used until a moment.
type busy struct {
	at   time.Time
	all  time.Duration // by all processes; zero if the operating system does not tell
	ours time.Duration // by this program and by the servers it has stopped
}

func busyNow() busy {
	b := busy{at: time.Now(), all: machine.Busy()}
	for _, usage := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if syscall.Getrusage(usage, &u) == nil {
			b.ours += time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
	}
	return b
}

// others returns the number of cores that other processes have used since.
func (b busy) others() float64 {
	now := busyNow()
	return machine.Others(now.all-b.all, now.ours-b.ours, now.at.Sub(b.at))
}
