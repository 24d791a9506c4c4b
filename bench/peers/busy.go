package main

import (
	"strconv"
	"strings"
	"syscall"
	"time"
)

// busy is how much has been computed up to some time.
type busy struct {
	at   time.Time
	all  time.Duration // by the whole machine; zero if the system does not tell
	ours time.Duration // by this program and by the servers it has stopped
}

// tick is the unit of /proc/stat.
const tick = 10 * time.Millisecond

func busyNow() busy {
	b := busy{at: time.Now()}
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if syscall.Getrusage(who, &u) == nil {
			b.ours += time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
	}
	first, _, _ := strings.Cut(contents("/proc/stat"), "\n")
	for i, f := range strings.Fields(first) { // cpu user nice system idle iowait irq softirq steal guest ...
		if i == 0 || i == 4 || i == 5 || i > 8 {
			continue
		}
		n, _ := strconv.ParseInt(f, 10, 64) // the kernel writes numbers
		b.all += time.Duration(n) * tick
	}
	return b
}

// others returns how many cores have been used by others since.
func (b busy) others() float64 {
	now := busyNow()
	if now.all == 0 {
		return 0
	}
	return max(0, (now.all-b.all-(now.ours-b.ours)).Seconds()/now.at.Sub(b.at).Seconds())
}
