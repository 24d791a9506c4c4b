package capacity

import (
	"syscall"
	"time"

	"github.com/taskengine/taskengine/internal/machine"
)

// spent is the use of the machine until a moment. Figures that the operating system does not have are
// zero.
type spent struct {
	at      time.Time
	own     time.Duration // CPU of this process
	all     time.Duration // CPU of all processes
	written int64         // bytes that this process has written to disks
}

func spend() spent {
	s := spent{at: time.Now(), all: machine.Busy(), written: machine.Written("self")}
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) == nil {
		s.own = time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	return s
}

// foreign returns the number of cores that other processes used between two moments.
func foreign(from, to spent) float64 {
	return machine.Others(to.all-from.all, to.own-from.own, to.at.Sub(from.at))
}
