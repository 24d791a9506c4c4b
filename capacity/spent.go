package capacity

import (
	"syscall"
	"time"

	"github.com/taskengine/taskengine/internal/machine"
)

// spent is what was used of the machine up to some moment. What the system does not tell
// is zero.
type spent struct {
	at      time.Time
	own     time.Duration // CPU of this process
	all     time.Duration // CPU of everybody
	written int64         // bytes that this process had written to disks
}

func spend() spent {
	s := spent{at: time.Now(), all: machine.Busy(), written: machine.Written("self")}
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) == nil {
		s.own = time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	return s
}

// foreign returns how many cores others used between two moments.
func foreign(from, to spent) float64 {
	return machine.Others(to.all-from.all, to.own-from.own, to.at.Sub(from.at))
}
