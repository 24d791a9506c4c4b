package machine

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Ticks is the number of units of CPU time per second in /proc, on every Linux.
const Ticks = 100

// Busy returns the CPU time of all processes since the start of the machine, including time that the
// host took from a virtual machine.
func Busy() time.Duration {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(text), "\n")
	total := time.Duration(0)
	for i, f := range strings.Fields(first) {
		const idle, iowait, guest = 4, 5, 9 // the time of guests is part of user time
		if i == 0 || i == idle || i == iowait || i >= guest {
			continue
		}
		n, _ := strconv.ParseInt(f, 10, 64)
		total += time.Duration(n) * time.Second / Ticks
	}
	return total
}

// Written returns the bytes that a process ("self" or a number), and its children that have ended,
// have written to disk.
func Written(process string) int64 {
	return Number(filepath.Join("/proc", process, "io"), "write_bytes:")
}
