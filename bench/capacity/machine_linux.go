package capacity

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// spent is what was used of the machine up to some moment.
type spent struct {
	at      time.Time
	own     time.Duration // CPU of this process
	all     time.Duration // CPU of everybody, and what the host of a virtual machine took
	written int64         // bytes that this process had written to disks
}

// userHZ is the unit of /proc/stat, the same on every Linux that Go runs on.
const userHZ = 100

// spend reads the counters; those that the system does not tell stay zero.
func spend() spent {
	s := spent{at: time.Now()}
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) == nil {
		s.own = time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	stat, _ := os.ReadFile("/proc/stat")
	line, _, _ := bytes.Cut(stat, []byte("\n"))
	for i, field := range strings.Fields(string(line)) {
		const idle, iowait, guest = 4, 5, 9 // guest time is counted in user time already
		if i == 0 || i == idle || i == iowait || i >= guest {
			continue
		}
		ticks, _ := strconv.ParseInt(field, 10, 64)
		s.all += time.Duration(ticks) * time.Second / userHZ
	}
	io, _ := os.ReadFile("/proc/self/io")
	for line := range strings.Lines(string(io)) {
		if n, ok := strings.CutPrefix(line, "write_bytes: "); ok {
			s.written, _ = strconv.ParseInt(strings.TrimSpace(n), 10, 64)
		}
	}
	return s
}

// foreign returns how many cores others used between two moments.
func foreign(from, to spent) float64 {
	others := (to.all - from.all) - (to.own - from.own)
	return max(0, others.Seconds()/to.at.Sub(from.at).Seconds())
}
