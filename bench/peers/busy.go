package main

import (
	"syscall"
	"time"

	"github.com/taskengine/taskengine/internal/machine"
)

// busy is how much has been computed up to some time.
type busy struct {
	at   time.Time
	all  time.Duration // by the whole machine; zero if the system does not tell
	ours time.Duration // by this program and by the servers it has stopped
}

func busyNow() busy {
	b := busy{at: time.Now(), all: machine.Busy()}
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if syscall.Getrusage(who, &u) == nil {
			b.ours += time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
	}
	return b
}

// others returns how many cores have been used by others since.
func (b busy) others() float64 {
	now := busyNow()
	return machine.Others(now.all-b.all, now.ours-b.ours, now.at.Sub(b.at))
}
