//go:build unix

package bench

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/taskengine/taskengine/internal/machine"
)

func processUsage() usage {
	var u usage
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var r unix.Rusage
		if unix.Getrusage(who, &r) == nil {
			u.cpu += time.Duration(r.Utime.Nano() + r.Stime.Nano())
			u.waits += int64(r.Nvcsw)
		}
	}
	u.written = machine.Written("self")
	return u
}
